/** What is wrong with a submission, in words for the visitor. */
import type { FormConfig } from '../config/schema.ts';

/** A fault of one field, or of the whole form where `field` is absent. */
export interface FieldError {
  readonly field?: string | undefined;
  readonly code: string;
  readonly message: string;
}

/** The field as the visitor knows it. */
export function labelOf(name: string, config: FormConfig): string {
  const label = Object.hasOwn(config.fields, name) ? config.fields[name]?.label : undefined;
  const text = label ?? name;
  return `“${text.length > 60 ? `${text.slice(0, 59)}…` : text}”`;
}
