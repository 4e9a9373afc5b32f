/**
 * The form again with the submitted values, so that nobody enters a message twice. Without `action` it is sent to the
 * address of the page itself, whatever path a proxy in front shows.
 */
import { type Form, labelOf, ruleOf } from '../../config/forms.ts';
import type { FieldError } from '../../forms/check.ts';
import { html, type Html } from './html.ts';

export interface SubmittedValues {
  /** Names and values in the order sent. */
  readonly entries: readonly (readonly [name: string, value: string])[];
  /** Those that were chosen; without a name where none was. */
  readonly files: readonly { readonly field: string; readonly filename: string }[];
  /** The value of the field `form` where it named the form, and so is nothing that a visitor typed. */
  readonly formName?: string;
}

/** What can be given back; above this the browser's own memory (its Back button) does better. */
const MAX_CHARACTERS = 512 * 1024;
const CONTROL = new Set(['_subject', '_replyto', '_next', '_charset_']);

export interface RefilledForm {
  readonly form: Form;
  readonly submitted: SubmittedValues;
  readonly errors: readonly FieldError[];
  readonly action?: string | undefined;
}

interface Field {
  readonly name: string;
  readonly values: readonly string[];
  readonly files: readonly string[];
  readonly id: string;
  readonly faults: readonly string[];
}

/** The form, or undefined where nothing was typed or too much of it. */
export function refilledForm({
  form,
  submitted,
  errors,
  action,
}: RefilledForm): { html: Html; ids: ReadonlyMap<string, string> } | undefined {
  const size = submitted.entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (submitted.entries.length + submitted.files.length === 0 || size > MAX_CHARACTERS) return undefined;
  const traps = new Set(['_gotcha', form.config.spam_protection.honeypot]);
  const hidden = [
    ...submitted.entries.filter(([name]) => CONTROL.has(name)),
    ...(submitted.formName === undefined ? [] : [['form', submitted.formName] as const]),
  ];
  const shown = submitted.entries.filter(([name]) => !CONTROL.has(name) && !traps.has(name));
  const fields = fieldsOf(shown, submitted.files, errors);
  const uploads = fields.some((field) => isFile(form, field));
  return {
    html: html`<form method="post"${action !== undefined && html` action="${action}"`}${uploads && html` enctype="multipart/form-data"`} accept-charset="utf-8" novalidate>
${hidden.map(hiddenField)}${fields.map((field) => fieldHtml(form, field))}<p class="actions"><button type="submit">Send</button></p>
</form>`,
    ids: new Map(fields.map(({ name, id }) => [name, id])),
  };
}

/** The fields by name, in the order sent; those that are missing come after. */
function fieldsOf(
  entries: SubmittedValues['entries'],
  files: SubmittedValues['files'],
  errors: readonly FieldError[],
): Field[] {
  const values = new Map<string, string[]>();
  const filenames = new Map<string, string[]>();
  for (const [name, value] of entries) append(values, name, value);
  for (const { field, filename } of files) append(filenames, field, filename);
  const missing = errors.flatMap(({ field }) => (field === undefined ? [] : [field]));
  const names = new Set([...values.keys(), ...filenames.keys(), ...missing.filter((name) => !values.has(`${name}[]`))]);
  return [...names].map((name, i) => ({
    name,
    values: values.get(name) ?? [],
    files: filenames.get(name) ?? [],
    id: `field-${i + 1}`,
    faults: errors.filter(({ field }) => field === name || `${field}[]` === name).map(({ message }) => message),
  }));
}

function append(map: Map<string, string[]>, name: string, value: string): void {
  const list = map.get(name);
  if (list === undefined) map.set(name, [value]);
  else list.push(value);
}

function isFile(form: Form, { name, values, files }: Field): boolean {
  return values.length === 0 && (files.length > 0 || ruleOf(form.config, name)?.type === 'file');
}

function hiddenField([name, value]: SubmittedValues['entries'][number]): Html {
  return html`<input type="hidden" name="${name}" value="${value}">\n`;
}

function fieldHtml(form: Form, field: Field): Html {
  const { name, id, faults, values } = field;
  const wrong = faults.length > 0;
  const described = html`${wrong && html` aria-invalid="true" aria-describedby="${id}-fault"`}`;
  const fault = html`${wrong && html`<p class="fault" id="${id}-fault">${faults.join(' ')}</p>\n`}`;
  const label = labelOf(form.config, name);
  const { type, options } = ruleOf(form.config, name) ?? {};
  if (options !== undefined && type === 'list') {
    return html`<fieldset class="field${wrong && ' wrong'}" id="${id}"${described}>
<legend>${label}</legend>
${options.map((option) => choice({ name, option, chosen: values.includes(option) }))}${fault}</fieldset>
`;
  }
  return html`<div class="field${wrong && ' wrong'}">
<label for="${id}">${label}</label>
${controls(form, field, { described, options })}
${fault}</div>
`;
}

function choice({ name, option, chosen }: { name: string; option: string; chosen: boolean }): Html {
  const checked = chosen && html` checked`;
  return html`<label class="choice"><input type="checkbox" name="${name}" value="${option}"${checked}> ${option}</label>\n`;
}

function controls(form: Form, field: Field, more: { described: Html; options: readonly string[] | undefined }): Html {
  const { name, id, values } = field;
  const { described, options } = more;
  if (isFile(form, field)) {
    const names = field.files.filter((filename) => filename !== '');
    const again = names.length > 0 && html`\n<p class="hint">Please choose the file again: ${names.join(', ')}</p>`;
    return html`<input type="file" id="${id}" name="${name}" multiple${described}>${again}`;
  }
  if (options !== undefined && values.length < 2) {
    const chosen = values[0] ?? '';
    const all = options.includes(chosen) ? options : [chosen, ...options];
    const list = all.map((option) => html`<option${option === chosen && html` selected`}>${option}</option>`);
    return html`<select id="${id}" name="${name}"${described}>${list}</select>`;
  }
  const shown = values.length === 0 ? [''] : values;
  return html`${shown.map((value, i) => {
    const attributes = html` id="${id}${i > 0 && `-${i + 1}`}" name="${name}"${described}`;
    return textControl(form, { name, value, attributes });
  })}`;
}

/** Types whose input would drop what it cannot read (number, date) stay text, or the visitor's words would be lost. */
function textControl(form: Form, field: { name: string; value: string; attributes: Html }): Html {
  const { name, value, attributes } = field;
  const type = ruleOf(form.config, name)?.type ?? (name === 'email' ? 'email' : 'text');
  if (value.includes('\n') || value.length > 80 || /message|comment|text|body/i.test(name)) {
    // The parser drops the first line end in it: without ours it would be the visitor's.
    return html`<textarea rows="6"${attributes}>\n${value}</textarea>`;
  }
  if (type === 'number') return html`<input type="text" inputmode="decimal" value="${value}"${attributes}>`;
  const native = type === 'email' || type === 'tel' || type === 'url' ? type : 'text';
  return html`<input type="${native}" value="${value}"${attributes}>`;
}
