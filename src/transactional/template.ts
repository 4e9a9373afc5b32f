/** What a mail says: a template of one of the tenant's projects with the data that was given, or the words as they came. */
import { Recent } from '../access/recent.ts';
import type { Project } from '../config/snapshot.ts';
import { compileTemplates, TemplateRenderError, type TemplateSet } from '../templates/engine.ts';
import { htmlToText } from '../templates/plain-text.ts';
import type { NewEmail } from './email.ts';
import { fault, faultAt, type Fault } from './fault.ts';

export interface Content {
  readonly subject: string;
  readonly text: string;
  readonly html?: string | undefined;
}

/** When, and as which domain. */
export interface Sent {
  readonly now: number;
  readonly domain: string;
}

export interface Templates {
  /** The words of the mail, or why there are none. */
  contentOf(email: NewEmail, project: Project | undefined, sent: Sent): Content | Fault;
}

const REVISIONS = 100;

/** Templates as the projects have them now, compiled once while they are in use. */
export function createTemplates(): Templates {
  const compiled = new Recent<TemplateSet>(REVISIONS);

  function templatesOf({ revision, config }: Project): TemplateSet {
    const known = compiled.get(revision);
    if (known !== undefined) return known;
    const templates = compileTemplates(config.templates, { timezone: config.settings.timezone });
    compiled.set(revision, templates);
    return templates;
  }

  function render(email: NewEmail, project: Project, { now, domain }: Sent): Content | Fault {
    const name = nameOf(email.template ?? '');
    try {
      const { subject, text, html } = templatesOf(project).render(name, {
        timestamp: now,
        domain,
        // As in a form's mail; no visitor caused this.
        ip: '',
        ...email.data,
        data: email.data,
      });
      return withSubject(email.subject ?? subject, { text, html });
    } catch (error) {
      if (error instanceof TemplateRenderError) return faultAt('template', `cannot be rendered: ${error.message}`);
      throw error;
    }
  }

  return {
    contentOf(email, project, sent) {
      const { template, subject, text, html } = email;
      if (template !== undefined) {
        if (text !== undefined || html !== undefined) return faultAt('template', 'cannot stand beside text or html');
        return project === undefined ? notFound(template) : render(email, project, sent);
      }
      if (html !== undefined) return withSubject(subject, { text: text ?? htmlToText(html), html });
      if (text !== undefined) return withSubject(subject, { text });
      return faultAt('template', 'is missing: a mail needs a template, text or html');
    },
  };
}

function withSubject(subject: string | undefined, content: Omit<Content, 'subject'>): Content | Fault {
  if (subject === undefined || subject.trim() === '') {
    return faultAt('subject', 'is missing, and there is no template that has one');
  }
  return { ...content, subject };
}

/**
 * The project of these that a mail belongs to: the one that was named, else the one that has its template, else the only
 * one. `slug/name` names both.
 */
export function projectOf(email: NewEmail, own: readonly Project[]): Project | undefined | Fault {
  const { template } = email;
  const slug = email.project ?? slugOf(template ?? '');
  if (slug !== undefined) {
    const named = own.find((project) => project.slug === slug);
    if (named === undefined) return fault('NOT_FOUND', `There is no project ${JSON.stringify(slug)}.`);
    return template === undefined || has(named, nameOf(template)) ? named : notFound(template);
  }
  if (template === undefined) return own.length === 1 ? own[0] : undefined;
  const [first, ...others] = own.filter((project) => has(project, template));
  if (first === undefined) return notFound(template);
  if (others.length === 0) return first;
  const spellings = [first, ...others].map((project) => `${project.slug}/${template}`);
  return faultAt('template', `is in several projects; name one: ${spellings.join(', ')}`);
}

function has({ config }: Project, name: string): boolean {
  return Object.hasOwn(config.templates, name);
}

/** `slug` of `slug/name`. */
function slugOf(template: string): string | undefined {
  const at = template.indexOf('/');
  return at === -1 ? undefined : template.slice(0, at);
}

function nameOf(template: string): string {
  return template.slice(template.indexOf('/') + 1);
}

function notFound(template: string): Fault {
  return fault(
    'TEMPLATE_NOT_FOUND',
    `There is no template ${JSON.stringify(template)} in the projects of this account.`,
  );
}
