/**
 * The templates of a project: parsed once, rendered for each mail. Submitted text is data, never parsed; HTML is escaped; a
 * template that fails or passes a limit throws TemplateRenderError, and the built-in one, which can do neither, takes its
 * place. Subjects and lines never hold a line break.
 */
import { acknowledgmentBuiltin } from './builtin/acknowledgment.ts';
import { defaultBuiltin } from './builtin/default.ts';
import { bounded } from './bounds.ts';
import { CompiledTemplates, type TemplateSources } from './compiled.ts';
import { TemplateError, TemplateRenderError, type TemplateFault } from './errors.ts';
import { TENANT_LIMITS } from './liquid.ts';
import { scopeOf } from './scope.ts';
import type { Builtin, Rendered, TemplateSource, TemplateType, Variables } from './template.ts';
import { createZone, type Zone } from './zone.ts';

export { TemplateError, TemplateRenderError };
export type { Rendered, TemplateFault, TemplateSource, TemplateSources, TemplateType, Variables };

export interface TemplateSet {
  has(name: string): boolean;
  /** A template of the project, else the built-in `default` or `acknowledgment`. Throws TemplateRenderError. */
  render(name: string, variables: Variables): Rendered;
  /** The built-in template of this type, whatever the project calls by its name. Of more than 256 Ki characters it shows a part. */
  renderBuiltin(type: TemplateType, variables: Variables): Rendered;
  /** A subject or a name that may hold expressions: one line of at most 500 characters. Throws TemplateRenderError. */
  line(source: string, variables: Variables): string;
}

export interface TemplateOptions {
  /** IANA name; UTC unless told. */
  readonly timezone?: string | undefined;
}

const BUILTIN_TYPES: ReadonlyMap<string, TemplateType> = new Map([
  ['default', 'form'],
  ['acknowledgment', 'acknowledgment'],
]);

/** Throws TemplateError at the first fault, UserError for a time zone that there is not. */
export function compileTemplates(templates: TemplateSources, { timezone = 'UTC' }: TemplateOptions = {}): TemplateSet {
  const zone = createZone(timezone);
  const builtins = createBuiltins(zone);
  const project = new CompiledTemplates(templates, { zone, limits: TENANT_LIMITS, builtins });
  const [fault] = project.faults;
  if (fault !== undefined) throw new TemplateError(fault);
  return {
    has: (name) => project.has(name) || BUILTIN_TYPES.has(name),
    render(name, variables) {
      const type = project.has(name) ? undefined : BUILTIN_TYPES.get(name);
      return type === undefined ? project.render(name, variables) : builtins[type](variables);
    },
    renderBuiltin: (type, variables) => builtins[type](variables),
    line: (source, variables) => project.line(source, variables),
  };
}

/** Every fault of every template; one that parses is rendered with an example, so that its limits show before a mail does. */
export function checkTemplates(
  templates: TemplateSources,
  { timezone = 'UTC' }: TemplateOptions = {},
): readonly TemplateFault[] {
  const zone = createZone(timezone);
  const compiled = new CompiledTemplates(templates, { zone, limits: TENANT_LIMITS, builtins: createBuiltins(zone) });
  const trials = Object.keys(templates).flatMap((name) => {
    if (!compiled.has(name)) return [];
    try {
      compiled.render(name, EXAMPLE);
      return [];
    } catch (error) {
      if (error instanceof TemplateRenderError) return [error.fault];
      throw error;
    }
  });
  return [...compiled.faults, ...trials];
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
