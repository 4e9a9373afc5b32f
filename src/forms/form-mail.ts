/**
 * What a form's mail is made from: the submission, the form as the revision that accepted it has it, and what templates
 * see of both. A template that fails is logged and replaced by the built-in one: no lead is lost to a template.
 */
import { labelOf } from '../config/label.ts';
import type { FormConfig } from '../config/schema.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { cleanText } from '../mail/header-text.ts';
import type { FileRow, MessageRow, SubmissionRow } from '../store/tables.ts';
import type { Rendered, TemplateSet, TemplateType, Variables } from '../templates/engine.ts';
import { valuesOf, type Field } from './fields.ts';
import type { StoredControl } from './stored.ts';

export interface FormMail {
  readonly message: MessageRow;
  readonly submission: SubmissionRow;
  readonly fields: readonly Field[];
  readonly control: StoredControl;
  readonly files: readonly FileRow[];
  readonly form: { readonly key: string; readonly name: string; readonly config: FormConfig };
  readonly templates: TemplateSet;
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

/** The form's template, or the built-in one of its type where that fails. */
export function renderTemplate(mail: FormMail, type: TemplateType, variables: Variables): Rendered {
  const { form, templates } = mail;
  const name = type === 'form' ? form.config.template : (form.config.acknowledgment?.template ?? 'acknowledgment');
  try {
    return templates.render(name, variables);
  } catch (error) {
    logFailure(mail, name, error);
    return templates.renderBuiltin(type, variables);
  }
}

/** A subject or name that may hold expressions; undefined where it is not given, blank or fails. */
export function renderLine(mail: FormMail, source: string | undefined, variables: Variables): string | undefined {
  if (source === undefined) return undefined;
  try {
    const line = mail.templates.line(source, variables);
    return line === '' ? undefined : line;
  } catch (error) {
    logFailure(mail, source, error);
    return undefined;
  }
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

function logFailure({ log, form, submission, message }: FormMail, template: string, error: unknown): void {
  const { revision, form: id } = submission;
  log.error('template.failed', {
    form: id,
    key: form.key,
    template,
    revision,
    message: message.id,
    ...errorFields(error),
  });
}
