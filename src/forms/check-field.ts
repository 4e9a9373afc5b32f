/** Whether the values of one field are what the form says they must be; blank ones are `required`'s business. */
import { fieldPattern } from '../config/patterns.ts';
import type { FormConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import { quotedLabel, type FieldError } from './fault.ts';
import { isBlank, isEmailField, valuesOf, type Control, type Field } from './fields.ts';

type FieldRule = FormConfig['fields'][string];
/** A code, and what follows the field's label in the message. */
type Fault = readonly [code: string, words: string];

const EMAIL: Fault = ['TYPE_EMAIL', 'must be an email address such as name@example.com.'];
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?$/;
/** By the number of open repetitions in a pattern. */
const LONGEST_MATCHED = [10_000, 10_000, 4000, 400];
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;

/** The faults of a field, at most one. A field called `email` must hold an address in every form. */
export function checkField([name, value]: Field, config: FormConfig): FieldError[] {
  const rule = Object.hasOwn(config.fields, name) ? config.fields[name] : undefined;
  const email = isEmailField(name, config);
  if (rule === undefined && !email) return [];
  const values = valuesOf(value).filter((text) => !isBlank(text));
  const notEmail = email ? firstFault(values, checkEmail) : undefined;
  const fault = notEmail ?? (rule === undefined ? undefined : checkRule(values, rule));
  if (fault === undefined) return [];
  const [code, words] = fault;
  return [{ field: name, code, message: `${quotedLabel(name, config)} ${words}` }];
}

/** `_replyto` is where the answer goes: a slip in it would lose the visitor. */
export function checkControl({ replyTo }: Control): FieldError[] {
  if (replyTo === undefined || isBlank(replyTo) || checkEmail(replyTo) === undefined) return [];
  return [{ field: '_replyto', code: EMAIL[0], message: `Your email address ${EMAIL[1]}` }];
}

function checkRule(values: readonly string[], rule: FieldRule): Fault | undefined {
  const { type, max, pattern, options } = rule;
  if (type === 'list' && max !== undefined && values.length > max) {
    return ['TYPE_TEXT', `takes at most ${max} ${max === 1 ? 'answer' : 'answers'}.`];
  }
  const matches = pattern === undefined ? undefined : matcher(pattern);
  return firstFault(values, (value) => {
    const fault = checkType(value, rule);
    if (fault !== undefined) return fault;
    if (options !== undefined && !options.includes(value)) return ['TYPE_TEXT', 'must be one of the given choices.'];
    if (matches !== undefined && !matches(value)) return ['TYPE_TEXT', 'does not have the expected form.'];
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

/**
 * The configuration refuses patterns that backtrack exponentially (config/patterns.ts); what is left is polynomial in the
 * number of open repetitions, so the more of them there are, the shorter the text that is tried at all.
 */
function matcher(pattern: string): (value: string) => boolean {
  const expression = fieldPattern(pattern);
  const repetitions = pattern.match(/[*+]|,\}/g)?.length ?? 0;
  const longest = LONGEST_MATCHED[repetitions] ?? 100;
  return (value) => value.length <= longest && expression.test(value);
}
