/**
 * LiquidJS within bounds: no file system, no inherited property, no unknown filter, and limits on what a template may take,
 * its output included. An engine prints either HTML, escaped, or plain text.
 *
 * Beyond Liquid, templates have the `||` operator, `nl2br`, `indent` and `filesize`. In HTML everything printed is escaped,
 * once: what has been escaped already is wrapped in Safe, and whatever is done to a Safe makes it plain text again.
 */
import {
  Liquid,
  Tokenizer,
  toValueSync,
  type Context,
  type Emitter,
  type Template,
  type TopLevelToken,
  CaptureTag,
  Drop,
  defaultOperators,
  toValue,
  type FilterImplOptions,
  type Operators,
} from 'liquidjs';
import { UserError } from '../lib/errors.ts';
import { escapeHtml } from '../lib/html.ts';

/** Characters of one template. */
const MAX_PARSED = 1 << 20;
/** Milliseconds of one rendering. */
const MAX_TIME_MS = 1000;
/**
 * Characters that one rendering may make, its output and everything in between; a list counts one for each element, which
 * takes eight bytes, so that this much may be 128 MiB. A mail of this many characters would be refused for its size.
 */
const MAX_MADE = 16 << 20;

/** Milliseconds that are left for everything that belongs together. */
export type TimeLeft = () => number;

export class Engine {
  readonly #liquid: Liquid;
  readonly #partials: Readonly<Record<string, string>>;

  /** `timezone` is an IANA name; `partials` is what `render`, `include` and `layout` may name. */
  constructor(html: boolean, timezone: string, partials: Readonly<Record<string, string>>) {
    this.#partials = nullPrototype(partials);
    this.#liquid = new Liquid({
      templates: this.#partials,
      cache: true,
      operators,
      jsTruthy: true,
      ownPropertyOnly: true,
      strictFilters: true,
      timezoneOffset: timezone,
      dateFormat: '%Y-%m-%d %H:%M',
      locale: 'en-US',
      parseLimit: MAX_PARSED,
      renderLimit: MAX_TIME_MS,
      memoryLimit: MAX_MADE,
      ...(html ? { outputEscape: printHtml } : {}),
    });
    if (html) this.#liquid.registerTag('capture', SafeCaptureTag);
    const own = { indent, filesize, ...(html ? HTML_FILTERS : { nl2br: printable }) };
    for (const [name, filter] of Object.entries(own)) this.#liquid.registerFilter(name, counted(filter));
    countOutput(this.#liquid);
  }

  /** Throws a LiquidError. */
  parse(source: string): Template[] {
    return this.#liquid.parse(source);
  }

  /** Throws a LiquidError, a RangeError on endless recursion, or an Error where no time is left. `scope` is not changed. */
  render(template: Template[], scope: Readonly<Record<string, unknown>>, timeLeft: TimeLeft): string {
    const left = timeLeft();
    if (left <= 0) throw new Error('the templates take too long in total');
    const renderLimit = Math.min(MAX_TIME_MS, left);
    return String(this.#liquid.renderSync(template, nullPrototype(scope), { renderLimit }));
  }

  /** The partials that a template names and that are not there. */
  missingPartials(templates: readonly Template[]): { name: string; template: Template }[] {
    return templates.flatMap((template) => {
      const name = template.partialScope?.()?.name;
      const below = this.missingPartials(toValueSync(template.children?.(false, true) ?? []));
      return name === undefined || name in this.#partials ? below : [{ name, template }, ...below];
    });
  }
}

/** Expressions of a template that parses which end with `|`, where LiquidJS sees no filter and says nothing. */
export function unfinishedFilters(source: string): TopLevelToken[] {
  const expressions = new Tokenizer(source).readTopLevelTokens();
  return expressions.filter((token) => /^\{[{%][^]*\|\s*-?[}%]\}$/.test(token.getText()));
}

/** A copy in which `constructor`, `__proto__` and `toString` are names like any other. */
export function nullPrototype<V>(from: Readonly<Record<string, V>>): Record<string, V> {
  const copy: Record<string, V> = {};
  Object.setPrototypeOf(copy, null);
  return Object.assign(copy, from);
}

/** LiquidJS counts what filters make but not what is written, in a loop or a capture say. */
function countOutput({ renderer }: Liquid): void {
  const renderTemplates = renderer.renderTemplates.bind(renderer);
  renderer.renderTemplates = (templates, context, emitter = new CountedOutput(context)) =>
    renderTemplates(templates, context, emitter);
}

class CountedOutput implements Emitter {
  buffer = '';
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  write(value: unknown): void {
    const text = printable(value);
    this.#context.memoryLimit.use(text.length);
    this.buffer += text;
  }
}

/** HTML that needs no more escaping. Comparisons and filters see the text in it. */
class Safe extends Drop {
  readonly html: string;

  constructor(html: string) {
    super();
    this.html = html;
  }

  override valueOf(): string {
    return this.html;
  }

  override liquidMethodMissing(key: string | number): unknown {
    return key === 'size' ? this.html.length : undefined;
  }
}

/** `{% capture %}` in HTML: what it holds was escaped when it was written. */
class SafeCaptureTag extends CaptureTag {
  override *render(context: Context): Generator<unknown, void, string> {
    const html = yield this.liquid.renderer.renderTemplates(this.templates, context);
    context.bottom()[this.variable] = new Safe(html);
  }
}

/** Empty text, nil, false and an empty list fall through; 0 is a value. */
const operators: Operators = Object.assign(
  { ...defaultOperators },
  // LiquidJS takes any result, though its types know only conditions.
  { '||': (left: unknown, right: unknown): unknown => (isEmpty(toValue(left)) ? right : left) },
);

/** Any value as the text that a person expects: lists with commas, no `[object Object]`. */
export function printable(value: unknown): string {
  const plain: unknown = toValue(value);
  if (typeof plain === 'string') return plain;
  if (plain === undefined || plain === null) return '';
  if (Array.isArray(plain)) return plain.map(printable).join(', ');
  return typeof plain === 'number' ? String(plain) : JSON.stringify(plain);
}

/** How HTML engines print. */
function printHtml(value: unknown): string {
  return value instanceof Safe ? value.html : escapeHtml(printable(value));
}

const HTML_FILTERS = {
  nl2br: lineBreaks,
  newline_to_br: lineBreaks,
  escape: (value: unknown) => new Safe(printHtml(value)),
  xml_escape: (value: unknown) => new Safe(printHtml(value)),
  escape_once: (value: unknown) =>
    new Safe(escapeHtml(printable(value)).replaceAll(/&amp;(amp|lt|gt|quot|#3[49]);/g, '&$1;')),
};

/** A filter whose result counts against the memory limit. */
function counted(filter: (value: unknown) => string | Safe): FilterImplOptions {
  return function count(value) {
    const result = filter(value);
    this.context.memoryLimit.use(printable(result).length);
    return result;
  };
}

/** What `||` replaces. */
export function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === undefined || value === null || value === '' || value === false;
}

function lineBreaks(value: unknown): Safe {
  return new Safe(htmlLines(printHtml(value)));
}

/** HTML that shows the line breaks in it. */
export function htmlLines(html: string): string {
  return unixLines(html).replaceAll('\n', '<br>\n');
}

/** One line. */
export function squish(value: unknown): string {
  return printable(value).trim().replaceAll(/\s+/g, ' ');
}

/** Two blanks before each line that holds anything, so that no value can look like what stands around it. */
export function indent(value: unknown): string {
  const indented = `  ${unixLines(printable(value)).replaceAll('\n', '\n  ')}`;
  // Twice, because the second of two empty lines begins where the first ends.
  return indented.replaceAll('\n  \n', '\n\n').replaceAll('\n  \n', '\n\n');
}

/** Whatever breaks a line, as LF. */
function unixLines(text: string): string {
  return text.replaceAll(/\r\n?|[\u0085\u2028\u2029]/g, '\n');
}

/** `482 kB` */
function filesize(value: unknown): string {
  const bytes = Number(toValue(value));
  if (!Number.isFinite(bytes)) return printable(value);
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 999_500 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Formats moments (ms) of an IANA time zone as `2026-01-05 15:03:00 +01:00`: a person reads it, and so does the `date` filter. */
export function timestampFormat(timeZone: string): (ms: number) => string {
  try {
    const format = new Intl.DateTimeFormat('sv-SE', {
      timeZone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      timeZoneName: 'longOffset',
    });
    return (ms) => format.format(ms).replace('GMT', '').replace('−', '-');
  } catch (cause) {
    throw new UserError(`${JSON.stringify(timeZone)} is not a time zone such as Europe/Berlin or UTC`, { cause });
  }
}
