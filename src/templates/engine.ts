/**
 * The templates of a project: parsed once, rendered for each mail. Submitted text is data, never parsed; HTML is escaped; a
 * template that fails or passes a limit throws TemplateRenderError, and the built-in one, which can do neither, takes its
 * place. Subjects and lines never hold a line break.
 */
import type { Template } from 'liquidjs';
import { bounded, createBuiltins, type Builtin } from './builtin.ts';
import {
  TENANT_LIMITS,
  type TimeLeft,
  createEngine,
  type Engine,
  type Limits,
  nullPrototype,
  type Zone,
  createZone,
} from './liquid.ts';
import {
  type Rendered,
  type TemplateType,
  type Variables,
  type TemplateFault,
  TemplateError,
  TemplateRenderError,
  explain,
  type TemplatePart,
  type TemplateSource,
} from './template.ts';
import { htmlToText } from './plain-text.ts';

export interface TemplateSet {
  has(name: string): boolean;
  /** A template of the project, else the built-in `default` or `acknowledgment`. Throws TemplateRenderError. */
  render(name: string, variables: Variables, timeLeft?: TimeLeft): Rendered;
  /** A subject or a name that may hold expressions: one line of at most 500 characters. Throws TemplateRenderError. */
  line(source: string, variables: Variables, timeLeft?: TimeLeft): string;
}

export interface TemplateOptions {
  /** IANA name; UTC unless told. */
  readonly timezone?: string | undefined;
}

const BUILTIN_TYPES: ReadonlyMap<string, TemplateType> = new Map([
  ['default', 'form'],
  ['acknowledgment', 'acknowledgment'],
]);

/** Whether there is a built-in template of this name. */
export function isBuiltin(name: string): boolean {
  return BUILTIN_TYPES.has(name);
}

/** The built-in templates, whatever a project calls by their names. Of more than 256 Ki characters they show a part. */
export function builtinTemplates({ timezone = 'UTC' }: TemplateOptions = {}): Readonly<Record<TemplateType, Builtin>> {
  return builtinsIn(createZone(timezone));
}

function builtinsIn(zone: Zone): Readonly<Record<TemplateType, Builtin>> {
  const { form, acknowledgment } = createBuiltins();
  return {
    form: (variables) => form(bounded(scopeOf({}, variables, zone))),
    acknowledgment: (variables) => acknowledgment(bounded(scopeOf({}, variables, zone))),
  };
}

/** Throws TemplateError at the first fault, UserError for a time zone that there is not. */
export function compileTemplates(templates: TemplateSources, options: TemplateOptions = {}): TemplateSet {
  const { faults, ...set } = openTemplates(templates, options);
  const [fault] = faults;
  if (fault !== undefined) throw new TemplateError(fault);
  return set;
}

export interface OpenedTemplates extends TemplateSet {
  readonly faults: readonly TemplateFault[];
}

/** The same with what is wrong: a template that has a fault cannot be rendered, all others can. */
export function openTemplates(templates: TemplateSources, { timezone = 'UTC' }: TemplateOptions = {}): OpenedTemplates {
  const zone = createZone(timezone);
  const builtins = builtinsIn(zone);
  const project = new CompiledTemplates(templates, { zone, limits: TENANT_LIMITS, builtins });
  return {
    faults: project.faults,
    has: (name) => project.has(name) || BUILTIN_TYPES.has(name),
    render(name, variables, timeLeft = endless) {
      const type = Object.hasOwn(templates, name) ? undefined : BUILTIN_TYPES.get(name);
      return type === undefined ? project.render(name, variables, timeLeft) : builtins[type](variables);
    },
    line: (source, variables, timeLeft = endless) => project.line(source, variables, timeLeft),
  };
}

function endless(): number {
  return Number.POSITIVE_INFINITY;
}

/**
 * Every fault of every template; one that parses is rendered with an example, so that its limits show before a mail does.
 * Where the time is over, the one that is being rendered says so, and the rest is not looked at.
 */
export function checkTemplates(templates: TemplateSources, timeLeft: TimeLeft = endless): readonly TemplateFault[] {
  const opened = openTemplates(templates);
  const faulty = new Set(opened.faults.map(({ template }) => template));
  const faults = [...opened.faults];
  for (const name of Object.keys(templates)) {
    if (faulty.has(name)) continue;
    try {
      opened.render(name, EXAMPLE, timeLeft);
    } catch (error) {
      if (!(error instanceof TemplateRenderError)) throw error;
      faults.push(error.fault);
      // Nothing is known of the others.
      if (timeLeft() <= 0) break;
    }
  }
  return faults;
}

const EXAMPLE: Variables = {
  form: { name: 'Ada Lovelace', email: 'ada@example.com', message: 'Hello\nworld', subject: 'Hello' },
  fields: [
    { name: 'name', label: 'Name', value: 'Ada Lovelace' },
    { name: 'email', label: 'Email', value: 'ada@example.com' },
    { name: 'message', label: 'Message', value: 'Hello\nworld' },
  ],
  files: [{ filename: 'notes.pdf', size: 48_213, content_type: 'application/pdf' }],
  form_name: 'Contact',
  domain: 'example.com',
  timestamp: Date.UTC(2026, 0, 5, 14, 3),
  ip: '192.0.2.1',
  referer: 'https://example.com/contact',
  submission_id: 'sub_01jgwz4v8k7m5n3p2q1r0s9t8v',
};

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

const MAX_LINE_LENGTH = 500;

const MAX_LINES = 500;

class CompiledTemplates {
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
    if (this.#lines.size === MAX_LINES) this.#lines.clear();
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
    .slice(0, MAX_LINE_LENGTH)
    .replace(/[\uD800-\uDBFF]$/, '')
    .toWellFormed();
}

/** What is given stands over the template's own variables; names such as `__proto__` are names. */
function scopeOf(defaults: Variables, given: Variables, zone: Zone): Variables {
  const scope = nullPrototype(defaults);
  for (const [name, value] of Object.entries(given)) if (value !== undefined) scope[name] = value;
  const timestamp = scope['timestamp'];
  if (typeof timestamp === 'number' || typeof timestamp === 'string' || timestamp instanceof Date) {
    const ms = new Date(timestamp).getTime();
    if (!Number.isNaN(ms)) scope['timestamp'] = zone.format(ms);
  }
  return scope;
}
