/** What a mail says: a template of one of the tenant's projects with the data that was given, or the words as they came. */
import type { Project } from '../config/snapshot.ts';
import { type Rendered, sentenceOf } from '../templates/template.ts';
import type { Renderer, RenderPart } from '../templates/render.ts';
import type { NewEmail } from '../contract/email.ts';
import { fault, faultAt, type Fault } from './email.ts';

export interface Content {
  readonly subject: string;
  readonly text: string;
  readonly html?: string | undefined;
}

/** A mail, and the project that it belongs to. */
export interface Wording {
  readonly email: NewEmail;
  readonly project: Project | undefined;
  /** The domain that it is sent as. */
  readonly domain: string;
}

/** Renders what belongs to one request within one budget; where a mail cannot be rendered, the fault says why. */
export async function contentsOf(
  wordings: readonly Wording[],
  { renderer, tenant, now }: { readonly renderer: Renderer; readonly tenant: string; readonly now: number },
): Promise<(Content | Fault)[]> {
  const plans = wordings.map((wording) => planOf(wording, now));
  const parts = plans.flatMap((plan) => ('part' in plan ? [plan.part] : []));
  const rendered = parts.length === 0 ? [] : await renderer.render(tenant, parts);
  let next = 0;
  return plans.map((plan) => {
    if (!('part' in plan)) return plan;
    const result = rendered[next++];
    if (result === undefined) throw new Error('a part was not rendered');
    if ('ok' in result) return plan.toContent(result.ok);
    const { fault } = result;
    const why = plan.part.kind === 'template' ? sentenceOf(fault) : fault.message;
    return faultAt(plan.path, `cannot be rendered: ${why}`);
  });
}

/** What has to be rendered of a mail, and what it says then; or what it says without. */
type Plan =
  | Content
  | Fault
  | { readonly part: RenderPart; readonly path: string; readonly toContent: (rendered: Rendered) => Content | Fault };

function planOf({ email, project, domain }: Wording, now: number): Plan {
  const { template, subject, text, html, data } = email;
  if (template !== undefined) {
    if (text !== undefined || html !== undefined) return faultAt('template', 'cannot be combined with text or html');
    if (project === undefined) return notFound(template);
    const { revision, config } = project;
    const { templates, settings } = config;
    return {
      path: 'template',
      part: {
        kind: 'template',
        project: { revision, templates, timezone: settings.timezone },
        name: nameOf(template),
        // `ip` as in a form's mail; no visitor caused this.
        variables: { timestamp: now, domain, ip: '', ...data, data },
      },
      toContent: (rendered) => withSubject(subject ?? rendered.subject, { text: rendered.text, html: rendered.html }),
    };
  }
  if (html !== undefined && text === undefined) {
    return {
      path: 'html',
      part: { kind: 'html', html },
      toContent: (rendered) => withSubject(subject, { text: rendered.text, html }),
    };
  }
  if (text !== undefined) return withSubject(subject, html === undefined ? { text } : { text, html });
  return faultAt('template', 'is missing: a mail needs a template, text or html');
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
