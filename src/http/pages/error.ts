/** What went wrong, what to correct in which field, and the form again with all submitted values. */
import { type Form, labelOf, ruleOf } from '../../config/snapshot.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { type Refusal, type VisitorWords, visitorWords } from '../answer.ts';
import { localized, type MessageName, type Translation } from '../../languages/languages.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import { brandOf } from './brand.ts';
import { layout, mark, type Page } from './layout.ts';

export interface ErrorPage {
  readonly refusal: Refusal;
  readonly translation: Translation;
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

const HEADINGS: Partial<Record<ErrorCode, MessageName>> = {
  VALIDATION_FAILED: 'heading.checkForm',
  RATE_LIMITED: 'heading.tooMany',
  NOT_FOUND: 'heading.pageNotFound',
  METHOD_NOT_ALLOWED: 'heading.pageNotFound',
  ORIGIN_NOT_ALLOWED: 'heading.notAvailable',
};

export function errorPage({ refusal, form, wait, formAction, translation, ...more }: ErrorPage): Page {
  const { say } = translation;
  const faults = (refusal.errors ?? []).map(({ field, message }) => ({
    field,
    message: localized(message, translation),
  }));
  const { action } = more;
  const again = form && more.submitted && refilledForm(form, more.submitted, { errors: faults, action, translation });
  const heading = say(HEADINGS[refusal.code] ?? 'heading.notSent');
  const words = visitorWords(refusal, translation);
  return layout({
    title: say('heading.error', { heading }),
    translation,
    brand: form && brandOf(form),
    requestId: more.requestId,
    formAction: again && formAction,
    ancestors: more.ancestors,
    content: html`${mark('bad')}
<h1>${heading}</h1>
${form !== undefined && html`<p class="soft">${form.name}</p>\n`}<div class="alert" role="alert" tabindex="-1" autofocus>
<p>${words.text}</p>
${faults.length > 0 && html`<ul>${inOrder(faults, again?.ids).map((fault) => faultLine(fault, again?.ids))}</ul>\n`}</div>
${advice(refusal.code, again !== undefined, { wait, translation })}
${again?.html}${ownerDetail(words, translation)}`,
  });
}

/** What is wrong in the words of the reference, for the owner of the site. */
function ownerDetail({ detail }: VisitorWords, { say }: Translation): Content {
  if (detail === undefined) return undefined;
  return html`<details>\n<summary>${say('form.detailsForOwner')}</summary>\n<p lang="en" dir="ltr">${detail}</p>\n</details>`;
}

/** A fault in the visitor's words. */
interface Fault {
  readonly field?: string | undefined;
  readonly message: string;
}

/** As the fields stand on the page; faults of the whole form first. */
function inOrder(faults: readonly Fault[], ids: ReadonlyMap<string, string> = new Map()): readonly Fault[] {
  const names = [...ids.keys()].map((name) => name.replace(/\[\]$/, ''));
  return faults.toSorted((a, b) => names.indexOf(a.field ?? '') - names.indexOf(b.field ?? ''));
}

function faultLine({ field = '', message }: Fault, ids: ReadonlyMap<string, string> | undefined): Content {
  const id = ids?.get(field) ?? ids?.get(`${field}[]`);
  return id === undefined ? html`<li>${message}</li>` : html`<li><a href="#${id}">${message}</a></li>`;
}

function advice(
  code: ErrorCode,
  givenBack: boolean,
  { wait, translation }: { readonly wait: number | undefined; readonly translation: Translation },
): Content {
  const { say } = translation;
  if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED' || code === 'ORIGIN_NOT_ALLOWED') return undefined;
  if (code === 'OUTCOME_UNKNOWN') {
    return html`<p>${say('form.maybeReceived')}</p>`;
  }
  if (!givenBack) {
    const sentences = [say('form.nothingSent'), ...(wait === undefined ? [] : [waitWords(wait, translation)])];
    return html`<p>${[...sentences, say('form.useBack')].join(' ')}</p>`;
  }
  return html`<p>${say(code === 'UNAVAILABLE' || code === 'INTERNAL' ? 'form.kept' : 'form.checkFields')}</p>`;
}

/** When to try again, for a wait in seconds. */
function waitWords(seconds: number, { say }: Translation): string {
  const minutes = Math.max(1, seconds < 90 ? 1 : Math.ceil(seconds / 60));
  return minutes < 90
    ? say('form.retryMinutes', { minutes })
    : say('form.retryHours', { hours: Math.ceil(minutes / 60) });
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

interface Again {
  readonly errors: readonly Fault[];
  readonly action: string | undefined;
  readonly translation: Translation;
}

/**
 * The form again with the submitted values, so that nobody enters a message twice; undefined where nothing was typed or too
 * much of it. Without `action` it is sent to the address of the page itself, whatever path a proxy in front shows.
 */
function refilledForm(
  form: Form,
  submitted: SubmittedValues,
  { errors, action, translation }: Again,
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
${hidden.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">\n`)}${fields.map((field) => fieldHtml(field, translation))}<p class="actions"><button type="submit">${translation.say('form.send')}</button></p>
</form>`,
    ids: new Map(fields.map(({ name, id }) => [name, id])),
  };
}

/** The fields by name, in the order sent; those that are missing come after. */
function fieldsOf({ config }: Form, { entries, files }: SubmittedValues, errors: readonly Fault[]): Field[] {
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

function fieldHtml(field: Field, translation: Translation): Html {
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
${controls(field, described, translation)}
${fault}</div>
`;
}

function controls({ name, id, values, files, isFile, rule }: Field, described: Html, { say }: Translation): Html {
  if (isFile) {
    const names = files.filter((filename) => filename !== '');
    const again =
      names.length > 0 && html`\n<p class="hint">${say('form.chooseFileAgain', { names: names.join(', ') })}</p>`;
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
