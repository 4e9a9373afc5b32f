/**
 * The form again, with what the visitor entered, so that nobody enters a message twice. What the visitor did not type is
 * sent again unseen, choices stay choices, and what cannot be sent again from here is shown to be copied.
 *
 * A browser does not say which control a value comes from. The form's `fields` do; where they do not, the name and the value
 * decide, and whatever is not plainly a token or a choice can be edited. A field with a fault always can.
 */
import { labelOf, ruleOf } from '../../config/snapshot.ts';
import type { FormConfig } from '../../config/schema.ts';
import {
  controlRoles,
  isBlank,
  isTicked,
  withoutBrackets,
  type ControlRole,
  type ControlRules,
} from '../../forms/fields.ts';
import type { Translation } from '../../languages/languages.ts';
import { html, type Content, type Html } from '../../lib/html.ts';

export interface SubmittedValues {
  /** Names and values in the order sent. */
  readonly entries: readonly (readonly [name: string, value: string])[];
  /** Those that were chosen; without a name where none was. */
  readonly files: readonly { readonly field: string; readonly filename: string }[];
  /** The value of the field `form` where it named the form, and so is nothing that a visitor typed. */
  readonly formName?: string;
}

/** A fault in the visitor's words. */
export interface Fault {
  readonly field?: string | undefined;
  readonly message: string;
}

export interface Refill {
  readonly config: ControlRules;
  readonly submitted: SubmittedValues;
  readonly errors: readonly Fault[];
  /** Of the page, sent with the form. */
  readonly token?: string | undefined;
  readonly translation: Translation;
}

/** What can be given back; above this the browser's own memory (its Back button) does better. */
const MAX_CHARACTERS = 512 * 1024;

/** HTML §4.10.21.5: a browser fills it in. */
const CHARSET = '_charset_';

type Rule = FormConfig['fields'][string];
type Control = 'hidden' | 'chosen' | 'checkbox' | 'choices' | 'select' | 'file' | 'textarea' | 'input';

interface Field {
  readonly name: string;
  readonly values: readonly string[];
  readonly files: readonly string[];
  readonly id: string;
  readonly label: string;
  readonly rule: Rule | undefined;
  readonly control: Control;
  readonly faults: readonly string[];
}

export interface RefilledForm {
  /** What is inside the form. */
  readonly content: Html;
  readonly hasFiles: boolean;
  /** The ids of the controls that are seen, by the names of their fields. */
  readonly ids: ReadonlyMap<string, string>;
}

/** The content of the form; undefined where nothing was entered, or too much of it. */
export function refilledForm({ config, submitted, errors, token, translation }: Refill): RefilledForm | undefined {
  if (!canGiveBack(submitted)) return undefined;
  const { entries, formName } = submitted;
  const fateOf = controlFates(config, submitted, errors);
  const control = [
    ...entries.filter(([name]) => fateOf(name) === 'again'),
    ...(formName === undefined ? [] : [['form', formName] as const]),
    ...(token === undefined ? [] : [['_challenge', token] as const]),
  ];
  const fields = fieldsOf({ config, submitted, errors, translation });
  return {
    content: html`${control.map(([name, value]) => hiddenInput(name, value))}${fields.map((field) => fieldHtml(field, translation))}<p class="actions"><button type="submit">${translation.say('form.send')}</button></p>`,
    hasFiles: fields.some((field) => field.control === 'file'),
    ids: new Map(fields.flatMap(({ name, id, control: kind }) => (kind === 'hidden' ? [] : [[name, id] as const]))),
  };
}

/** What was entered, for a page from which it cannot be sent; undefined as above. */
export function enteredText({ config, submitted, translation }: Omit<Refill, 'errors' | 'token'>): Html | undefined {
  if (!canGiveBack(submitted)) return undefined;
  const fields = fieldsOf({ config, submitted, errors: [], translation }).filter(
    ({ control, values }) => control !== 'hidden' && !values.every(isBlank),
  );
  if (fields.length === 0) return undefined;
  const entered = fields.map(({ label, values }) => {
    const lines = values.join('\n').split(/\r\n|\r|\n/);
    return html`<p><strong>${label}</strong>${lines.map((line) => html`<br><bdi>${line}</bdi>`)}</p>\n`;
  });
  return html`<h2>${translation.say('form.entered')}</h2>\n${entered}`;
}

function canGiveBack({ entries, files }: SubmittedValues): boolean {
  const size = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return entries.length + files.length > 0 && size <= MAX_CHARACTERS;
}

/** A browser may have filled in a honeypot, and what proves something about a page is good once. */
const DROPPED = new Set<ControlRole>(['honeypot', 'challenge', 'captcha']);

/** Other control fields are sent again as they came. A reply address that is wrong has to be corrected: it is shown. */
function controlFates(
  config: ControlRules,
  { entries }: SubmittedValues,
  errors: readonly Fault[],
): (name: string) => 'again' | 'dropped' | undefined {
  const roleOf = controlRoles(entries, config);
  return (name) => {
    if (name === CHARSET) return 'again';
    const role = roleOf(withoutBrackets(name));
    if (role === undefined || errors.some(({ field }) => field === name)) return undefined;
    return DROPPED.has(role) ? 'dropped' : 'again';
  };
}

/** The fields by name, in the order sent; those that are missing come after. */
function fieldsOf({ config, submitted, errors, translation }: Omit<Refill, 'token'>): Field[] {
  const fateOf = controlFates(config, submitted, errors);
  const shown = submitted.entries.filter(([name]) => fateOf(name) === undefined);
  const values = Map.groupBy(shown, ([name]) => name);
  const filenames = Map.groupBy(submitted.files, ({ field }) => field);
  const missing = errors.flatMap(({ field }) => (field === undefined || values.has(`${field}[]`) ? [] : [field]));
  return [...new Set([...values.keys(), ...filenames.keys(), ...missing])].map((name, i) => {
    const found = {
      name,
      values: values.get(name)?.map(([, value]) => value) ?? [],
      files: filenames.get(name)?.map(({ filename }) => filename) ?? [],
      rule: ruleOf(config, name),
      faults: errors.filter(({ field }) => field === name || `${field}[]` === name).map(({ message }) => message),
    };
    const isFile = !values.has(name) && (filenames.has(name) || found.rule?.type === 'file');
    const control = isFile ? 'file' : controlOf(found);
    return { ...found, control, id: `field-${i + 1}`, label: labelOf(config, name, translation) };
  });
}

function controlOf(field: Pick<Field, 'name' | 'values' | 'rule' | 'faults'>): Control {
  const { name, values, rule, faults } = field;
  if (rule !== undefined && (rule.type !== 'list' || rule.options !== undefined))
    return ruledControl(name, rule, values);
  const hasText = !values.every(isBlank);
  if (faults.length > 0 && !hasText && AGREEMENT.test(name)) return 'checkbox';
  if (faults.length === 0 && hasText) {
    if (rule === undefined && isMachineMade(name, values)) return 'hidden';
    if (rule !== undefined || isChoice(name, values)) return 'chosen';
  }
  return textControl(name, values);
}

function ruledControl(name: string, { type, options }: Rule, values: readonly string[]): Control {
  if (type === 'hidden' || type === 'checkbox' || type === 'textarea') return type;
  if (options === undefined) return type === 'text' ? textControl(name, values) : 'input';
  return type === 'list' ? 'choices' : values.length > 1 ? 'input' : 'select';
}

function textControl(name: string, values: readonly string[]): Control {
  return MESSAGE.test(name) || values.some(isLong) ? 'textarea' : 'input';
}

function isLong(value: string): boolean {
  return value.includes('\n') || value.length > 80;
}

/** Names of fields in which people write more than a line. */
const MESSAGE =
  /message|comment|text|body|question|description|details|feedback|note|inquiry|enquiry|nachricht|anfrage|bemerkung|mensa|messag|commentaire|bericht|wiadomo|zpr[aá]va|meddelande|besked|viesti|mesaj|сообщ|повідом/i;

/** Names of the tokens that frameworks and web sites put into their forms, and of what they count visits by. */
const MACHINE_NAME =
  /^_|csrf|xsrf|nonce|captcha|verification_?token|authenticity_?token|[-_]token$|^(?:utm_\w+|[gf]bclid|gclid|msclkid|form[-_]?(?:id|key|build_id|name)|session[-_]?id|token|timestamp|altcha)$/i;

/** A UUID, a long number in hexadecimal, a JSON Web Token, or random letters and digits. */
const MACHINE_VALUE =
  /^(?:[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}|[\da-f]{32,}|eyJ[\w-]+\.[\w-]+\.[\w-]*|(?=[^\d]*\d)(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[\w+/-]{32,}={0,2})$/;

function isMachineMade(name: string, values: readonly string[]): boolean {
  return MACHINE_NAME.test(name) || values.every((value) => MACHINE_VALUE.test(value));
}

/** Names of checkboxes by which visitors agree to something. */
const AGREEMENT =
  /consent|agree|accept|gdpr|rgpd|dsgvo|privacy|terms|\btos\b|opt[-_]?in|newsletter|subscribe|einwillig|zustimm|datenschutz|\bagb\b|akzept|aceit|acepto|acept|accett|accord|toestemming|akkoord|zgoda|souhlas|samtyck|samtykke/i;

/** Several values, or what browsers send of checkboxes: nobody typed that. */
function isChoice(name: string, values: readonly string[]): boolean {
  return (
    values.length > 1 ||
    name !== withoutBrackets(name) ||
    AGREEMENT.test(name) ||
    values.every((value) => isTicked(value) === true)
  );
}

function hiddenInput(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${value}">\n`;
}

function fieldHtml(field: Field, translation: Translation): Html {
  const { name, id, faults, values, label, rule, control } = field;
  if (control === 'hidden') return html`${values.map((value) => hiddenInput(name, value))}`;
  if (control === 'chosen') return chosenHtml(field, translation);
  const wrong = faults.length > 0;
  const described = html`${wrong && html` aria-invalid="true" aria-describedby="${id}-fault"`}`;
  const fault = html`${wrong && html`<p class="fault" id="${id}-fault">${faults.join(' ')}</p>\n`}`;
  const classes = `field${wrong ? ' wrong' : ''}`;
  if (control === 'checkbox') {
    return html`<div class="${classes}">
<label class="choice"><input type="checkbox" id="${id}"${checkboxAttributes(field)}${described}> ${label}</label>
${fault}</div>
`;
  }
  if (control === 'choices') {
    const choices = (rule?.options ?? []).map(
      (option) =>
        html`<label class="choice"><input type="checkbox" name="${name}" value="${option}"${values.includes(option) && html` checked`}> ${option}</label>\n`,
    );
    return html`<fieldset class="${classes}" id="${id}"${described}>
<legend>${label}</legend>
${choices}${fault}</fieldset>
`;
  }
  return html`<div class="${classes}">
<label for="${id}">${label}</label>
${controlHtml(field, described, translation)}
${fault}</div>
`;
}

/** A checkbox keeps the value that it has; where that is not known, the usual one. */
function checkboxAttributes({ name, values, rule }: Field): Html {
  const own = rule?.options ?? [];
  const ticked = values.find((value) => isTicked(value, own) === true);
  return html` name="${name}" value="${ticked ?? own[0] ?? 'on'}"${ticked !== undefined && html` checked`}`;
}

/** What was chosen is said and sent again; without the other choices it cannot be changed here. */
function chosenHtml({ name, id, label, values }: Field, { say }: Translation): Html {
  const given = values.filter((value) => !isBlank(value));
  const isTick = given.every((value) => isTicked(value) === true);
  const chosen = isTick ? say('mail.yes') : given.join(', ');
  return html`<p class="field" id="${id}"><strong>${label}</strong><br>${say('form.chosen', { values: chosen })}</p>
${values.map((value) => hiddenInput(name, value))}`;
}

function controlHtml({ name, id, values, files, rule, control }: Field, described: Html, { say }: Translation): Html {
  if (control === 'file') {
    const names = files.filter((filename) => filename !== '').join(', ');
    const again = names !== '' && html`\n<p class="hint">${say('form.chooseFileAgain', { names })}</p>`;
    return html`<input type="file" id="${id}" name="${name}" multiple${described}>${again}`;
  }
  const [chosen = '', ...rest] = values;
  if (control === 'select') {
    const options = rule?.options ?? [];
    const all = options.includes(chosen) ? options : [chosen, ...options];
    const list = all.map((option) => html`<option${option === chosen && html` selected`}>${option}</option>`);
    return html`<select id="${id}" name="${name}"${described}>${list}</select>`;
  }
  return html`${[chosen, ...rest].map((value, i) => {
    const attributes = html` id="${id}${i > 0 && `-${i + 1}`}" name="${name}" dir="auto"${described}`;
    // The parser drops the first line end in it: without ours it would be the visitor's.
    if (control === 'textarea') return html`<textarea rows="${rowsFor(value)}"${attributes}>\n${value}</textarea>`;
    return html`<input ${inputType(rule?.type ?? (name === 'email' ? 'email' : 'text'))} value="${value}"${attributes}>`;
  })}`;
}

/** As many as the text needs on a phone, within reason. */
function rowsFor(value: string): number {
  const LETTERS = 40;
  const lines = value.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / LETTERS)), 0);
  return Math.min(16, Math.max(6, lines));
}

/** Types whose input would drop what it cannot read (number, date) stay text, or the visitor's words would be lost. */
function inputType(type: string): Content {
  if (type === 'number') return html`type="text" inputmode="decimal"`;
  return html`type="${type === 'email' || type === 'tel' || type === 'url' ? type : 'text'}"`;
}
