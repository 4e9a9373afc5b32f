/** The values of options: read here, so that a wrong one ends in a usage error that says what is expected. */
import { InvalidArgumentError } from 'commander';
import { parseAddress, parseDomain } from '../lib/addresses.ts';

/** A reader of whole numbers from `least` to `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `of ${least} or more` : `from ${least} to ${most}`;
  return (text) => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Must be a whole number ${range}.`);
  };
}

/** A reader of texts that `read` brings into their normal form; it answers undefined for a wrong one. */
function textOf(expected: string, read: (text: string) => string | undefined): (text: string) => string {
  return (text) => {
    const value = read(text);
    if (value !== undefined) return value;
    throw new InvalidArgumentError(`Must be ${expected}.`);
  };
}

/** A date, such as 2026-01-31, or a time with its zone, as it was given. */
export const dateOrTime = textOf('a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z', (text) => {
  const [, day, time] = /^(2\d{3}-\d\d-\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  const isRight = day !== undefined && isDay(day) && (time === undefined || !Number.isNaN(Date.parse(text)));
  return isRight ? text : undefined;
});

/** Date.parse takes the 30th of February for the 2nd of March. */
function isDay(day: string): boolean {
  const at = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day);
}

/** The moment that a date (its beginning, UTC) or time is, as ISO 8601. */
export function moment(text: string): string {
  return new Date(dateOrTime(text)).toISOString();
}

/** A month, such as 2026-01. */
export const month = textOf('a month such as 2026-01', (text) => /^2\d{3}-(?:0[1-9]|1[0-2])$/.exec(text)?.[0]);

/** A mail address in its normal form. */
export const mailAddress = textOf(
  'an email address such as you@example.com',
  (text) => parseAddress(text.trim())?.address,
);

/** A domain name in its normal form. */
export const domainName = textOf('a domain name such as example.com', (text) => parseDomain(text.trim()));

/** An http or https address. */
export const webAddress = textOf('a URL such as https://example.com/hook', (text) =>
  isWebAddress(text) ? text : undefined,
);

function isWebAddress(text: string): boolean {
  return /^https?:\/\//.test(text) && URL.canParse(text);
}

/** What the address of a server looks like. */
export const SERVER_ADDRESS = 'a URL such as https://mail.example.net or unix:/run/postern/admin.sock';

/** Whether a text says where a server is: an http or https address, or that of a Unix socket. */
export function isServerAddress(text: string): boolean {
  return /^unix:./.test(text) || isWebAddress(text);
}

/** Where a server is. */
export const serverAddress = textOf(SERVER_ADDRESS, (text) => (isServerAddress(text) ? text : undefined));

/** A reader of lists, `a,b`, which may be given more than once; `read` takes one of the entries. */
export function listOf<Entry>(read: (text: string) => Entry): (text: string, before?: readonly Entry[]) => Entry[] {
  return (text, before = []) => {
    const entries = text
      .split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry !== '');
    if (entries.length === 0) throw new InvalidArgumentError('Must contain at least one value.');
    return [...before, ...entries.map(read)];
  };
}

/** A reader of one of these words. */
export function oneOf<Word extends string>(words: readonly Word[]): (text: string) => Word {
  return (text) => {
    const word = words.find((each) => each === text);
    if (word !== undefined) return word;
    throw new InvalidArgumentError(`"${text}" is not one of ${words.join(', ')}.`);
  };
}
