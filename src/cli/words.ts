/** Numbers, lists and values in sentences. */

/** `1 form`, `3 addresses`. */
export function counted(number: number, thing: string): string {
  return `${number} ${number === 1 ? thing : plural(thing)}`;
}

function plural(thing: string): string {
  return /(?:s|x|ch|sh)$/.test(thing) ? `${thing}es` : `${thing}s`;
}

/** `a, b and 4 more`: the first `most` of them. */
export function listed(items: readonly string[], most = 5): string {
  if (items.length <= most) return items.join(', ');
  return `${items.slice(0, most).join(', ')} and ${items.length - most} more`;
}

const LONGEST = 60;

/** A value of the configuration on one line; `not set` where there is none. */
export function valueText(value: unknown): string {
  if (value === undefined || value === null) return 'not set';
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) {
    return value.length === 0 ? 'none' : listed(value);
  }
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

/** `1.5 MiB`, `12 KiB`. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1_048_576 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;
}

/** Characters between nothing and all. */
const BAR = 24;

/** `██████░░░░ 60 % of 1.5 MiB`: how far a work of so many bytes is. */
export function barText(done: number, total: number): string {
  const share = done / total;
  const full = Math.round(share * BAR);
  const percent = `${Math.floor(share * 100)}`.padStart(3);
  return `${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${percent} % of ${sizeText(total)}`;
}
