/** `postern init`: a project in a folder, from a few answers. Files that are there already stay as they are. */
import { lstat, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { domainToUnicode } from 'node:url';
import { stringify } from 'yaml';
import { PUSHED_FILE } from '../config/bundle.ts';
import * as is from '../config/scalars.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { writeJson } from './output.ts';
import { answerTo, EXIT, type Question } from './run.ts';
import { CommandFailed, FilesRefused } from './client.ts';
import type { Terminal } from './terminal.ts';
import { jsonSchemaText } from '../config/schema.ts';

export interface InitFlags extends Partial<NewProject> {
  /** Takes what is proposed. */
  readonly yes: boolean;
  /** Writes over what is there. */
  readonly force: boolean;
  readonly json: boolean;
}

/** Writes the files. Returns the exit code; throws UsageError for a missing value if standard input is not a terminal. */
export async function init(terminal: Terminal, folder: string | undefined, flags: InitFlags): Promise<number> {
  const { write } = terminal;
  const root = resolve(terminal.folder, folder ?? '.');
  // Before any question: the answers would be lost.
  if (!flags.force) await refuseTaken(terminal, root, [PUSHED_FILE]);
  const project = await answersTo(terminal, flags);
  const files = projectFiles(project, 'folder');
  const names = [...files.keys()];
  if (!flags.force) await refuseTaken(terminal, root, names);
  for (const [name, text] of files) await writeNew(join(root, name), text, flags.force);
  if (flags.json) writeJson(terminal, { folder: root, project: project.slug, files: names });
  else {
    for (const name of names) write(`Created ${relative(terminal.folder, join(root, name))}\n`);
    const next = [
      ['postern test config', 'Check the configuration'],
      [`postern templates preview ${project.form}`, 'Preview the notification'],
      ['postern push', 'Deploy the project'],
      [`postern domains setup ${project.domain}`, 'Show the DNS records to add'],
    ] as const;
    const wide = Math.max(...next.map(([command]) => command.length));
    write(`\nNext${folder === undefined ? '' : `, in ${folder}`}:\n`);
    for (const [command, does] of next) write(`  ${command.padEnd(wide)}  ${does}\n`);
  }
  return EXIT.done;
}

/** Throws FilesRefused if any of these files exists. */
async function refuseTaken({ folder }: Terminal, root: string, names: readonly string[]): Promise<void> {
  const there: string[] = [];
  for (const path of names.map((name) => join(root, name))) {
    try {
      await lstat(path);
      there.push(relative(folder, path));
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw cannotWrite(path, error);
    }
  }
  if (there.length === 0) return;
  const exist = there.length === 1 ? 'exists' : 'exist';
  const words = `${there.join(', ')} already ${exist}. Nothing was written. To overwrite, add --force.`;
  throw new FilesRefused(words, [], EXIT.failed);
}

async function writeNew(path: string, text: string, force: boolean): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { flag: force ? 'w' : 'wx' });
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

function cannotWrite(path: string, cause: unknown): CommandFailed {
  return new CommandFailed(`Cannot write ${path}: ${messageOf(cause)}`, { cause });
}

async function answersTo(terminal: Terminal, flags: InitFlags): Promise<NewProject> {
  const domain = await ask('domain', { question: 'Domain of the website', read: is.domainName });
  const email = await ask('email', { question: 'Email address for submissions', read: is.address });
  const shown = domainToUnicode(domain);
  const name = await ask('name', { question: 'Project name', suggestion: shown, read: is.text(200) });
  const slug = await ask('slug', {
    question: 'Short name for URLs and commands',
    // Of the ASCII form: two names in another script would have the same slug.
    suggestion: is.slugOf(name === shown ? domain : name),
    read: is.slug,
  });
  const form = await ask('form', { question: 'ID of the first form', suggestion: 'contact', read: is.identifier });
  return { domain, email, name, slug, form };

  function ask(flag: keyof NewProject, asked: Pick<Question, 'question' | 'suggestion' | 'read'>): Promise<string> {
    return answerTo(terminal, { ...asked, flag: `--${flag}`, given: flags[flag], yes: flags.yes });
  }
}

export interface NewProject {
  readonly name: string;
  readonly slug: string;
  readonly domain: string;
  /** Who gets what is submitted. */
  readonly email: string;
  /** Key of the first form. */
  readonly form: string;
}

/** What is proposed for a domain and a recipient, without a question. */
export function proposedProject({ domain, email }: Pick<NewProject, 'domain' | 'email'>): NewProject {
  return { domain, email, name: domainToUnicode(domain), slug: is.slugOf(domain), form: 'contact' };
}

const SCHEMA_FILE = 'postern.schema.json';

/** Where the files of a project lie: in a folder that is pushed, or beside server.yml. */
type ProjectPlace = 'folder' | 'server';

/** The files of a project by their names below its folder, or below the folder of server.yml. */
export function projectFiles(project: NewProject, place: ProjectPlace): ReadonlyMap<string, string> {
  if (place === 'server') {
    const template = `templates/${project.slug}-${project.form}.html`;
    const head = `# A Postern project: a domain, its forms, where their mail goes, and templates.
# The server deploys this file when it changes. \`postern config check\` finds mistakes in it.
`;
    return new Map([
      [`projects/${project.slug}.yml`, configuration(project, { head, template: `../${template}` })],
      [template, TEMPLATE],
    ]);
  }
  const template = `templates/${project.form}.html`;
  const head = `# yaml-language-server: $schema=./${SCHEMA_FILE}
#
# A Postern project: a domain, its forms, where their mail goes, and templates.
# \`postern test config\` checks this file, \`postern push\` deploys it.
`;
  return new Map([
    [PUSHED_FILE, configuration(project, { head, template })],
    [SCHEMA_FILE, jsonSchemaText('project')],
    [template, TEMPLATE],
  ]);
}

function configuration(project: NewProject, place: { readonly head: string; readonly template: string }): string {
  const [name, slug, email, form] = [project.name, project.slug, project.email, project.form].map(scalar);
  const { domain } = project;
  const title = scalar(project.form.charAt(0).toUpperCase() + project.form.slice(1).replaceAll(/[-_]+/g, ' '));
  return `${place.head}
project:
  name: ${name}
  slug: ${slug}
  # Alert contact, and recipient of forms without one.
  owner: ${email}

settings:
  # Submissions per hour and IP address, unless the form sets its own limit.
  rate_limit: 60

domains:
  ${scalar(domain)}:
    # Forward mail for addresses of this domain. Requires the MX record shown by \`postern domains setup\`,
    # which routes ALL mail for the domain to this server.
    # forwarding:
    #   hello@${domain}: ${email}
    #   "*@${domain}": ${email}

    forms:
      # POST /${domain}/${project.form}, from any page of ${domain}, as an HTML form or JSON.
      ${form}:
        name: ${title}
        to: ${email}
        template: ${form}
        # Replies to the notification go to the visitor.
        replies: true
        required: [email, message]
        # Pages on your own computer may use the form, too. Remove this when the site is live.
        allow_localhost: true
        spam_protection:
          level: normal
          # A hidden field: people leave it empty, bots fill it in.
          honeypot: _service_honeypot
        # Send the visitor an acknowledgment:
        # acknowledgment:
        #   enabled: true
        #   subject: We have received your message

templates:
  ${form}:
    type: form
    subject: "{{ form.subject || 'New message' }} from {{ form.name || form.email }}"
    # \`postern templates preview ${project.form}\` renders it. The text part is generated from it.
    html_file: ${scalar(place.template)}
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
