/** Errors of templates, and the bounds that they report. */
import { LiquidError } from 'liquidjs';
import type { Variables } from './template.ts';
import { printable } from './filters.ts';
import { UserError, messageOf } from '../lib/errors.ts';

// * What the built-in templates show of a submission, so that the notification of the largest one is still made in a moment and
// small enough for any mail server: all fields, and of the text as much as a person may ever write.

/** Characters of all labels and values; four fields of the greatest length. */
const LONGEST = 1 << 18;

const LONGEST_LABEL = 200;

/** The variables themselves, or ones in which each label and value of `fields` is cut to an equal share. */
export function bounded(variables: Variables): Variables {
  const fields = variables['fields'];
  if (!Array.isArray(fields)) return variables;
  const all = fields.map((field: unknown) => ({ label: textOf(field, 'label'), value: textOf(field, 'value') }));
  if (all.reduce((sum, { label, value }) => sum + label.length + value.length, 0) <= LONGEST) return variables;
  const share = Math.floor(LONGEST / all.length);
  return {
    ...variables,
    fields: all.map(({ label, value }) => ({
      label: cut(label, Math.min(share, LONGEST_LABEL)),
      value: cut(value, share),
    })),
  };
}

function textOf(field: unknown, name: 'label' | 'value'): string {
  return typeof field === 'object' && field !== null && name in field ? printable(Reflect.get(field, name)) : '';
}

function cut(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const start = text.slice(0, longest).replace(/[\uD800-\uDBFF]$/, '');
  return `${start}… [${text.length - start.length} more characters]`;
}

// What can be wrong with a template, in its author's words and at its place.

export type TemplatePart = 'subject' | 'text' | 'html';

/** Where within a part, both from 1, and what. */
export interface Fault {
  readonly line: number;
  readonly column: number;
  /** The words alone. */
  readonly message: string;
}

export interface TemplateFault extends Fault {
  readonly template: string;
  readonly part: TemplatePart;
}

/** A template that cannot be used: it does not parse, or names a partial that is not there. */
export class TemplateError extends UserError {
  override readonly name = 'TemplateError';
  readonly template: string;
  readonly part: TemplatePart;
  readonly line: number;
  readonly column: number;

  constructor(fault: TemplateFault) {
    super(sentenceOf(fault));
    this.template = fault.template;
    this.part = fault.part;
    this.line = fault.line;
    this.column = fault.column;
  }
}

/** A template that failed on what it was given, or passed a limit. The built-in one takes its place. */
export class TemplateRenderError extends Error {
  override readonly name = 'TemplateRenderError';
  readonly fault: TemplateFault;

  constructor(fault: TemplateFault, options?: ErrorOptions) {
    super(sentenceOf(fault), options);
    this.fault = fault;
  }
}

/** Where and what, from whatever an engine threw. */
export function explain(error: unknown): Fault {
  if (!LiquidError.is(error)) return { line: 1, column: 1, message: messageOf(error) };
  const [line = 1, column = 1] = error.token.getPosition();
  const words = error.message.replace(/(?:, file:[^,\n]*)?, line:\d+, col:\d+$/, '');
  return { line, column, message: words + hint(words, error.token.input.slice(Math.max(0, error.token.begin - 1))) };
}

function hint(words: string, around: string): string {
  if (words === 'expected filter name' && /^ ?\|/.test(around)) {
    return ": the fallback stands before the filters, as in {{ name || 'friend' | upcase }}";
  }
  return words.startsWith('expected "|" before filter') && around.includes('&&') ? ': write "and" for &&' : '';
}

/** The place and the words, in one line. */
export function sentenceOf({ template, part, line, column, message }: TemplateFault): string {
  const where = template === '' ? 'expression' : `template ${JSON.stringify(template)}, ${part}`;
  return `${where}, line ${line}, column ${column}: ${message}`;
}
