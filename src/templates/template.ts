/** What goes into a template, what comes out, and what can be wrong with one, at its place and in words for its author. */
import { LiquidError } from 'liquidjs';
import { UserError, messageOf } from '../lib/errors.ts';

export type TemplateType = 'form' | 'acknowledgment';

/** As the configuration has it, `html_file` read into `html`. */
export interface TemplateSource {
  readonly type: TemplateType;
  readonly subject?: string | undefined;
  readonly text?: string | undefined;
  readonly html?: string | undefined;
  /** Shown where nothing of that name is given. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/**
 * What templates see: `form` (values by field name), `fields` (`{ name, label, value }` in the order sent), `domain`,
 * `timestamp` (milliseconds, a Date or ISO text), `ip`, `form_name`, `submission_id`, `referer`, `files`
 * (`{ filename, size, content_type }`), `language` (of the form), and for `/email/send` whatever its data holds.
 */
export type Variables = Readonly<Record<string, unknown>>;

export interface Rendered {
  /** One line of at most 500 characters. */
  readonly subject?: string;
  readonly text: string;
  readonly html?: string;
}

export type TemplatePart = 'subject' | 'text' | 'html';

export interface TemplateFault {
  readonly template: string;
  readonly part: TemplatePart;
  /** Within the part, both from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** A template that cannot be used: it does not parse, or names a partial that is not there. */
export class TemplateError extends UserError {
  override readonly name: string = 'TemplateError';
  readonly fault: TemplateFault;

  constructor(fault: TemplateFault, options?: ErrorOptions) {
    super(sentenceOf(fault), options);
    this.fault = fault;
  }
}

/** A template that failed on what it was given, or passed a limit. The built-in one takes its place. */
export class TemplateRenderError extends TemplateError {
  override readonly name = 'TemplateRenderError';
}

/** Where and what, from whatever an engine threw. */
export function explain(error: unknown): Pick<TemplateFault, 'line' | 'column' | 'message'> {
  if (!LiquidError.is(error)) return { line: 1, column: 1, message: messageOf(error) };
  const [line = 1, column = 1] = error.token.getPosition();
  const words = error.message.replace(/(?:, file:[^,\n]*)?, line:\d+, col:\d+$/, '');
  return { line, column, message: words + hint(words, error.token.input.slice(Math.max(0, error.token.begin - 1))) };
}

function hint(words: string, around: string): string {
  if (words === 'expected filter name' && /^ ?\|/.test(around)) {
    return ": the fallback goes before the filters, as in {{ name || 'friend' | upcase }}";
  }
  return words.startsWith('expected "|" before filter') && around.includes('&&') ? ': write "and" instead of &&' : '';
}

/** The place and the words, in one line. */
export function sentenceOf({ template, part, line, column, message }: TemplateFault): string {
  const where = template === '' ? 'expression' : `template ${JSON.stringify(template)}, ${part}`;
  return `${where}, line ${line}, column ${column}: ${message}`;
}
