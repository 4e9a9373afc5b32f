/**
 * LiquidJS within bounds: no file system, no inherited property, no unknown filter, and limits on what a template may take,
 * its output included. An engine prints either HTML, escaped, or plain text.
 */
import { Liquid, toValueSync, type Context, type Emitter, type Template } from 'liquidjs';
import { extend, operators, printHtml, printable } from './filters.ts';
import type { Zone } from './zone.ts';

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
