/** Mutated inputs from a seed: the same seed and number make the same input, so that a finding can be repeated. */
import { randomFrom } from '../harness/random.ts';

/** A number of [0, 1). */
export type Random = () => number;

/** Seeded with a run's seed and an input's number. */
export function randomOf(seed: number, n: number): Random {
  return randomFrom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b));
}

/** One of the list, which is not empty. */
export function pick<T>(random: Random, list: readonly [T, ...T[]] | readonly T[]): T {
  const found = list[Math.floor(random() * list.length)];
  if (found === undefined) throw new Error('nothing to pick from');
  return found;
}

/** A whole number from 0 to `most`. */
function upTo(random: Random, most: number): number {
  return Math.floor(random() * (most + 1));
}

/** What parsers have tripped over elsewhere. */
const TOKENS: readonly string[] = [
  '\r\n',
  '\n',
  '\r',
  '\0',
  '\r\n.\r\n',
  '\n.\n',
  '..',
  ' ',
  '\t',
  '"',
  "'",
  '\\',
  '%',
  '%00',
  '%0d%0a',
  '%2e%2e%2f',
  '../',
  '{{',
  '}}',
  '{% for i in (1..999999999) %}',
  '<',
  '>',
  '()',
  '<script>',
  '@',
  ',',
  ';',
  ':',
  '=?utf-8?B?',
  '=?utf-8?Q?=0D=0A?=',
  '-1',
  '0',
  '99999999999999999999',
  '1e999',
  'NaN',
  'null',
  'true',
  '[]',
  '{}',
  '__proto__',
  'constructor',
  'toString',
  '\u00ff',
  '\u{1f600}',
  '\u202e',
  '\ufeff',
  '\ud800',
  '--',
  'Content-Length: 5\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Host: other.test\r\n',
  'From: <a@evil.test> <b@victim.test>\r\n',
];

/** One to eight changes: bits, cuts, repetitions, tokens, and pieces of other inputs. */
export function mutate(input: Buffer, random: Random, others: readonly Buffer[]): Buffer {
  let bytes = input;
  for (let changes = 1 + upTo(random, 3) * upTo(random, 2) + upTo(random, 1); changes > 0; changes--)
    bytes = change(bytes, random, others);
  return bytes;
}

const MAX_BYTES = 256 * 1024;

function change(bytes: Buffer, random: Random, others: readonly Buffer[]): Buffer {
  const at = upTo(random, bytes.length);
  const end = Math.min(bytes.length, at + 1 + upTo(random, 40));
  const [before, piece, after] = [bytes.subarray(0, at), bytes.subarray(at, end), bytes.subarray(end)];
  switch (upTo(random, 7)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      if (at < flipped.length) flipped[at] = (flipped[at] ?? 0) ^ (1 << upTo(random, 7));
      return flipped;
    }
    case 1:
      return Buffer.concat([before, after]);
    case 2: {
      const times = 2 + upTo(random, random() < 0.1 ? 4000 : 30);
      const repeated = Buffer.concat(Array.from({ length: times }, () => piece));
      return Buffer.concat([before, repeated, after]).subarray(0, MAX_BYTES);
    }
    case 3:
    case 4:
      return Buffer.concat([before, Buffer.from(pick(random, TOKENS)), piece, after]);
    case 5:
      return Buffer.concat([before, Buffer.from(pick(random, TOKENS)), after]);
    case 6: {
      const other = pick(random, others);
      const from = upTo(random, other.length);
      return Buffer.concat([before, other.subarray(from, from + upTo(random, 400)), after]);
    }
    default:
      return Buffer.concat([before, after, piece]);
  }
}

const VALUES: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  1e308,
  2 ** 53,
  '',
  'x',
  ' ',
  '\0',
  '../../etc/passwd',
  'a@b',
  'a@inbox.test, b@inbox.test',
  '"a b"@inbox.test',
  'http://127.0.0.1/',
  'x'.repeat(5000),
  '\u{1f600}'.repeat(300),
  [],
  {},
  [[]],
  ['x', 'x'],
  { toString: 'x' },
];

/** A JSON value with members changed, taken out, repeated or nested, as JSON. */
export function mutateJson(value: unknown, random: Random): unknown {
  if (random() < 0.15) return pick(random, VALUES);
  if (Array.isArray(value)) {
    const list = value.map((item: unknown) => (random() < 0.3 ? mutateJson(item, random) : item));
    return random() < 0.2 ? [...list, ...list, pick(random, VALUES)] : list;
  }
  if (typeof value !== 'object' || value === null) return random() < 0.5 ? pick(random, VALUES) : value;
  const entries = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    if (random() < 0.08) return [];
    if (random() < 0.06) return [[pick(random, TOKENS), member]];
    return [[name, random() < 0.4 ? mutateJson(member, random) : member]];
  });
  if (random() < 0.1) entries.push([pick(random, TOKENS), pick(random, VALUES)]);
  return Object.fromEntries(entries);
}
