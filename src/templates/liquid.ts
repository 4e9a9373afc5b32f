/**
 * LiquidJS within bounds: no file system, no inherited property, no unknown filter, and limits on what a template may take,
 * its output included. An engine prints either HTML, escaped, or plain text.
 */
import {
  Liquid,
  toValueSync,
  type Context,
  type Emitter,
  type Template,
  CaptureTag,
  Drop,
  defaultOperators,
  filters,
  toValue,
  type FilterImplOptions,
  type Operators,
} from 'liquidjs';

import { UserError } from '../lib/errors.ts';

export interface Limits {
  /** Characters of one template. */
  readonly parse: number;
  /** Milliseconds of one rendering. */
  readonly time: number;
  /** Characters that one rendering may make, its output and everything in between. */
  readonly memory: number;
}

/**
 * For what tenants write. A list counts one for each element, which takes eight bytes, so that this much may be 128 MiB; a
 * mail of this many characters would be refused for its size.
 */
export const TENANT_LIMITS: Limits = { parse: 1 << 20, time: 1000, memory: 16 << 20 };

/** Milliseconds that are left for everything that belongs together. */
export type TimeLeft = () => number;

export interface EngineOptions {
  readonly html: boolean;
  readonly zone: Zone;
  readonly limits: Limits;
  /** What `render`, `include` and `layout` may name. */
  readonly partials: Readonly<Record<string, string>>;
}

export interface Engine {
  /** Throws a LiquidError. */
  parse(source: string): Template[];
  /** Throws a LiquidError, a RangeError on endless recursion, or an Error where no time is left. `scope` is not changed. */
  render(template: Template[], scope: Readonly<Record<string, unknown>>, timeLeft: TimeLeft): string;
  /** The partials that a template names and that are not there. */
  missingPartials(template: readonly Template[]): { name: string; template: Template }[];
}

export function createEngine({ html, zone, limits, partials }: EngineOptions): Engine {
  const names = nullPrototype(partials);
  const liquid = new Liquid({
    templates: names,
    cache: true,
    operators,
    jsTruthy: true,
    ownPropertyOnly: true,
    strictFilters: true,
    timezoneOffset: zone.name,
    dateFormat: '%Y-%m-%d %H:%M',
    locale: 'en-US',
    parseLimit: limits.parse,
    renderLimit: limits.time,
    memoryLimit: limits.memory,
    ...(html ? { outputEscape: printHtml } : {}),
  });
  extend(liquid, { html, zone });
  countOutput(liquid);

  function missingPartials(templates: readonly Template[]): { name: string; template: Template }[] {
    return templates.flatMap((template) => {
      const name = template.partialScope?.()?.name;
      const children = toValueSync(template.children?.(false, true) ?? []);
      const below = missingPartials(children);
      return name === undefined || name in names ? below : [{ name, template }, ...below];
    });
  }

  return {
    parse: (source) => liquid.parse(source),
    render(template, scope, timeLeft) {
      const left = timeLeft();
      if (left <= 0) throw new Error('the templates take too long together');
      const renderLimit = Math.min(limits.time, left);
      return String(finish(liquid._render(template, nullPrototype(scope), { sync: true, renderLimit })));
    },
    missingPartials,
  };
}

/** A copy in which `constructor`, `__proto__` and `toString` are names like any other. */
export function nullPrototype<V>(from: Readonly<Record<string, V>>): Record<string, V> {
  const copy: Record<string, V> = {};
  Object.setPrototypeOf(copy, null);
  return Object.assign(copy, from);
}

/** What a generator and those that it yields come to: LiquidJS's own toValueSync, in two thirds of its time. */
function finish(steps: Iterator<unknown, unknown, unknown>): unknown {
  let step = steps.next();
  while (step.done !== true) {
    const { value } = step;
    if (!isGenerator(value)) {
      step = steps.next(value);
      continue;
    }
    let result: unknown;
    try {
      result = finish(value);
    } catch (error) {
      if (steps.throw === undefined) throw error;
      step = steps.throw(error);
      continue;
    }
    step = steps.next(result);
  }
  return step.value;
}

/** A loop's `forloop` has a `next` as well; only a generator has a `throw`. */
function isGenerator(value: unknown): value is Generator<unknown, unknown, unknown> {
  return typeof value === 'object' && value !== null && 'throw' in value && typeof value.throw === 'function';
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

// * What templates can do beyond Liquid: the `||` operator, `nl2br`, a `date` that knows the project's zone, `indent` and
// `filesize`; and how a value becomes text. In HTML everything printed is escaped, once: what has been escaped already is
// wrapped in Safe, and whatever is done to a Safe makes it plain text again.

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

/** Makes an engine ours; `html` says whether it prints with printHtml. */
function extend(liquid: Liquid, { html, zone }: { html: boolean; zone: Zone }): void {
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

export interface Zone {
  /** The IANA name. */
  readonly name: string;
  /** Minutes that local time is ahead of UTC at a moment (milliseconds). */
  offset(ms: number): number;
  /** `2026-01-05 15:03:00 +01:00`: a person reads it, and so does the `date` filter. */
  format(ms: number): string;
}

/** The zone of an IANA name such as Europe/Berlin. A formatter is kept: making one costs a hundred times what using it does. */
export function createZone(name: string): Zone {
  const parts = formatter(name);
  // No zone changes its offset within a minute, and many mails are made in each.
  let last = { minute: Number.NaN, offset: 0 };

  function offset(ms: number): number {
    const minute = Math.floor(ms / 60_000);
    if (minute !== last.minute) last = { minute, offset: offsetAt(minute * 60_000) };
    return last.offset;
  }

  function offsetAt(ms: number): number {
    const at: Record<string, number> = {};
    for (const { type, value } of parts.formatToParts(ms)) at[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = at;
    return Math.round((Date.UTC(year, month - 1, day, hour, minute, second) - ms) / 60_000);
  }
  return {
    name,
    offset,
    format: (ms) => {
      const minutes = offset(ms);
      const local = new Date(ms + minutes * 60_000).toISOString().replace('T', ' ').slice(0, 19);
      const ahead = new Date(Math.abs(minutes) * 60_000).toISOString().slice(11, 16);
      return `${local} ${minutes < 0 ? '-' : '+'}${ahead}`;
    },
  };
}

function formatter(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch (cause) {
    throw new UserError(`${JSON.stringify(timeZone)} is no time zone such as Europe/Berlin or UTC`, { cause });
  }
}
