/** What went wrong, what to correct in which field, and the form again with all submitted values. */
import { type Form, labelOf, ruleOf } from '../../config/snapshot.ts';
import type { FieldError } from '../../forms/check.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { wordsOf, type Refusal } from '../answer.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import { layout, mark, type Page } from './layout.ts';

export interface ErrorPage {
  readonly refusal: Refusal;
  readonly requestId: string;
  readonly form?: Form | undefined;
  /** What was read of the body; undefined where nothing was. */
  readonly submitted?: SubmittedValues | undefined;
  /** Until the limit has room again, seconds. */
  readonly wait?: number | undefined;
  readonly formAction?: readonly string[];
  /** Where the form is sent again; undefined: where it came from. */
  readonly action?: string | undefined;
  readonly ancestors?: readonly string[];
}

const HEADINGS: Partial<Record<ErrorCode, string>> = {
  VALIDATION_FAILED: 'Please check the form',
  RATE_LIMITED: 'Too many requests',
  NOT_FOUND: 'Page not found',
  METHOD_NOT_ALLOWED: 'Page not found',
  ORIGIN_NOT_ALLOWED: 'Form not available from this page',
};

export function errorPage({ refusal, form, wait, formAction, ...more }: ErrorPage): Page {
  const faults = refusal.errors ?? [];
  const again = form && more.submitted && refilledForm(form, more.submitted, { errors: faults, action: more.action });
  const heading = HEADINGS[refusal.code] ?? 'Your message was not sent';
  return layout({
    title: `Error: ${heading}`,
    requestId: more.requestId,
    formAction: again && formAction,
    ancestors: more.ancestors,
    content: html`${mark('bad')}
<h1>${heading}</h1>
${form !== undefined && html`<p class="soft">${form.name}</p>\n`}<div class="alert" role="alert" tabindex="-1" autofocus>
<p>${wordsOf(refusal)}</p>
${faults.length > 0 && html`<ul>${inOrder(faults, again?.ids).map((fault) => faultLine(fault, again?.ids))}</ul>\n`}</div>
${advice(refusal.code, again !== undefined, wait)}
${again?.html}`,
  });
}

/** As the fields stand on the page; faults of the whole form first. */
function inOrder(faults: readonly FieldError[], ids: ReadonlyMap<string, string> = new Map()): readonly FieldError[] {
  const names = [...ids.keys()].map((name) => name.replace(/\[\]$/, ''));
  return faults.toSorted((a, b) => names.indexOf(a.field ?? '') - names.indexOf(b.field ?? ''));
}

function faultLine({ field = '', message }: FieldError, ids: ReadonlyMap<string, string> | undefined): Content {
  const id = ids?.get(field) ?? ids?.get(`${field}[]`);
  return id === undefined ? html`<li>${message}</li>` : html`<li><a href="#${id}">${message}</a></li>`;
}

function advice(code: ErrorCode, givenBack: boolean, wait: number | undefined): Content {
  if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED' || code === 'ORIGIN_NOT_ALLOWED') return undefined;
  if (code === 'OUTCOME_UNKNOWN') {
    return html`<p>Your message may have been received. Please wait a few minutes for a reply before you send it again.</p>`;
  }
  const when = wait === undefined ? '' : ` Please try again in ${waitWords(wait)}.`;
  if (!givenBack) {
    return html`<p>Nothing was sent.${when} Use your browser’s Back button to return to the form; most browsers keep what you entered.</p>`;
  }
  return code === 'UNAVAILABLE' || code === 'INTERNAL'
    ? html`<p>Your entries are below. Please wait a minute and send the form again.</p>`
    : html`<p>Please check the marked fields.</p>`;
}

/** "about 12 minutes", for a wait in seconds. */
function waitWords(seconds: number): string {
  if (seconds < 90) return 'about a minute';
  const minutes = Math.ceil(seconds / 60);
  return minutes < 90 ? `about ${minutes} minutes` : `about ${Math.ceil(minutes / 60)} hours`;
}

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

interface Field {
  readonly name: string;
  readonly values: readonly string[];
  readonly files: readonly string[];
  readonly isFile: boolean;
  readonly id: string;
  readonly label: string;
  readonly rule: ReturnType<typeof ruleOf>;
  readonly faults: readonly string[];
}

/**
 * The form again with the submitted values, so that nobody enters a message twice; undefined where nothing was typed or too
 * much of it. Without `action` it is sent to the address of the page itself, whatever path a proxy in front shows.
 */
function refilledForm(
  form: Form,
  submitted: SubmittedValues,
  { errors, action }: { readonly errors: readonly FieldError[]; readonly action: string | undefined },
): { html: Html; ids: ReadonlyMap<string, string> } | undefined {
  const { entries, files, formName } = submitted;
  const size = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (entries.length + files.length === 0 || size > MAX_CHARACTERS) return undefined;
  const hidden = [
    ...entries.filter(([name]) => CONTROL.has(name)),
    ...(formName === undefined ? [] : [['form', formName] as const]),
  ];
  const fields = fieldsOf(form, submitted, errors);
  return {
    html: html`<form method="post"${action !== undefined && html` action="${action}"`}${fields.some(({ isFile }) => isFile) && html` enctype="multipart/form-data"`} accept-charset="utf-8" novalidate>
${hidden.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">\n`)}${fields.map(fieldHtml)}<p class="actions"><button type="submit">Send</button></p>
</form>`,
    ids: new Map(fields.map(({ name, id }) => [name, id])),
  };
}

/** The fields by name, in the order sent; those that are missing come after. */
function fieldsOf({ config }: Form, { entries, files }: SubmittedValues, errors: readonly FieldError[]): Field[] {
  const traps = new Set(['_gotcha', config.spam_protection.honeypot]);
  const shown = entries.filter(([name]) => !CONTROL.has(name) && !traps.has(name));
  const values = Map.groupBy(shown, ([name]) => name);
  const filenames = Map.groupBy(files, ({ field }) => field);
  const missing = errors.flatMap(({ field }) => (field === undefined || values.has(`${field}[]`) ? [] : [field]));
  return [...new Set([...values.keys(), ...filenames.keys(), ...missing])].map((name, i) => {
    const rule = ruleOf(config, name);
    return {
      name,
      values: values.get(name)?.map(([, value]) => value) ?? [],
      files: filenames.get(name)?.map(({ filename }) => filename) ?? [],
      isFile: !values.has(name) && (filenames.has(name) || rule?.type === 'file'),
      id: `field-${i + 1}`,
      label: labelOf(config, name),
      rule,
      faults: errors.filter(({ field }) => field === name || `${field}[]` === name).map(({ message }) => message),
    };
  });
}

function fieldHtml(field: Field): Html {
  const { name, id, faults, values, label, rule } = field;
  const wrong = faults.length > 0;
  const described = html`${wrong && html` aria-invalid="true" aria-describedby="${id}-fault"`}`;
  const fault = html`${wrong && html`<p class="fault" id="${id}-fault">${faults.join(' ')}</p>\n`}`;
  if (rule?.options !== undefined && rule.type === 'list') {
    const choices = rule.options.map(
      (option) =>
        html`<label class="choice"><input type="checkbox" name="${name}" value="${option}"${values.includes(option) && html` checked`}> ${option}</label>\n`,
    );
    return html`<fieldset class="field${wrong && ' wrong'}" id="${id}"${described}>
<legend>${label}</legend>
${choices}${fault}</fieldset>
`;
  }
  return html`<div class="field${wrong && ' wrong'}">
<label for="${id}">${label}</label>
${controls(field, described)}
${fault}</div>
`;
}

function controls({ name, id, values, files, isFile, rule }: Field, described: Html): Html {
  if (isFile) {
    const names = files.filter((filename) => filename !== '');
    const again = names.length > 0 && html`\n<p class="hint">Please choose the file again: ${names.join(', ')}</p>`;
    return html`<input type="file" id="${id}" name="${name}" multiple${described}>${again}`;
  }
  const [chosen = '', ...others] = values;
  if (rule?.options !== undefined && others.length === 0) {
    const all = rule.options.includes(chosen) ? rule.options : [chosen, ...rule.options];
    const list = all.map((option) => html`<option${option === chosen && html` selected`}>${option}</option>`);
    return html`<select id="${id}" name="${name}"${described}>${list}</select>`;
  }
  const type = rule?.type ?? (name === 'email' ? 'email' : 'text');
  return html`${[chosen, ...others].map((value, i) =>
    textControl(type, { name, value, attributes: html` id="${id}${i > 0 && `-${i + 1}`}" name="${name}"${described}` }),
  )}`;
}

/** Types whose input would drop what it cannot read (number, date) stay text, or the visitor's words would be lost. */
function textControl(type: string, field: { name: string; value: string; attributes: Html }): Html {
  const { name, value, attributes } = field;
  if (value.includes('\n') || value.length > 80 || /message|comment|text|body/i.test(name)) {
    // The parser drops the first line end in it: without ours it would be the visitor's.
    return html`<textarea rows="6"${attributes}>\n${value}</textarea>`;
  }
  if (type === 'number') return html`<input type="text" inputmode="decimal" value="${value}"${attributes}>`;
  const native = type === 'email' || type === 'tel' || type === 'url' ? type : 'text';
  return html`<input type="${native}" value="${value}"${attributes}>`;
}
