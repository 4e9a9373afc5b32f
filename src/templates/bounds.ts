/**
 * What the built-in templates show of a submission, so that the notification of the largest one is still made in a moment and
 * small enough for any mail server: all fields, and of the text as much as a person may ever write.
 */
import { printable } from './filters.ts';
import type { Variables } from './template.ts';

/** Characters of all labels and values; four fields of the greatest length. */
const LONGEST = 1 << 18;
const LONGEST_LABEL = 200;

/** The variables themselves, or ones in which each label and value of `fields` is cut to an equal share. */
export function bounded(variables: Variables): Variables {
  const fields = variables['fields'];
  if (!Array.isArray(fields)) return variables;
  const all = fields.map((field: unknown) => ({ label: textOf(field, 'label'), value: textOf(field, 'value') }));
  if (all.reduce((sum, { label, value }) => sum + label.length + value.length, 0) <= LONGEST) return variables;
  const share = Math.floor(LONGEST / all.length);
  return {
    ...variables,
    fields: all.map(({ label, value }) => ({
      label: cut(label, Math.min(share, LONGEST_LABEL)),
      value: cut(value, share),
    })),
  };
}

function textOf(field: unknown, name: 'label' | 'value'): string {
  return typeof field === 'object' && field !== null && name in field ? printable(Reflect.get(field, name)) : '';
}

function cut(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const start = text.slice(0, longest).replace(/[\uD800-\uDBFF]$/, '');
  return `${start}… [${text.length - start.length} more characters]`;
}
