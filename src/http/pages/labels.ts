/** Names of fields as people read them. */
import type { Form } from '../../config/snapshot.ts';

type FieldRule = Form['config']['fields'][string];

/** What the configuration says of the field; a list may be sent as `name[]`. */
export function ruleOf(form: Form | undefined, name: string): FieldRule | undefined {
  const fields = form?.config.fields;
  const key = name.endsWith('[]') ? name.slice(0, -2) : name;
  return fields !== undefined && Object.hasOwn(fields, key) ? fields[key] : undefined;
}

/** The field's label in the configuration, else its name made readable: `first_name` is "First name". */
export function fieldLabel(form: Form | undefined, name: string): string {
  const configured = ruleOf(form, name)?.label;
  if (configured !== undefined) return configured;
  const words = name
    .replace(/\[\]$/, '')
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll(/[_\-.\s]+/g, ' ')
    .trim();
  return words === '' ? name : words.charAt(0).toUpperCase() + words.slice(1).toLowerCase();
}

/** "about 12 minutes", for a wait in seconds. */
export function waitWords(seconds: number): string {
  if (seconds < 90) return 'about a minute';
  const minutes = Math.ceil(seconds / 60);
  return minutes < 90 ? `about ${minutes} minutes` : `about ${Math.ceil(minutes / 60)} hours`;
}
