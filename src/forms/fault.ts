/** What is wrong with a submission, in words for the visitor. */
import { labelOf } from '../config/label.ts';
import type { FormConfig } from '../config/schema.ts';

/** A fault of one field, or of the whole form where `field` is absent. */
export interface FieldError {
  readonly field?: string | undefined;
  readonly code: string;
  readonly message: string;
}

/** The field as the visitor knows it, in quotation marks. */
export function quotedLabel(name: string, config: FormConfig): string {
  const label = labelOf(config, name);
  return `“${label.length > 60 ? `${label.slice(0, 59)}…` : label}”`;
}
