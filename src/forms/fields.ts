/**
 * The fields of a submission: which of them are data and which control the submission, how they are stored, and whether they
 * are what the form asks for. Names are chosen by the client (`__proto__`, `toString`), so they are never keys of an object
 * that inherits anything. Order is the order sent.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { fieldPattern, patternProblem, type FieldPattern } from '../config/patterns.ts';
import type { FormConfig } from '../config/schema.ts';
import { labelOf, ruleOf, type Form } from '../config/snapshot.ts';
import { message, type Localized, type MessageName, type MessageValues } from '../languages/languages.ts';
import { parseAddress } from '../lib/addresses.ts';
import { LruMap } from '../lib/lru.ts';
import { isOfTypes } from './file-types.ts';
import type { Upload } from './files.ts';

/** A body as it was read: nothing is interpreted yet. */
export interface SubmittedBody {
  /** In the order sent; a list is a repeated name. */
  readonly entries: readonly (readonly [name: string, value: string])[];
  readonly files: readonly Upload[];
}

export type Field = readonly [name: string, value: string | readonly string[]];

/** What steers a submission and is never shown as data. */
export interface Control {
  /** `_subject`, or what another service calls so; likewise below. */
  readonly subject?: string | undefined;
  /** `_replyto` */
  readonly replyTo?: string | undefined;
  /** `_next` */
  readonly next?: string | undefined;
  /** `_challenge`: the page's token, or its answer to the form's challenge. */
  readonly challenge?: string | undefined;
  /** What widgets of captchas put into the form, by the names of their fields. */
  readonly captchas?: ReadonlyMap<string, string> | undefined;
  /** Names of honeypots that were filled in. */
  readonly trapped: readonly string[];
}

/**
 * Fields and control fields. A repeated name, or one that ends in `[]`, is a list. Of control fields
 * that are repeated the first counts.
 */
export function sortEntries(
  entries: SubmittedBody['entries'],
  config: FormConfig,
): { fields: ReadonlyMap<string, string | readonly string[]>; control: Control } {
  const fields = new Map<string, string | string[]>();
  const captchas = new Map<string, string>();
  const control: { subject?: string; replyTo?: string; next?: string; challenge?: string; trapped: string[] } = {
    trapped: [],
  };
  const roleOf = controlRoles(entries, config);
  for (const [sent, value] of entries) {
    const name = withoutBrackets(sent);
    const role = roleOf(name);
    if (role === undefined || isMistaken(role, name, value)) addField(fields, sent, value);
    else if (role === 'honeypot' && isTrapped(value)) control.trapped.push(name);
    else if (role === 'subject' || role === 'next' || role === 'challenge') control[role] ??= value;
    else if (role === 'captcha') captchas.set(name, captchas.get(name) ?? value);
    // With StaticForms, @ means the visitor's address: it is that here anyway.
    else if (role === 'replyTo' && value !== '@') control.replyTo ??= value;
  }
  return { fields, control: { ...control, ...(captchas.size > 0 && { captchas }) } };
}

/** The control field that says where the browser goes afterwards. */
export function nextOf(entries: SubmittedBody['entries'], config: FormConfig): string | undefined {
  const roleOf = controlRoles(entries, config);
  return entries.find(([sent]) => roleOf(withoutBrackets(sent)) === 'next')?.[1];
}

/** Another service's reply address that is none: nobody is refused for it, and nothing that he wrote gets lost. */
function isMistaken(role: ControlRole, name: string, value: string): boolean {
  if (role !== 'replyTo' || name === '_replyto' || isBlank(value) || value === '@') return false;
  return parseAddress(value.trim()) === undefined;
}

function addField(fields: Map<string, string | string[]>, sent: string, value: string): void {
  const name = withoutBrackets(sent);
  const known = fields.get(name);
  if (known === undefined) fields.set(name, name === sent ? value : [value]);
  else if (typeof known === 'string') fields.set(name, [known, value]);
  else known.push(value);
}

/** `x[]` is the field `x`, as a list. */
export function withoutBrackets(name: string): string {
  return name.length > 2 && name.endsWith('[]') ? name.slice(0, -2) : name;
}

/** Whether there is nothing but white space. */
export function isBlank(value: string): boolean {
  return !/\S/.test(value);
}

/** The values of a field: one, or those of its list. */
export function valuesOf(value: string | readonly string[]): readonly string[] {
  return typeof value === 'string' ? [value] : value;
}

/** What browsers and programs send of a checkbox without a value of its own that is ticked, and of one that is not. */
const TICKS = new Set(['on', 'yes', 'true', '1']);
const NO_TICKS = new Set(['off', 'no', 'false', '0']);

/** What a value says of a checkbox, which may have values of its own; undefined: it is no checkbox's. */
export function isTicked(value: string, own: readonly string[] = []): boolean | undefined {
  const word = value.trim().toLowerCase();
  if (own.includes(value) || TICKS.has(word)) return true;
  return word === '' || NO_TICKS.has(word) ? false : undefined;
}

/** Whether the field holds the visitor's address: it is called `email`, or the form says so. */
export function isEmailField(name: string, config: Pick<FormConfig, 'fields'>): boolean {
  if (name.length === 5 && name.toLowerCase() === 'email') return true;
  return Object.hasOwn(config.fields, name) && config.fields[name]?.type === 'email';
}

/** The first address in a field of the visitor's address; a field called `email` goes before others. */
export function emailOf(fields: readonly Field[], config: Pick<FormConfig, 'fields'>): string | undefined {
  let first: string | undefined;
  for (const [name, value] of fields) {
    if (!isEmailField(name, config)) continue;
    const found = firstAddress(valuesOf(value));
    if (found !== undefined && name.toLowerCase() === 'email') return found;
    first ??= found;
  }
  return first;
}

function firstAddress(texts: readonly string[]): string | undefined {
  for (const text of texts) {
    const parsed = parseAddress(text.trim());
    if (parsed !== undefined) return parsed.address;
  }
  return undefined;
}

/** The address in `_replyto`. */
export function replyToOf(control: Pick<Control, 'replyTo'>): string | undefined {
  return parseAddress(control.replyTo?.trim() ?? '')?.address;
}

/** The same for the same data, whatever boundary it came with; files must have been received with `hash`. */
export function hashOfBody({ entries, files }: SubmittedBody): string {
  const parts = files.map((file) => [file.field, file.filename, file.contentType, file.size, file.sha256]);
  return createHash('sha256')
    .update(JSON.stringify([entries, parts]))
    .digest('hex');
}

const fields = z.array(z.tuple([z.string(), z.union([z.string(), z.array(z.string())])]));
const control = z.object({ _subject: z.string().optional(), _replyto: z.string().optional() });
const reason = z.object({ name: z.string(), score: z.int(), detail: z.string() });
const notification = z.object({
  form: z.string(),
  to: z.array(z.string()),
  recipient: z.string().optional(),
  insteadOf: z.array(z.string()).optional(),
});
const acknowledgment = z.object({ form: z.string(), to: z.string(), replyTo: z.string().optional() });
const confirmation = z.object({ form: z.string(), to: z.string(), link: z.string() });

/** The control fields that mail uses. */
export type StoredControl = Pick<Control, 'subject' | 'replyTo'>;
/**
 * `source` of a notification: the form's key in its domain, who is named in it, which of them it is for, and instead of whom
 * they get it where that is a fallback.
 */
export type NotificationSource = z.output<typeof notification>;
/** `source` of an acknowledgment. */
export type AcknowledgmentSource = z.output<typeof acknowledgment>;
/** `source` of the mail with the link that confirms a submission. */
export type ConfirmationSource = z.output<typeof confirmation>;

/** `submissions.fields` */
export function writeFields(value: readonly Field[]): string {
  return JSON.stringify(value);
}

export function readFields(json: string): readonly Field[] {
  return fields.parse(JSON.parse(json));
}

/** `submissions.control` */
export function writeControl({ subject, replyTo }: StoredControl): string {
  return JSON.stringify({ _subject: subject, _replyto: replyTo });
}

export function readControl(json: string): StoredControl {
  const { _subject: subject, _replyto: replyTo } = control.parse(JSON.parse(json));
  return { subject, replyTo };
}

/** `submissions.spam_reasons` */
export function readReasons(json: string): readonly z.output<typeof reason>[] {
  return z.array(reason).parse(JSON.parse(json));
}

/** `messages.source` */
export function readNotificationSource(json: string): NotificationSource {
  return notification.parse(JSON.parse(json));
}

export function readAcknowledgmentSource(json: string): AcknowledgmentSource {
  return acknowledgment.parse(JSON.parse(json));
}

export function readConfirmationSource(json: string): ConfirmationSource {
  return confirmation.parse(JSON.parse(json));
}

/** `messages.source` of the kind `confirmation` without its link. */
export function withoutLink(json: string): string {
  return JSON.stringify({ ...readConfirmationSource(json), link: '' });
}

// Control fields, which steer a submission instead of being data: ours, those of other form services, and what captchas and
// frameworks add to a form. A form that was written for one of these services works when only its address changes.
// docs/moving.md has the same table for people; a test compares the two.
// Nobody names a question `_cc` or `authenticity_token`: such names are always control fields. `redirect` or `from_name` may
// be a question of an honest form, so it is a control field only in a post that carries the key of the service that gives it
// a meaning. A field that the form's own configuration names is always data.

/**
 * `next`: where the browser goes afterwards. `subject` and `replyTo`: of the notification. `challenge`: the page's token,
 * or its answer to the form's challenge. `captcha`: what the widget of a captcha puts into the form. `ignored`: an address that would
 * get mail, a look or a check that the form's configuration alone decides about, or what means nothing here.
 */
export type ControlRole = 'honeypot' | 'subject' | 'replyTo' | 'next' | 'challenge' | 'captcha' | 'ignored';

/** Our own, which Formspree has as well. No configuration makes data of them. */
const OWN: ReadonlyMap<string, ControlRole> = new Map([
  ['_gotcha', 'honeypot'],
  ['_subject', 'subject'],
  ['_replyto', 'replyTo'],
  ['_next', 'next'],
  ['_challenge', 'challenge'],
]);

/** Of other services, captchas and frameworks, by what they are here. */
const KNOWN: ReadonlyMap<string, ControlRole> = new Map([
  ...withRole('honeypot', ['_honey', '_honeypot', 'honeypot', 'botcheck', 'bot-field']),
  ...withRole('subject', ['_email.subject']),
  ...withRole('next', ['_redirect']),
  // Nobody is mailed, called or shown anything by the word of a page: a visitor can write whatever he likes in it.
  ...withRole('ignored', ['_cc', '_bcc', '_autoresponse', '_webhook', '_email.from']),
  ...withRole('ignored', ['_email.template.title', '_email.template.footer']),
  ...withRole('ignored', ['_template', '_captcha', '_blacklist', '_url', '_format', '_language']),
  ...withRole('ignored', ['access_key', 'apikey', 'apiKey', 'accessKey', 'form-name']),
  ...withRole('captcha', ['g-recaptcha-response', 'h-captcha-response', 'cf-turnstile-response']),
  ...withRole('captcha', ['recaptcha_response', 'frc-captcha-response', 'frc-captcha-solution', 'altcha']),
  ...withRole('ignored', ['_token', '_csrf', '_csrf_token', 'csrf_token', 'csrfmiddlewaretoken']),
  ...withRole('ignored', ['authenticity_token', '__RequestVerificationToken']),
]);

interface Service {
  /** One of these is in each of its forms. */
  readonly keys: readonly string[];
  readonly fields: ReadonlyMap<string, ControlRole>;
}

/** Fields that mean something only in forms of one service. */
const SERVICES: readonly Service[] = [
  {
    // Web3Forms.
    keys: ['access_key', 'apikey'],
    fields: new Map([
      ...withRole('subject', ['subject']),
      ...withRole('next', ['redirect']),
      ...withRole('replyTo', ['replyto']),
      ...withRole('ignored', ['from_name', 'ccemail', 'webhook']),
    ]),
  },
  {
    // StaticForms. Its `subject` is often a question to the visitor, so it stays data.
    keys: ['apiKey', 'accessKey'],
    fields: new Map([...withRole('next', ['redirectTo']), ...withRole('replyTo', ['replyTo'])]),
  },
];

function withRole(role: ControlRole, names: readonly string[]): (readonly [string, ControlRole])[] {
  return names.map((name) => [name, role]);
}

/** Whether the field proves something about the page, once: a page that is loaded again has another value. */
export function isProof(name: string): boolean {
  const role = OWN.get(name) ?? KNOWN.get(name);
  return role === 'challenge' || role === 'captcha';
}

/** All names that can be control fields, for the documentation's test. */
export function controlFieldNames(): readonly string[] {
  return [...OWN.keys(), ...KNOWN.keys(), ...SERVICES.flatMap(({ fields }) => [...fields.keys()])];
}

/** What of a form's configuration decides. */
export type ControlRules = Pick<FormConfig, 'fields'> &
  Partial<Pick<FormConfig, 'required' | 'subject'>> & {
    readonly spam_protection: Pick<FormConfig['spam_protection'], 'honeypot'>;
  };

/** Tells what a field of this post is by its name: undefined where it is data. */
export function controlRoles(
  sent: readonly (readonly [name: string, value: string])[],
  { fields, required = [], subject, spam_protection: { honeypot } }: ControlRules,
): (name: string) => ControlRole | undefined {
  const names = new Set(sent.map(([name]) => name));
  const services = SERVICES.filter(({ keys }) => keys.some((key) => names.has(key) && !isOwnField(key)));

  function isOwnField(name: string): boolean {
    return Object.hasOwn(fields, name) || required.includes(name) || required.includes(`${name}[]`);
  }

  return (name) => {
    if (name === honeypot) return 'honeypot';
    const own = OWN.get(name);
    if (own !== undefined || isOwnField(name)) return own;
    const role =
      KNOWN.get(name) ?? services.map((service) => service.fields.get(name)).find((one) => one !== undefined);
    // The mail has the configured subject: another one must not get lost.
    return role === 'subject' && subject !== undefined ? undefined : role;
  };
}

/** Whether a honeypot was filled in. One that is a checkbox is `false` in JSON where it was not ticked. */
function isTrapped(value: string): boolean {
  return /\S/.test(value) && value !== 'false';
}

// The check of a submission against its form. Every error is reported at once, in words for the visitor and with the
// codes that published browser form clients know. Pure, and linear in the size of the body.

interface CheckedSubmission {
  /** What was sent, without control fields. */
  readonly fields: readonly Field[];
  readonly control: Control;
  /** Without those that a browser sends where none was chosen. */
  readonly files: readonly Upload[];
  /** Empty where the submission is what the form asks for. */
  readonly errors: readonly FieldError[];
}

/** Takes a body apart and checks it against its form. */
export function checkSubmission(
  { config }: Pick<Form, 'config'>,
  body: SubmittedBody,
  startMatching: StartMatching,
): CheckedSubmission {
  const { fields, control } = sortEntries(body.entries, config);
  const files = body.files.filter(({ filename, size }) => filename !== '' || size > 0);
  const errors = [...checkRequired(fields, config, files), ...checkOptIn(fields, config)];
  const checks = { config, matches: startMatching() };
  for (const [name, value] of fields) errors.push(...checkField([name, value], checks));
  errors.push(...checkControl(control), ...checkFiles(files, config));
  if (errors.length === 0 && files.length === 0 && isEmpty(fields)) {
    errors.push({ code: 'EMPTY', message: message('field.empty') });
  }
  return { fields: [...fields], control, files, errors };
}

type Fields = ReadonlyMap<string, string | readonly string[]>;

function checkRequired(fields: Fields, config: FormConfig, files: readonly Upload[]): FieldError[] {
  return config.required.flatMap((required) => {
    const field = withoutBrackets(required);
    const value = fields.get(field);
    const rule = ruleOf(config, field);
    if (value !== undefined && !valuesOf(value).every((text) => isNothing(text, rule))) return [];
    if (files.some((file) => withoutBrackets(file.field) === field)) return [];
    const code = value === undefined ? 'REQUIRED_FIELD_MISSING' : 'REQUIRED_FIELD_EMPTY';
    const name =
      rule?.type === 'checkbox'
        ? 'field.requiredCheckbox'
        : rule?.options === undefined
          ? 'field.required'
          : 'field.requiredChoice';
    return [{ field, code, message: message(name, { field: nameOf(field, config) }) }];
  });
}

/** Whether the value is none: blank, or of a checkbox that is not ticked. */
function isNothing(value: string, rule: FieldRule | undefined): boolean {
  return rule?.type === 'checkbox' ? isTicked(value, rule.options) === false : isBlank(value);
}

/** Where the visitor is mailed a link there must be an address: a field that is required already says so itself. */
function checkOptIn(fields: Fields, config: FormConfig): FieldError[] {
  if (!config.double_opt_in) return [];
  const field = [...Object.keys(config.fields), ...fields.keys()].find((name) => isEmailField(name, config)) ?? 'email';
  const value = fields.get(field);
  const isGiven = value !== undefined && !valuesOf(value).every(isBlank);
  if (isGiven || config.required.some((name) => withoutBrackets(name) === field)) return [];
  const code = value === undefined ? 'REQUIRED_FIELD_MISSING' : 'REQUIRED_FIELD_EMPTY';
  return [{ field, code, message: message('field.required', { field: nameOf(field, config) }) }];
}

function isEmpty(fields: Fields): boolean {
  return [...fields.values()].every((value) => valuesOf(value).every(isBlank));
}

/**
 * Errors of the files. Codes for the whole form have no field, because published
 * form clients expect none.
 */
function checkFiles(files: readonly Upload[], { uploads }: FormConfig): FieldError[] {
  if (files.length === 0) return [];
  if (uploads === undefined || !uploads.enabled) {
    return [{ code: 'NO_FILE_UPLOADS', message: message('error.NO_FILE_UPLOADS') }];
  }
  const { max_files: most, max_size: largest, types } = uploads;
  const errors: FieldError[] = [];
  if (most !== undefined && files.length > most) {
    errors.push({ code: 'TOO_MANY_FILES', message: message('file.tooMany', { max: most }) });
  }
  for (const file of files) {
    const { field, filename, size } = file;
    if (largest !== undefined && size > largest) {
      errors.push({ code: 'FILES_TOO_BIG', message: fileTooLarge(filename, largest) });
    }
    if (types !== undefined && !isOfTypes(file, types)) {
      const values = { name: shortened(filename), types: types.join(', ') };
      errors.push({ field, code: 'FILE_TYPE_NOT_ALLOWED', message: message('file.type', values) });
    }
  }
  return errors;
}

/** The error of a file that holds a virus. */
export function infectedFile({ field, filename }: Upload): FieldError {
  return { field, code: 'FILE_INFECTED', message: message('file.infected', { name: shortened(filename) }) };
}

/** What is said of a file of more than `most` bytes. */
export function fileTooLarge(filename: string, most: number): Localized {
  return ({ say, size }) => say('file.tooLarge', { name: shortened(filename), size: size(most) });
}

/** The label of a field in a message. */
function nameOf(field: string, config: FormConfig): Localized {
  return (translation) => shortened(labelOf(config, field, translation));
}

/** A name in a message. */
export function shortened(text: string): string {
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** An error of one field, or of the whole form where `field` is absent. */
export interface FieldError {
  readonly field?: string | undefined;
  readonly code: string;
  readonly message: Localized;
}

type FieldRule = FormConfig['fields'][string];
/** A code, and the message of a field. */
type Violation = readonly [code: string, name: MessageName, values?: MessageValues];

const EMAIL: Violation = ['TYPE_EMAIL', 'field.email'];
const CHECKBOX: Violation = ['TYPE_TEXT', 'field.checkbox'];

/** Compiled patterns that are kept; each may come to hold 8 MB. */
const MAX_PATTERNS = 16;
/** What the patterns of one form may take for one post, in steps of the engine: some 20 ms. */
const MAX_STEPS = 100_000;

/** Gives what matches the fields of one post against their patterns, within a bound for all of them together. */
type StartMatching = () => (pattern: string, value: string) => boolean;

/** Patterns are compiled once while they are in use. A value that is too long to be matched within the bound does not match. */
export function createMatching(): StartMatching {
  const known = new LruMap<FieldPattern>(MAX_PATTERNS);
  return () => {
    let steps = MAX_STEPS;
    return (source, value) => {
      const pattern = known.get(source) ?? compile(source);
      known.set(source, pattern);
      steps -= pattern.cost * value.length;
      return steps >= 0 && pattern.matches(value);
    };
  };
}

/** A pattern that an older version took and this one does not refuses nothing: no lead is lost to it. */
function compile(source: string): FieldPattern {
  return patternProblem(source) === undefined ? fieldPattern(source) : { matches: () => true, cost: 0 };
}

interface FieldChecks {
  readonly config: FormConfig;
  readonly matches: ReturnType<StartMatching>;
}

/** The error of a field, if any. A field called `email` must hold an address in every form. */
function checkField([name, value]: Field, { config, matches }: FieldChecks): FieldError[] {
  const rule = Object.hasOwn(config.fields, name) ? config.fields[name] : undefined;
  const values = valuesOf(value).filter((text) => !isBlank(text));
  const violation =
    (isEmailField(name, config) && !values.every(isEmail) ? EMAIL : undefined) ??
    (rule && checkRule(values, rule, matches));
  if (violation === undefined) return [];
  const [code, what, limits] = violation;
  return [{ field: name, code, message: message(what, { ...limits, field: nameOf(name, config) }) }];
}

/** `_replyto` is where the answer goes: a slip in it would lose the visitor. */
function checkControl({ replyTo }: Control): FieldError[] {
  if (replyTo === undefined || isBlank(replyTo) || isEmail(replyTo)) return [];
  return [{ field: '_replyto', code: EMAIL[0], message: message('field.replyTo') }];
}

function checkRule(values: readonly string[], rule: FieldRule, matches: FieldChecks['matches']): Violation | undefined {
  const { type, max = Infinity } = rule;
  if (type === 'list' && values.length > max) {
    return ['TYPE_TEXT', 'field.tooMany', { max }];
  }
  for (const value of values) {
    const violation = checkValue(value, rule, matches);
    if (violation !== undefined) return violation;
  }
  return undefined;
}

function checkValue(
  value: string,
  { type, max = Infinity, pattern, options }: FieldRule,
  matches: FieldChecks['matches'],
): Violation | undefined {
  if (type === 'checkbox') return isTicked(value, options) === undefined ? CHECKBOX : undefined;
  const known = TYPES[type];
  if (known?.isValid(value) === false) return known.violation;
  if (type === 'number' && Number(value) > max) return ['TYPE_NUMERIC', 'field.max', { max }];
  if (HAS_LENGTH.has(type) && lengthOf(value, max) > max) {
    return ['TYPE_TEXT', 'field.tooLong', { max }];
  }
  if (options !== undefined && !options.includes(value)) return ['TYPE_TEXT', 'field.option'];
  if (pattern !== undefined && !matches(pattern, value)) return ['TYPE_TEXT', 'field.pattern'];
  return undefined;
}

const HAS_LENGTH = new Set<FieldRule['type']>(['text', 'textarea', 'email', 'url', 'tel', 'hidden']);

interface TypeCheck {
  readonly isValid: (value: string) => boolean;
  readonly violation: Violation;
}

const TYPES: Partial<Record<FieldRule['type'], TypeCheck>> = {
  number: { isValid: isNumber, violation: ['TYPE_NUMERIC', 'field.number'] },
  url: { isValid: isWebUrl, violation: ['TYPE_TEXT', 'field.url'] },
  tel: { isValid: isPhone, violation: ['TYPE_TEXT', 'field.tel'] },
  date: { isValid: isDate, violation: ['TYPE_TEXT', 'field.date'] },
  file: { isValid: () => false, violation: ['TYPE_TEXT', 'field.file'] },
};

function isEmail(value: string): boolean {
  return parseAddress(value.trim()) !== undefined;
}

function isNumber(text: string): boolean {
  const value = text.trim();
  return value.length <= 40 && /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?$/.test(value);
}

/** Characters as a browser's `maxlength` counts them: a line end is one, though it is sent as two. */
function lengthOf(value: string, max: number): number {
  return value.length <= max ? value.length : value.replaceAll('\r\n', '\n').length;
}

function isWebUrl(value: string): boolean {
  return /^\s*https?:\/\//i.test(value) && URL.canParse(value.trim());
}

/** Digits and what people write between them. */
function isPhone(value: string): boolean {
  return value.length <= 60 && /^[\d\s+()./,;*#xX–-]+$/.test(value) && value.replaceAll(/\D/g, '').length >= 3;
}

function isDate(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text.trim()) ?? [];
  if (year === undefined) return false;
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}
