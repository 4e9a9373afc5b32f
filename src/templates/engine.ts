/**
 * The templates of a project: parsed once, rendered for each mail. Submitted text is data, never parsed; HTML is escaped; a
 * template that fails or passes a limit throws TemplateRenderError, and the built-in one, which can do neither, takes its
 * place. Subjects and lines never hold a line break.
 */
import type { Template } from 'liquidjs';
import { acknowledgmentMail, bounded, languageOf, notificationMail, type Builtin } from './builtin.ts';
import { dateFormat, type Language } from '../languages/languages.ts';
import { Engine, nullPrototype, timestampFormat, unfinishedFilters, type TimeLeft } from './liquid.ts';
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

export type TemplateSources = Readonly<Record<string, TemplateSource>>;

const BUILTIN_TYPES: ReadonlyMap<string, TemplateType> = new Map([
  ['default', 'form'],
  ['acknowledgment', 'acknowledgment'],
]);

/** Whether there is a built-in template of this name. */
export function isBuiltin(name: string): boolean {
  return BUILTIN_TYPES.has(name);
}

/** The built-in templates, whatever a project calls by their names. Of more than 256 Ki characters they show a part. */
export function builtinTemplates(timezone = 'UTC'): Readonly<Record<TemplateType, Builtin>> {
  // A formatter costs a hundred times what using it does.
  const formats = new Map<Language, (ms: number) => string>();

  function scope(variables: Variables): Variables {
    const { language } = languageOf(variables);
    const format = formats.get(language) ?? dateFormat(language, timezone);
    formats.set(language, format);
    return scopeOf({}, variables, format);
  }

  return {
    form: (variables) => notificationMail(bounded(scope(variables))),
    acknowledgment: (variables) => acknowledgmentMail(scope(variables)),
  };
}

const PARTS: readonly TemplatePart[] = ['subject', 'text', 'html'];
const MAX_LINE_LENGTH = 500;

interface Entry {
  readonly type: TemplateType;
  readonly variables: Variables;
  readonly parts: ReadonlyMap<TemplatePart, Template[]>;
}

/** A template that has a fault cannot be rendered, all others can. */
export class TemplateSet {
  /** Of all templates, in their order. */
  readonly faults: readonly TemplateFault[];
  readonly #entries = new Map<string, Entry>();
  readonly #text: Engine;
  readonly #html: Engine;
  readonly #format: (ms: number) => string;
  readonly #builtins: Readonly<Record<TemplateType, Builtin>>;

  /** `timezone` is an IANA name. Throws UserError for one that there is not. */
  constructor(sources: TemplateSources, timezone = 'UTC') {
    this.#format = timestampFormat(timezone);
    this.#builtins = builtinTemplates(timezone);
    this.#text = new Engine(false, timezone, bodies(sources, 'text'));
    this.#html = new Engine(true, timezone, bodies(sources, 'html'));
    this.faults = Object.entries(sources).flatMap(([name, source]) => this.#add(name, source));
  }

  has(name: string): boolean {
    return this.#entries.has(name) || isBuiltin(name);
  }

  /** A template of the project, else the built-in `default` or `acknowledgment`. Throws TemplateRenderError. */
  render(template: string, variables: Variables, timeLeft: TimeLeft = endless): Rendered {
    const entry = this.#entries.get(template);
    const fault = this.faults.find((one) => one.template === template);
    if (entry === undefined) {
      const builtin = BUILTIN_TYPES.get(template);
      if (builtin !== undefined && fault === undefined) return this.#builtins[builtin](variables);
      const missing = { template, part: 'text', line: 1, column: 1, message: 'there is no such template' } as const;
      throw new TemplateRenderError(fault ?? missing);
    }
    const scope = scopeOf(entry.variables, variables, this.#format);
    const made: Partial<Record<TemplatePart, string>> = {};
    for (const [part, parsed] of entry.parts) {
      made[part] = attempt({ template, part }, () => this.#engine(part).render(parsed, scope, timeLeft));
    }
    const { subject, html, text = html === undefined ? undefined : htmlToText(html) } = made;
    const bodies =
      text === undefined ? this.#builtins[entry.type](scope) : { text, ...(html === undefined ? {} : { html }) };
    return { ...bodies, ...(subject === undefined ? {} : { subject: oneLine(subject) }) };
  }

  /** A subject or a name that may hold expressions: one line of at most 500 characters. Throws TemplateRenderError. */
  line(source: string, variables: Variables, timeLeft: TimeLeft = endless): string {
    if (!source.includes('{')) return oneLine(source);
    return attempt({ template: '', part: 'subject' }, () => {
      const scope = scopeOf({}, variables, this.#format);
      return oneLine(this.#text.render(this.#text.parse(source), scope, timeLeft));
    });
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

/** Throws TemplateError at the first fault, UserError for a time zone that there is not. */
export function compileTemplates(sources: TemplateSources, timezone?: string): TemplateSet {
  const set = new TemplateSet(sources, timezone);
  const [fault] = set.faults;
  if (fault !== undefined) throw new TemplateError(fault);
  return set;
}

function endless(): number {
  return Number.POSITIVE_INFINITY;
}

/**
 * Every fault of every template; one that parses is rendered with an example, so that its limits show before a mail does.
 * Where the time is over, the one that is being rendered says so, and the rest is not looked at.
 */
export function checkTemplates(sources: TemplateSources, timeLeft: TimeLeft = endless): readonly TemplateFault[] {
  const set = new TemplateSet(sources);
  const faulty = new Set(set.faults.map(({ template }) => template));
  const faults = [...set.faults];
  for (const [name, source] of Object.entries(sources).filter(([name]) => !faulty.has(name))) {
    faults.push(...unfinishedIn(name, source));
    try {
      set.render(name, EXAMPLE, timeLeft);
    } catch (error) {
      if (!(error instanceof TemplateRenderError)) throw error;
      faults.push(error.fault);
      // Nothing is known of the others.
      if (timeLeft() <= 0) break;
    }
  }
  return faults;
}

function unfinishedIn(template: string, source: TemplateSource): TemplateFault[] {
  return PARTS.flatMap((part) =>
    unfinishedFilters(source[part] ?? '').map((token) => {
      const [line = 1, column = 1] = token.getPosition();
      return { template, part, line, column, message: 'a filter is missing after the last |' };
    }),
  );
}

const EXAMPLE: Variables = {
  form: { name: 'Ada Lovelace', email: 'ada@example.com', message: 'Hello\nworld', subject: 'Hello' },
  fields: [
    { name: 'name', label: 'Name', value: 'Ada Lovelace' },
    { name: 'email', label: 'Email', value: 'ada@example.com', link: 'mailto:ada@example.com' },
    { name: 'message', label: 'Message', value: 'Hello\nworld' },
  ],
  files: [{ filename: 'notes.pdf', size: 48_213, content_type: 'application/pdf' }],
  form_name: 'Contact',
  domain: 'example.com',
  timestamp: Date.UTC(2026, 0, 5, 14, 3),
  ip: '192.0.2.1',
  referer: 'https://example.com/contact',
  submission_id: 'sub_01jgwz4v8k7m5n3p2q1r0s9t8v',
  language: 'en',
  links: {
    view: 'https://mail.example.net/s/view',
    spam: 'https://mail.example.net/s/spam',
    stop: 'https://mail.example.net/s/stop',
  },
};

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

/** As it may be in a header. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim();
  return line
    .slice(0, MAX_LINE_LENGTH)
    .replace(/[\uD800-\uDBFF]$/, '')
    .toWellFormed();
}

/** What is given stands over the template's own variables; names such as `__proto__` are names. */
function scopeOf(defaults: Variables, given: Variables, format: (ms: number) => string): Variables {
  const scope = nullPrototype(defaults);
  for (const [name, value] of Object.entries(given)) if (value !== undefined) scope[name] = value;
  const timestamp = scope['timestamp'];
  if (typeof timestamp === 'number' || typeof timestamp === 'string' || timestamp instanceof Date) {
    const ms = new Date(timestamp).getTime();
    if (!Number.isNaN(ms)) scope['timestamp'] = format(ms);
  }
  return scope;
}
