/** What a field is called where nobody named it. */
import type { FormConfig } from './schema.ts';

type FieldRule = FormConfig['fields'][string];

/** What the configuration says of the field; a list may be sent as `name[]`. */
export function ruleOf({ fields }: Pick<FormConfig, 'fields'>, name: string): FieldRule | undefined {
  const key = withoutBrackets(name);
  return Object.hasOwn(fields, key) ? fields[key] : undefined;
}

/** The configured label, else the name as a person would write it: `first_name` is "First name". */
export function labelOf(config: Pick<FormConfig, 'fields'>, name: string): string {
  const configured = ruleOf(config, name)?.label;
  if (configured !== undefined) return configured;
  // Whoever names a field in words, or in another script, has chosen how it reads.
  if (!/^[a-z][\w.-]*(?:\[\])?$/i.test(name)) return name;
  const words = withoutBrackets(name)
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll(/[_.-]+/g, ' ')
    .trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function withoutBrackets(name: string): string {
  return name.endsWith('[]') ? name.slice(0, -2) : name;
}
