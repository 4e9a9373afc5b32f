/**
 * A map of templates, parsed with one engine for HTML and one for text and subjects, under the same limits. A template with
 * a subject alone has the built-in bodies of its type.
 */
import type { Template } from 'liquidjs';

import { explain, TemplateRenderError, type TemplateFault, type TemplatePart } from './errors.ts';
import { createEngine, type Engine, type Limits, type TimeLeft, nullPrototype } from './liquid.ts';
import { htmlToText } from './plain-text.ts';
import type { Builtin, Rendered, TemplateSource, TemplateType, Variables } from './template.ts';
import type { Zone } from './zone.ts';

export type TemplateSources = Readonly<Record<string, TemplateSource>>;

export interface CompileOptions {
  readonly zone: Zone;
  readonly limits: Limits;
  readonly builtins: Readonly<Record<TemplateType, Builtin>>;
}

interface Entry {
  readonly type: TemplateType;
  readonly variables: Variables;
  readonly parts: ReadonlyMap<TemplatePart, Template[]>;
}

interface Rendering {
  readonly parsed: Template[];
  readonly scope: Readonly<Record<string, unknown>>;
  readonly timeLeft: TimeLeft;
}

const PARTS: readonly TemplatePart[] = ['subject', 'text', 'html'];
const LONGEST_LINE = 500;
const KEPT_LINES = 500;

export class CompiledTemplates {
  /** Of all templates, in their order. A template that has any cannot be rendered. */
  readonly faults: readonly TemplateFault[];
  readonly #entries = new Map<string, Entry>();
  readonly #text: Engine;
  readonly #html: Engine;
  readonly #zone: Zone;
  readonly #builtins: Readonly<Record<TemplateType, Builtin>>;
  /** Forms have few of them; what comes over the API is bounded. */
  readonly #lines = new Map<string, Template[]>();

  constructor(sources: TemplateSources, { zone, limits, builtins }: CompileOptions) {
    this.#zone = zone;
    this.#builtins = builtins;
    this.#text = createEngine({ html: false, zone, limits, partials: bodies(sources, 'text') });
    this.#html = createEngine({ html: true, zone, limits, partials: bodies(sources, 'html') });
    this.faults = Object.entries(sources).flatMap(([name, source]) => this.#add(name, source));
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** Throws TemplateRenderError. */
  render(name: string, variables: Variables, timeLeft: TimeLeft): Rendered {
    const entry = this.#entries.get(name);
    if (entry === undefined) {
      const missing = { part: 'text', line: 1, column: 1, message: 'there is no such template' } as const;
      throw new TemplateRenderError(
        this.faults.find(({ template }) => template === name) ?? { template: name, ...missing },
      );
    }
    const scope = scopeOf(entry.variables, variables, this.#zone);
    const part = (key: TemplatePart): string | undefined => {
      const parsed = entry.parts.get(key);
      return parsed === undefined
        ? undefined
        : this.#render({ template: name, part: key }, { parsed, scope, timeLeft });
    };
    const subject = part('subject');
    const html = part('html');
    const text = part('text') ?? (html === undefined ? undefined : htmlToText(html));
    const bodies =
      text === undefined ? this.#builtins[entry.type](scope) : { text, ...(html === undefined ? {} : { html }) };
    return { ...bodies, ...(subject === undefined ? {} : { subject: oneLine(subject) }) };
  }

  /** Throws TemplateRenderError. */
  line(source: string, variables: Variables, timeLeft: TimeLeft): string {
    if (!source.includes('{')) return oneLine(source);
    const place = { template: '', part: 'subject' } as const;
    const parsed = this.#lines.get(source) ?? attempt(place, () => this.#text.parse(source));
    if (this.#lines.size === KEPT_LINES) this.#lines.clear();
    this.#lines.set(source, parsed);
    return oneLine(this.#render(place, { parsed, scope: scopeOf({}, variables, this.#zone), timeLeft }));
  }

  #render(place: Pick<TemplateFault, 'template' | 'part'>, { parsed, scope, timeLeft }: Rendering): string {
    return attempt(place, () => this.#engine(place.part).render(parsed, scope, timeLeft));
  }

  #engine(part: TemplatePart): Engine {
    return part === 'html' ? this.#html : this.#text;
  }

  #add(template: string, source: TemplateSource): TemplateFault[] {
    const faults: TemplateFault[] = [];
    const parts = new Map<TemplatePart, Template[]>();
    for (const part of PARTS) {
      const text = source[part];
      if (text === undefined) continue;
      try {
        const parsed = this.#engine(part).parse(text);
        parts.set(part, parsed);
        for (const missing of this.#engine(part).missingPartials(parsed)) {
          const [line = 1, column = 1] = missing.template.token.getPosition();
          const message = `there is no template ${JSON.stringify(missing.name)} with ${part === 'html' ? 'html' : 'text'}`;
          faults.push({ template, part, line, column, message });
        }
      } catch (error) {
        faults.push({ template, part, ...explain(error) });
      }
    }
    if (faults.length === 0) this.#entries.set(template, { type: source.type, variables: source.variables, parts });
    return faults;
  }
}

function attempt<T>(place: Pick<TemplateFault, 'template' | 'part'>, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new TemplateRenderError({ ...place, ...explain(cause) }, { cause });
  }
}

function bodies(sources: TemplateSources, part: 'text' | 'html'): Record<string, string> {
  return Object.fromEntries(
    Object.entries(sources).flatMap(([name, { [part]: body }]) => (body === undefined ? [] : [[name, body]])),
  );
}

/** As it may stand in a header. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim();
  return line
    .slice(0, LONGEST_LINE)
    .replace(/[\uD800-\uDBFF]$/, '')
    .toWellFormed();
}

// What a template sees.

/** What is given stands over the template's own variables; names such as `__proto__` are names. */
export function scopeOf(defaults: Variables, given: Variables, zone: Zone): Variables {
  const scope = nullPrototype(defaults);
  for (const [name, value] of Object.entries(given)) if (value !== undefined) scope[name] = value;
  const timestamp = scope['timestamp'];
  if (typeof timestamp === 'number' || typeof timestamp === 'string' || timestamp instanceof Date) {
    const ms = new Date(timestamp).getTime();
    if (!Number.isNaN(ms)) scope['timestamp'] = zone.format(ms);
  }
  return scope;
}
