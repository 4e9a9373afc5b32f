/**
 * What a form's mail is made from: the submission, the form as the revision that accepted it has it, and what templates
 * see of both. A template that fails is logged and replaced by the built-in one: no lead is lost to a template.
 */
import { labelOf } from '../config/forms.ts';
import type { FormConfig } from '../config/schema.ts';
import type { Log } from '../lib/log.ts';
import { cleanText } from '../mail/header-text.ts';
import type { FileRow, MessageRow, SubmissionRow } from '../store/tables.ts';
import { isBuiltin, oneLine } from '../templates/engine.ts';
import type { Builtin } from '../templates/builtin.ts';
import type { Rendered, TemplateType, Variables } from '../templates/template.ts';
import type { ProjectTemplates, RenderedPart, Renderer, RenderPart } from '../templates/render.ts';
import { valuesOf, type Field, type StoredControl } from './fields.ts';

export interface FormMail {
  readonly message: MessageRow;
  readonly submission: SubmissionRow;
  readonly fields: readonly Field[];
  readonly control: StoredControl;
  readonly files: readonly FileRow[];
  readonly form: { readonly key: string; readonly name: string; readonly config: FormConfig };
  /** Whose templates the form may name; undefined where it has the built-in ones alone. */
  readonly project: ProjectTemplates | undefined;
  readonly renderer: Renderer;
  readonly builtins: (timezone: string) => Readonly<Record<TemplateType, Builtin>>;
  /** The address that answers go through to the visitor; undefined where they go straight. */
  readonly relay: string | undefined;
  readonly log: Log;
}

/** What templates see; `more` are fields beside those that were sent. */
export function variablesOf({ submission, fields, files, form }: FormMail, more: readonly Field[] = []): Variables {
  return {
    form: byName(fields),
    fields: [...fields, ...more].map(([name, value]) => ({
      name,
      label: labelOf(form.config, name),
      value: valuesOf(value).join(', '),
    })),
    form_name: form.name,
    domain: submission.domain,
    timestamp: submission.created_at,
    ip: submission.ip,
    submission_id: submission.id,
    referer: submission.referer,
    files: files.map(({ filename, size, content_type }) => ({ filename, size, content_type })),
  };
}

/** Values by name, in an object that inherits nothing: `__proto__` and `toString` are names like any other. */
function byName(fields: readonly Field[]): Readonly<Record<string, unknown>> {
  const form: Record<string, unknown> = {};
  Object.setPrototypeOf(form, null);
  for (const [name, value] of fields) form[name] = value;
  return form;
}

/** What the templates and expressions of a form came to. */
export interface RenderedMail extends Rendered {
  /** Of the lines that were given: undefined where one is not given, blank or fails. */
  readonly lines: readonly (string | undefined)[];
}

/**
 * The form's template, or the built-in one of its type where that fails, and lines that may hold expressions: all within
 * one budget.
 */
export async function renderMail(
  mail: FormMail,
  variables: Variables,
  { type, lines }: { readonly type: TemplateType; readonly lines: readonly (string | undefined)[] },
): Promise<RenderedMail> {
  const { form, project, renderer, builtins, message } = mail;
  const name = type === 'form' ? form.config.template : (form.config.acknowledgment?.template ?? 'acknowledgment');
  const expressions = lines.filter((line) => line !== undefined).filter((line) => line.includes('{'));
  const { timezone = 'UTC' } = project ?? {};
  const own = project !== undefined && Object.hasOwn(project.templates, name);
  const parts: RenderPart[] = expressions.map((source) => ({ kind: 'line', source, timezone, variables }));
  if (own) parts.push({ kind: 'template', project, name, variables });
  const results = parts.length === 0 ? [] : await renderer.render(message.tenant, parts);
  const values = new Map(expressions.map((source, i) => [source, okOr(mail, source, results[i])?.text]));
  const custom = own ? okOr(mail, name, results.at(-1)) : undefined;
  if (!own && !isBuiltin(name)) logFailure(mail, name, 'there is no such template');
  return {
    ...(custom ?? builtins(timezone)[type](variables)),
    lines: lines.map((line) => {
      if (line === undefined) return undefined;
      const text = values.has(line) ? values.get(line) : oneLine(line);
      return text === '' ? undefined : text;
    }),
  };
}

function okOr(mail: FormMail, template: string, result: RenderedPart | undefined): Rendered | undefined {
  if (result !== undefined && 'ok' in result) return result.ok;
  logFailure(mail, template, result === undefined ? 'it was not rendered' : result.fault.message);
  return undefined;
}

/** The first that says something, as one line. */
export function firstLine(candidates: readonly (string | undefined)[], fallback: string): string {
  for (const text of candidates) {
    const line = cleanText(text ?? '', 250);
    if (line !== '') return line;
  }
  return fallback;
}

/** The address that the form's mail comes from. */
export function senderOf({ form, submission }: FormMail): string {
  return senderAddress(form.config, submission.domain);
}

/** The same of a form whose mail is from this domain. */
export function senderAddress({ from }: Pick<FormConfig, 'from'>, domain: string): string {
  return from ?? `forms@${domain}`;
}

/** The same for every try, and after a restart. */
export function messageIdOf({ message, submission }: FormMail): string {
  return `<${message.id.slice(message.id.indexOf('_') + 1)}@${submission.domain}>`;
}

function logFailure({ log, form, submission, message }: FormMail, template: string, error: string): void {
  const { revision, form: id } = submission;
  log.error('template.failed', { form: id, key: form.key, template, revision, message: message.id, error });
}
