/** The files of a new project: they push as they are, and say what else could stand in them. */
import { stringify } from 'yaml';
import { PUSHED_FILE } from '../config/bundle.ts';
import { jsonSchemaText } from '../config/json-schema.ts';

export interface NewProject {
  readonly name: string;
  readonly slug: string;
  readonly domain: string;
  /** Who gets what is submitted. */
  readonly email: string;
  /** Key of the first form. */
  readonly form: string;
}

const SCHEMA_FILE = 'postern.schema.json';

/** Names of the files below the project's folder. */
export function projectFileNames({ form }: Pick<NewProject, 'form'>): string[] {
  return [PUSHED_FILE, SCHEMA_FILE, templateFile(form)];
}

/** Their contents by name. */
export function projectFiles(project: NewProject): ReadonlyMap<string, string> {
  const texts = [configuration(project), jsonSchemaText('project'), TEMPLATE];
  return new Map(projectFileNames(project).map((name, i) => [name, texts[i] ?? '']));
}

function templateFile(form: string): string {
  return `templates/${form}.html`;
}

function configuration(project: NewProject): string {
  const [name, slug, email, form] = [project.name, project.slug, project.email, project.form].map(scalar);
  const { domain } = project;
  const title = scalar(project.form.charAt(0).toUpperCase() + project.form.slice(1).replaceAll(/[-_]+/g, ' '));
  return `# yaml-language-server: $schema=./${SCHEMA_FILE}
#
# A Postern project: a domain, its forms, where their mail goes, and templates.
# \`postern test config\` says what is wrong with it, \`postern push\` puts it in force.

project:
  name: ${name}
  slug: ${slug}
  # Gets alerts, and what forms receive that have no other recipient.
  owner: ${email}

settings:
  # Submissions per hour and IP address to any form that does not say otherwise.
  rate_limit: 60

domains:
  ${scalar(domain)}:
    # Mail to addresses of this domain goes on to others. Only with the MX record that \`postern domains setup\` shows,
    # which brings ALL mail of the domain here.
    # forwarding:
    #   hello@${domain}: ${email}
    #   "*@${domain}": ${email}

    forms:
      # POST /${domain}/${project.form}, from any page of ${domain}: as an HTML form or as JSON.
      ${form}:
        name: ${title}
        to: ${email}
        template: ${form}
        # Whoever answers the mail writes to the visitor.
        replies: true
        required: [email, message]
        spam_protection:
          level: normal
          # A field that the page hides: people leave it empty, robots do not.
          honeypot: _service_honeypot
        # Thanks the visitor by mail:
        # acknowledgment:
        #   enabled: true
        #   subject: We have received your message

templates:
  ${form}:
    type: form
    subject: "{{ form.subject || 'New message' }} from {{ form.name || form.email }}"
    # \`postern templates preview ${project.form}\` shows it. A text part is made from it.
    html_file: ${scalar(templateFile(project.form))}
`;
}

/** A text as YAML, in quotes where it would be something else without. */
function scalar(text: string): string {
  return stringify(text, { lineWidth: 0, blockQuote: false }).trimEnd();
}

const TEMPLATE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>{{ form_name }}</title>
  </head>
  <body style="margin: 0; padding: 24px; font: 16px/1.5 sans-serif; color: #1c2127; background: #ffffff">
    <h1 style="margin: 0 0 16px; font-size: 20px">{{ form_name }}</h1>
    {% for field in fields %}
    <p style="margin: 0 0 16px">
      <strong>{{ field.label }}</strong><br />
      {{ field.value | nl2br }}
    </p>
    {% endfor %}
    <p style="margin: 0; font-size: 13px; color: #5f6b77">
      {{ domain }}, {{ timestamp | date: '%d %B %Y, %H:%M' }}
    </p>
  </body>
</html>
`;
