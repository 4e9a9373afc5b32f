/** HTML by tagged templates: whatever is put in is escaped, unless it is HTML already. */

/** Text that is HTML. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Content = Html | string | number | undefined | false | readonly Content[];

/** The template with its values escaped; lists are joined, `undefined` and `false` are nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  let text = strings[0] ?? '';
  for (const [i, value] of values.entries()) text += write(value) + (strings[i + 1] ?? '');
  return new Html(text);
}

function write(value: Content): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return escapeHtml(value);
  let text = '';
  for (const item of value) text += write(item);
  return text;
}

/** Safe in text and in quoted attributes. NUL, which no HTML can hold, becomes U+FFFD. */
export function escapeHtml(text: string): string {
  if (!/[&<>"'\0]/.test(text)) return text;
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
    .replaceAll('\0', '\u{fffd}');
}
