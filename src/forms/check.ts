/**
 * Whether a submission is what its form asks for. Every error is reported at once, in words for the visitor and with the
 * codes that published browser form clients know. Pure, and linear in the size of the body.
 */
import type { FormConfig } from '../config/schema.ts';
import { type Form, labelOf, ruleOf } from '../config/snapshot.ts';
import { fieldPattern, patternProblem, type FieldPattern } from '../config/patterns.ts';
import { parseAddress } from '../lib/addresses.ts';
import { type Localized, message, type MessageName, type MessageValues } from '../languages/languages.ts';
import { Recent } from '../lib/lru.ts';
import {
  isBlank,
  isEmailField,
  isTicked,
  sortEntries,
  valuesOf,
  withoutBrackets,
  type Control,
  type Field,
  type SubmittedBody,
} from './fields.ts';
import { isOfTypes } from './file-types.ts';
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
