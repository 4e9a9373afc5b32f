/**
 * Whether a submission is what its form asks for. Every error is reported at once, in words for the visitor and with the
 * codes that published browser form clients know. Pure, and linear in the size of the body.
 */
import type { FormConfig } from '../config/schema.ts';
import { type Form, labelOf } from '../config/forms.ts';
import { fieldPattern, patternProblem, type FieldPattern } from '../config/patterns.ts';
import { parseAddress } from '../lib/addresses.ts';
import { Recent } from '../lib/lru.ts';
import {
  isBlank,
  isEmailField,
  sortEntries,
  valuesOf,
  withoutBrackets,
  type Control,
  type Field,
  type SubmittedBody,
} from './fields.ts';
import type { Upload } from './files.ts';

export interface CheckedSubmission {
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
  const { fields, control } = sortEntries(body.entries, config.spam_protection.honeypot);
  const files = body.files.filter(({ filename, size }) => filename !== '' || size > 0);
  const errors = [...checkRequired(fields, config, files)];
  const checks = { config, matches: startMatching() };
  for (const [name, value] of fields) errors.push(...checkField([name, value], checks));
  errors.push(...checkControl(control), ...checkFiles(files, config));
  if (errors.length === 0 && files.length === 0 && isEmpty(fields)) {
    errors.push({ code: 'EMPTY', message: 'The form is empty. Please fill it in.' });
  }
  return { fields: [...fields], control, files, errors };
}

type Fields = ReadonlyMap<string, string | readonly string[]>;

function checkRequired(fields: Fields, config: FormConfig, files: readonly Upload[]): FieldError[] {
  return config.required.flatMap((required) => {
    const field = withoutBrackets(required);
    const value = fields.get(field);
    if (value !== undefined && !valuesOf(value).every(isBlank)) return [];
    if (files.some((file) => withoutBrackets(file.field) === field)) return [];
    const code = value === undefined ? 'REQUIRED_FIELD_MISSING' : 'REQUIRED_FIELD_EMPTY';
    return [{ field, code, message: `Please fill in ${quotedLabel(field, config)}.` }];
  });
}

function isEmpty(fields: Fields): boolean {
  return [...fields.values()].every((value) => valuesOf(value).every(isBlank));
}

const MIB = 1024 * 1024;

/**
 * Errors of the files; names and types are what the client says. Codes for the whole form have no field, because published
 * form clients expect none.
 */
function checkFiles(files: readonly Upload[], { uploads }: FormConfig): FieldError[] {
  if (files.length === 0) return [];
  if (uploads === undefined || !uploads.enabled) {
    return [{ code: 'NO_FILE_UPLOADS', message: 'This form does not accept files.' }];
  }
  const { max_files: most, max_size: largest, types } = uploads;
  const errors: FieldError[] = [];
  if (most !== undefined && files.length > most) {
    errors.push({
      code: 'TOO_MANY_FILES',
      message: `This form accepts at most ${most} ${most === 1 ? 'file' : 'files'}.`,
    });
  }
  for (const { field, filename, contentType, size } of files) {
    if (largest !== undefined && size > largest) {
      errors.push({
        code: 'FILES_TOO_BIG',
        message: `The file ${quote(filename)} is too large (at most ${shown(largest)}).`,
      });
    }
    if (types !== undefined && !types.some((type) => isOfType(type, { filename, contentType }))) {
      const message = `The file ${quote(filename)} has a type that this form does not accept. Accepted types: ${types.join(', ')}.`;
      errors.push({ field, code: 'FILE_TYPE_NOT_ALLOWED', message });
    }
  }
  return errors;
}

/** `image/*`, `application/pdf`, `.pdf` or `pdf`, without case. */
function isOfType(type: string, { filename, contentType }: { filename: string; contentType: string }): boolean {
  const wanted = type.toLowerCase();
  if (!wanted.includes('/')) return filename.toLowerCase().endsWith(wanted.startsWith('.') ? wanted : `.${wanted}`);
  const given = contentType.toLowerCase().split(';')[0]?.trim() ?? '';
  return wanted.endsWith('/*') ? given.startsWith(wanted.slice(0, -1)) : given === wanted;
}

function quote(filename: string): string {
  return `“${filename.length > 60 ? `${filename.slice(0, 59)}…` : filename}”`;
}

function shown(bytes: number): string {
  return bytes >= MIB ? `${Math.floor((bytes / MIB) * 10) / 10} MiB` : `${Math.floor(bytes / 1024)} KiB`;
}

/** An error of one field, or of the whole form where `field` is absent. */
export interface FieldError {
  readonly field?: string | undefined;
  readonly code: string;
  readonly message: string;
}

/** The field as the visitor knows it, in quotation marks. */
function quotedLabel(name: string, config: FormConfig): string {
  const label = labelOf(config, name);
  return `“${label.length > 60 ? `${label.slice(0, 59)}…` : label}”`;
}

type FieldRule = FormConfig['fields'][string];
/** A code, and what follows the field's label in the message. */
type Violation = readonly [code: string, words: string];

const EMAIL: Violation = ['TYPE_EMAIL', 'must be an email address, such as name@example.com.'];
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;

/** Compiled patterns that are kept; each may come to hold 8 MB. */
const MAX_PATTERNS = 16;
/** What the patterns of one form may take for one post, in steps of the engine: some 20 ms. */
const MAX_STEPS = 100_000;

/** Gives what matches the fields of one post against their patterns, within a bound for all of them together. */
export type StartMatching = () => (pattern: string, value: string) => boolean;

/** Patterns are compiled once while they are in use. A value that is too long to be matched within the bound does not match. */
export function createMatching(): StartMatching {
  const known = new Recent<FieldPattern>(MAX_PATTERNS);
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
interface FieldChecks {
  readonly config: FormConfig;
  readonly matches: ReturnType<StartMatching>;
}

/** The error of a field, if any. A field called `email` must hold an address in every form. */
function checkField([name, value]: Field, { config, matches }: FieldChecks): FieldError[] {
  const rule = Object.hasOwn(config.fields, name) ? config.fields[name] : undefined;
  const email = isEmailField(name, config);
  if (rule === undefined && !email) return [];
  const values = valuesOf(value).filter((text) => !isBlank(text));
  const notEmail = email ? firstViolation(values, checkEmail) : undefined;
  const violation = notEmail ?? (rule === undefined ? undefined : checkRule(values, rule, matches));
  if (violation === undefined) return [];
  const [code, words] = violation;
  return [{ field: name, code, message: `${quotedLabel(name, config)} ${words}` }];
}

/** `_replyto` is where the answer goes: a slip in it would lose the visitor. */
function checkControl({ replyTo }: Control): FieldError[] {
  if (replyTo === undefined || isBlank(replyTo) || checkEmail(replyTo) === undefined) return [];
  return [{ field: '_replyto', code: EMAIL[0], message: `Your email address ${EMAIL[1]}` }];
}

function checkRule(values: readonly string[], rule: FieldRule, matches: FieldChecks['matches']): Violation | undefined {
  const { type, max, pattern, options } = rule;
  if (type === 'list' && max !== undefined && values.length > max) {
    return ['TYPE_TEXT', `accepts at most ${max} ${max === 1 ? 'answer' : 'answers'}.`];
  }
  return firstViolation(values, (value) => {
    const violation = checkType(value, rule);
    if (violation !== undefined) return violation;
    if (options !== undefined && !options.includes(value)) return ['TYPE_TEXT', 'must be one of the options.'];
    if (pattern !== undefined && !matches(pattern, value)) return ['TYPE_TEXT', 'does not have the required format.'];
    return undefined;
  });
}

function checkType(value: string, { type, max }: FieldRule): Violation | undefined {
  switch (type) {
    case 'number':
      return checkNumber(value, max);
    case 'url':
      return isWebUrl(value)
        ? checkLength(value, max)
        : ['TYPE_TEXT', 'must be a web address, such as https://example.com.'];
    case 'tel':
      return isPhone(value) ? checkLength(value, max) : ['TYPE_TEXT', 'must be a phone number.'];
    case 'date':
      return isDate(value.trim()) ? undefined : ['TYPE_TEXT', 'must be a date, such as 2026-01-31.'];
    case 'file':
      return ['TYPE_TEXT', 'must be a file.'];
    case 'email':
    case 'text':
      return checkLength(value, max);
    case 'list':
      return undefined;
  }
}

function firstViolation(
  values: readonly string[],
  check: (value: string) => Violation | undefined,
): Violation | undefined {
  for (const value of values) {
    const violation = check(value);
    if (violation !== undefined) return violation;
  }
  return undefined;
}

function checkEmail(value: string): Violation | undefined {
  return parseAddress(value.trim()) === undefined ? EMAIL : undefined;
}

function checkNumber(text: string, max: number | undefined): Violation | undefined {
  const value = text.trim();
  if (value.length > 40 || !NUMBER.test(value)) return ['TYPE_NUMERIC', 'must be a number.'];
  if (max !== undefined && Number(value) > max) return ['TYPE_NUMERIC', `must be ${max} or less.`];
  return undefined;
}

/** Characters as a browser's `maxlength` counts them: a line end is one, though it is sent as two. */
function checkLength(value: string, max: number | undefined): Violation | undefined {
  if (max === undefined || value.length <= max || value.replaceAll('\r\n', '\n').length <= max) return undefined;
  return ['TYPE_TEXT', `is too long (at most ${max} characters).`];
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
