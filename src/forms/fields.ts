/**
 * What was submitted, as data: names are whatever a stranger chose (`__proto__`, `toString`), so they are never keys of an
 * object that inherits anything. Order is the order sent.
 */
import { createHash } from 'node:crypto';
import type { FormConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Upload } from './files.ts';
import { Recent } from '../lib/lru.ts';
import { fieldPattern, patternProblem, type FieldPattern } from '../config/patterns.ts';
import { quotedLabel, type FieldError } from './fault.ts';

/** A body as it was read: nothing is interpreted yet. */
export interface SubmittedBody {
  /** In the order sent; a list is a repeated name. */
  readonly entries: readonly (readonly [name: string, value: string])[];
  readonly files: readonly Upload[];
}

export type Field = readonly [name: string, value: string | readonly string[]];

/** What steers a submission and is never shown as data. */
export interface Control {
  /** `_subject` */
  readonly subject?: string | undefined;
  /** `_replyto` */
  readonly replyTo?: string | undefined;
  /** `_next` */
  readonly next?: string | undefined;
  /** Names of honeypots that were filled in. */
  readonly trapped: readonly string[];
}

const HONEYPOT = '_gotcha';

/** Fields and control fields. A repeated name, or one that ends in `[]`, is a list. */
export function sortEntries(
  entries: SubmittedBody['entries'],
  honeypot: string,
): { fields: ReadonlyMap<string, string | readonly string[]>; control: Control } {
  const fields = new Map<string, string | string[]>();
  const control: { subject?: string; replyTo?: string; next?: string; trapped: string[] } = { trapped: [] };
  for (const [sent, value] of entries) {
    const name = withoutBrackets(sent);
    const listed = name !== sent;
    if (name === honeypot || name === HONEYPOT) {
      if (!isBlank(value)) control.trapped.push(name);
    } else if (name === '_subject') control.subject ??= value;
    else if (name === '_replyto') control.replyTo ??= value;
    else if (name === '_next') control.next ??= value;
    else addValue(fields, { name, value, listed });
  }
  return { fields, control };
}

function addValue(
  fields: Map<string, string | string[]>,
  { name, value, listed }: { name: string; value: string; listed: boolean },
): void {
  const known = fields.get(name);
  if (known === undefined) fields.set(name, listed ? [value] : value);
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

/** Whether the field holds the visitor's address: it is called `email`, or the form says so. */
function isEmailField(name: string, config: FormConfig): boolean {
  if (name.length === 5 && name.toLowerCase() === 'email') return true;
  return Object.hasOwn(config.fields, name) && config.fields[name]?.type === 'email';
}

/** The first address in a field of the visitor's address; a field called `email` goes before others. */
export function emailOf(fields: readonly Field[], config: FormConfig): string | undefined {
  let other: string | undefined;
  for (const [name, value] of fields) {
    if (!isEmailField(name, config)) continue;
    const address = firstAddress(value);
    if (address !== undefined && name.toLowerCase() === 'email') return address;
    other ??= address;
  }
  return other;
}

function firstAddress(value: string | readonly string[]): string | undefined {
  for (const text of valuesOf(value)) {
    const address = parseAddress(text.trim());
    if (address !== undefined) return address.address;
  }
  return undefined;
}

/** The address in `_replyto`. */
export function replyToOf(control: Pick<Control, 'replyTo'>): string | undefined {
  return parseAddress(control.replyTo?.trim() ?? '')?.address;
}

/** The same for the same data, whatever boundary it came with; files must have been received with `hash`. */
export function hashOfBody({ entries, files }: SubmittedBody): string {
  const parts = files.map(({ field, filename, contentType, size, sha256 }) => [
    field,
    filename,
    contentType,
    size,
    sha256,
  ]);
  return createHash('sha256')
    .update(JSON.stringify([entries, parts]))
    .digest('hex');
}

// Whether the values of one field are what the form says they must be; blank ones are `required`'s business.

type FieldRule = FormConfig['fields'][string];
/** A code, and what follows the field's label in the message. */
type Fault = readonly [code: string, words: string];

const EMAIL: Fault = ['TYPE_EMAIL', 'must be an email address such as name@example.com.'];
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;

/** Compiled patterns that are kept; each may come to hold 8 MB. */
const KEPT_PATTERNS = 16;
/** What the patterns of one form may take for one post, in steps of the engine: some 20 ms. */
const MAX_STEPS = 100_000;

/** Gives what matches the fields of one post against their patterns, within a bound for all of them together. */
export type StartMatching = () => (pattern: string, value: string) => boolean;

/** Patterns are compiled once while they are in use. A value that is too long to be matched within the bound does not match. */
export function createMatching(): StartMatching {
  const known = new Recent<FieldPattern>(KEPT_PATTERNS);
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

/** What fields are checked against. */
export interface FieldChecks {
  readonly config: FormConfig;
  readonly matches: ReturnType<StartMatching>;
}

/** The faults of a field, at most one. A field called `email` must hold an address in every form. */
export function checkField([name, value]: Field, { config, matches }: FieldChecks): FieldError[] {
  const rule = Object.hasOwn(config.fields, name) ? config.fields[name] : undefined;
  const email = isEmailField(name, config);
  if (rule === undefined && !email) return [];
  const values = valuesOf(value).filter((text) => !isBlank(text));
  const notEmail = email ? firstFault(values, checkEmail) : undefined;
  const fault = notEmail ?? (rule === undefined ? undefined : checkRule(values, rule, matches));
  if (fault === undefined) return [];
  const [code, words] = fault;
  return [{ field: name, code, message: `${quotedLabel(name, config)} ${words}` }];
}

/** `_replyto` is where the answer goes: a slip in it would lose the visitor. */
export function checkControl({ replyTo }: Control): FieldError[] {
  if (replyTo === undefined || isBlank(replyTo) || checkEmail(replyTo) === undefined) return [];
  return [{ field: '_replyto', code: EMAIL[0], message: `Your email address ${EMAIL[1]}` }];
}

function checkRule(values: readonly string[], rule: FieldRule, matches: FieldChecks['matches']): Fault | undefined {
  const { type, max, pattern, options } = rule;
  if (type === 'list' && max !== undefined && values.length > max) {
    return ['TYPE_TEXT', `takes at most ${max} ${max === 1 ? 'answer' : 'answers'}.`];
  }
  return firstFault(values, (value) => {
    const fault = checkType(value, rule);
    if (fault !== undefined) return fault;
    if (options !== undefined && !options.includes(value)) return ['TYPE_TEXT', 'must be one of the given choices.'];
    if (pattern !== undefined && !matches(pattern, value)) return ['TYPE_TEXT', 'does not have the expected form.'];
    return undefined;
  });
}

function checkType(value: string, { type, max }: FieldRule): Fault | undefined {
  switch (type) {
    case 'number':
      return checkNumber(value, max);
    case 'url':
      return isWebUrl(value)
        ? checkLength(value, max)
        : ['TYPE_TEXT', 'must be a web address such as https://example.com.'];
    case 'tel':
      return isPhone(value) ? checkLength(value, max) : ['TYPE_TEXT', 'must be a telephone number.'];
    case 'date':
      return isDate(value.trim()) ? undefined : ['TYPE_TEXT', 'must be a date such as 2026-01-31.'];
    case 'file':
      return ['TYPE_TEXT', 'must be a file.'];
    case 'email':
    case 'text':
      return checkLength(value, max);
    case 'list':
      return undefined;
  }
}

function firstFault(values: readonly string[], check: (value: string) => Fault | undefined): Fault | undefined {
  for (const value of values) {
    const fault = check(value);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function checkEmail(value: string): Fault | undefined {
  return parseAddress(value.trim()) === undefined ? EMAIL : undefined;
}

function checkNumber(text: string, max: number | undefined): Fault | undefined {
  const value = text.trim();
  if (value.length > 40 || !NUMBER.test(value)) return ['TYPE_NUMERIC', 'must be a number.'];
  if (max !== undefined && Number(value) > max) return ['TYPE_NUMERIC', `must be ${max} or less.`];
  return undefined;
}

/** Characters as a browser's `maxlength` counts them: a line end is one, though it is sent as two. */
function checkLength(value: string, max: number | undefined): Fault | undefined {
  if (max === undefined || value.length <= max || value.replaceAll('\r\n', '\n').length <= max) return undefined;
  return ['TYPE_TEXT', `is too long: at most ${max} characters.`];
}

function isWebUrl(value: string): boolean {
  return /^\s*https?:\/\//i.test(value) && URL.canParse(value.trim());
}

/** Digits and what people write between them. */
function isPhone(value: string): boolean {
  return value.length <= 60 && /^[\d\s+()./,;*#xX–-]+$/.test(value) && value.replaceAll(/\D/g, '').length >= 3;
}

function isDate(value: string): boolean {
  const [, year, month, day] = DATE.exec(value) ?? [];
  if (year === undefined) return false;
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}
