/**
 * What templates can do beyond Liquid: the `||` operator, `nl2br`, a `date` that knows the project's zone, `indent` and
 * `filesize`; and how a value becomes text. In HTML everything printed is escaped, once: what has been escaped already is
 * wrapped in Safe, and whatever is done to a Safe makes it plain text again.
 */
import {
  CaptureTag,
  Drop,
  defaultOperators,
  filters,
  toValue,
  type Context,
  type FilterImplOptions,
  type Liquid,
  type Operators,
} from 'liquidjs';
import type { Zone } from './zone.ts';

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
export const operators: Operators = Object.assign(
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
export function printHtml(value: unknown): string {
  return value instanceof Safe ? value.html : escapeHtml(printable(value));
}

/** Makes an engine ours; `html` says whether it prints with printHtml. */
export function extend(liquid: Liquid, { html, zone }: { html: boolean; zone: Zone }): void {
  liquid.registerFilter('date', dateFilter(zone));
  liquid.registerFilter(
    'indent',
    counted((value) => indent(printable(value))),
  );
  liquid.registerFilter('filesize', filesize);
  if (!html) {
    // Plain text shows its line breaks.
    liquid.registerFilter('nl2br', printable);
    return;
  }
  liquid.registerTag('capture', SafeCaptureTag);
  for (const name of ['nl2br', 'newline_to_br']) liquid.registerFilter(name, counted(lineBreaks));
  for (const name of ['escape', 'xml_escape']) {
    liquid.registerFilter(
      name,
      counted((value) => new Safe(printHtml(value))),
    );
  }
  liquid.registerFilter(
    'escape_once',
    counted((value) => new Safe(escapeHtml(unescapeHtml(printable(value))))),
  );
}

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
export function indent(text: string): string {
  const indented = `  ${unixLines(text).replaceAll('\n', '\n  ')}`;
  // Twice, because the second of two empty lines begins where the first ends.
  return indented.replaceAll('\n  \n', '\n\n').replaceAll('\n  \n', '\n\n');
}

/** Whatever breaks a line, as LF. */
function unixLines(text: string): string {
  return text.replaceAll(/\r\n?|[\u0085\u2028\u2029]/g, '\n');
}

const ENTITIES: ReadonlyMap<number, string> = new Map([
  [0x26, '&amp;'],
  [0x3c, '&lt;'],
  [0x3e, '&gt;'],
  [0x22, '&quot;'],
  [0x27, '&#39;'],
]);

/** Text as HTML. A loop, because a callback for each character takes four times as long on text that is full of them. */
export function escapeHtml(text: string): string {
  let escaped = '';
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x3e) continue;
    const entity = ENTITIES.get(code);
    if (entity === undefined) continue;
    escaped += text.slice(from, i) + entity;
    from = i + 1;
  }
  return escaped + text.slice(from);
}

function unescapeHtml(text: string): string {
  return text.replaceAll(/&(?:amp|lt|gt|quot|#3[49]);/g, (entity) => {
    if (entity === '&#34;') return '"';
    for (const [code, name] of ENTITIES) if (name === entity) return String.fromCharCode(code);
    return entity;
  });
}

/**
 * Liquid's own filter (strftime), which takes 0.1 ms to find the offset of a named zone; the zone's formatter knows it at
 * once. What is not a moment is printed as it is.
 */
function dateFilter(zone: Zone): FilterImplOptions {
  const original = filters['date'];
  if (typeof original !== 'function') throw new TypeError('liquidjs has no date filter');
  return function date(value, format, timezone) {
    const ms = milliseconds(toValue(value));
    const zoneOrOffset: unknown = timezone ?? (ms === undefined ? zone.name : -zone.offset(ms));
    const text: unknown = original.call(this, value, format, zoneOrOffset);
    return text;
  };
}

/** When a value is, as the original filter reads it; undefined for what is not a moment, and for `now`. */
function milliseconds(value: unknown): number | undefined {
  if (typeof value === 'number') return valid(value * 1000);
  if (typeof value === 'string') return valid(/^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value));
  return value instanceof Date ? valid(value.getTime()) : undefined;
}

function valid(ms: number): number | undefined {
  return Math.abs(ms) <= 8.64e15 ? ms : undefined;
}

/** `482 kB` */
export function filesize(value: unknown): string {
  const bytes = Number(toValue(value));
  if (!Number.isFinite(bytes)) return printable(value);
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 999_500 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
