/**
 * The templates of a project: parsed once, rendered for each mail. Submitted text is data, never parsed; HTML is escaped; a
 * template that fails or passes a limit throws TemplateRenderError, and the built-in one, which can do neither, takes its
 * place. Subjects and lines never hold a line break.
 */
import { acknowledgmentBuiltin } from './builtin/acknowledgment.ts';
import { defaultBuiltin } from './builtin/default.ts';
import { CompiledTemplates, type TemplateSources, scopeOf } from './compiled.ts';
import { TENANT_LIMITS, type TimeLeft } from './liquid.ts';
import type { Builtin, Rendered, TemplateType, Variables } from './template.ts';
import { createZone, type Zone } from './zone.ts';
import { bounded, type TemplateFault, TemplateError, TemplateRenderError } from './errors.ts';

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
  return createBuiltins(createZone(timezone));
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
  const builtins = createBuiltins(zone);
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

/** The built-in templates, by type. */
function createBuiltins(zone: Zone): Readonly<Record<TemplateType, Builtin>> {
  return { form: within(defaultBuiltin()), acknowledgment: within(acknowledgmentBuiltin()) };

  function within(builtin: Builtin): Builtin {
    return (variables) => builtin(bounded(scopeOf({}, variables, zone)));
  }
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
