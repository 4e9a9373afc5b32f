/** A template of the project on this machine as its mail would be, with a sample submission. */
import { nearest, formatProblem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import type { Mailbox } from '../lib/addresses.ts';
import { compileTemplates, type TemplateSet } from '../templates/engine.ts';
import type { TemplateRenderError, TemplateType, Variables } from '../templates/template.ts';
import type { LocalProject } from './project-folder.ts';
import { UsageError } from './run.ts';
import { formsIn, sampleOf, type LocalForm } from './sample.ts';

/** Those that every project has. */
export const BUILTINS: ReadonlyMap<string, TemplateType> = new Map([
  ['default', 'form'],
  ['acknowledgment', 'acknowledgment'],
]);

export interface PreviewRequest {
  readonly config: ProjectConfig;
  readonly name: string;
  /** Id of the form that it is shown for; else the first that uses it. */
  readonly form?: string | undefined;
  /** Stands over the sample. */
  readonly data?: Variables | undefined;
}

export interface Preview {
  readonly name: string;
  readonly type: TemplateType;
  /** Id of the form that it is shown for; null where none uses it. */
  readonly form: string | null;
  readonly from: Mailbox;
  readonly subject: string;
  readonly text: string;
  readonly html: string | null;
}

/** Renders it. Throws UsageError for a template or form that there is not, and TemplateRenderError. */
export function previewOf({ config, name, form: asked, data }: PreviewRequest): Preview {
  const { templates, settings } = config;
  const set = compileTemplates(templates, { timezone: settings.timezone });
  if (!set.has(name)) throw unknownName('template', name, [...Object.keys(templates), ...BUILTINS.keys()]);
  const type = templates[name]?.type ?? BUILTINS.get(name) ?? 'form';
  const forms = formsIn(config);
  const form = asked === undefined ? forms.find((one) => uses(one, name, type)) : findForm(forms, asked);
  const variables = sampleOf(form, data);
  const { subject, text, html } = set.render(name, variables);
  const mail = { form, type, variables, set };
  return {
    name,
    type,
    form: form?.id ?? null,
    from: senderOf(mail),
    subject: subjectOf(mail) ?? (subject || usualSubject(type, variables)),
    text,
    html: html ?? null,
  };
}

/** Whether its mail of this kind is made from the template. */
export function uses({ config }: LocalForm, name: string, type: TemplateType): boolean {
  const { template, acknowledgment } = config;
  return type === 'form' ? template === name : acknowledgment?.enabled === true && acknowledgment.template === name;
}

/** The form of this id; its key alone will do where no other has it. Throws UsageError. */
export function findForm(forms: readonly LocalForm[], id: string): LocalForm {
  const found = forms.find((form) => form.id === id);
  if (found !== undefined) return found;
  const [only, ...others] = forms.filter((form) => form.id.endsWith(`/${id}`));
  if (only !== undefined && others.length === 0) return only;
  throw unknownName(
    'form',
    id,
    forms.map((form) => form.id),
  );
}

/** `file:line:column: …` of what failed in the template; undefined where it is in no template but a subject of a form. */
export function placeOf({ fault }: TemplateRenderError, project: Pick<LocalProject, 'judge'>): string | undefined {
  const found = project.judge((templates) => (Object.hasOwn(templates, fault.template) ? [fault] : []));
  const [problem] = 'errors' in found ? found.errors : [];
  return problem && formatProblem(problem);
}

interface SampleMail {
  readonly form: LocalForm | undefined;
  readonly type: TemplateType;
  readonly variables: Variables;
  readonly set: TemplateSet;
}

/** An expression in the sender's name is there for the notification alone: elsewhere it would repeat the visitor's words. */
function senderOf({ form, type, variables, set }: SampleMail): Mailbox {
  const { form_name: usual, domain } = variables;
  const { from_name: source = '', from } = form?.config ?? {};
  const name = type === 'acknowledgment' && source.includes('{') ? '' : set.line(source, variables);
  return { name: name || String(usual), address: from ?? `forms@${String(domain)}` };
}

/** The form's own goes before its template's. */
function subjectOf({ form, type, variables, set }: SampleMail): string | undefined {
  const source = type === 'form' ? form?.config.subject : form?.config.acknowledgment?.subject;
  return source === undefined ? undefined : set.line(source, variables) || undefined;
}

function usualSubject(type: TemplateType, { form_name: name }: Variables): string {
  return type === 'form' ? `New submission: ${String(name)}` : 'We have received your message';
}

function unknownName(thing: string, name: string, known: readonly string[]): UsageError {
  const meant = nearest(name, known);
  const hint = meant === undefined ? `there are: ${known.join(', ') || 'none'}` : `did you mean ${meant}?`;
  return new UsageError(`the project has no ${thing} ${name}; ${hint}`);
}
