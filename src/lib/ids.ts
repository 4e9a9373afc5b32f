/** Ids: `<kind>_<26 characters>`, a ULID in lower case: 48 bits of time, then 80 random bits, so that they sort by age. */
import { randomUUID } from 'node:crypto';

export type IdKind =
  'sub' | 'msg' | 'dlv' | 'fil' | 'frm' | 'key' | 'prj' | 'ten' | 'evt' | 'rev' | 'req' | 'whk' | 'whd' | 'inb' | 'inl';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** Two characters, by the ten bits that they stand for. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => ALPHABET.charAt(bits >>> 5) + ALPHABET.charAt(bits & 31));

/** A new id of this kind for a thing made at `now` (milliseconds). */
export function newId(kind: IdKind, now: number): string {
  // Node keeps random bits at hand for UUIDs: a call of randomBytes for each id was a tenth of row 1 of the bench. The two
  // groups of them that say the kind of UUID (RFC 9562 §4) are left out.
  const [first = '', , , , last = ''] = randomUUID().split('-');
  const bits = first + last;
  return `${kind}_${timePart(now)}${quartet(bits, 0)}${quartet(bits, 5)}${quartet(bits, 10)}${quartet(bits, 15)}`;
}

/** Four characters for the 20 bits that five hexadecimal digits stand for. */
function quartet(digits: string, at: number): string {
  return four(Number.parseInt(digits.slice(at, at + 5), 16));
}

function four(bits: number): string {
  return (PAIRS[bits >>> 10] ?? '') + (PAIRS[bits & 1023] ?? '');
}

/** What no id of this kind that was made at `at` (ms) or later sorts before. */
export function firstId(kind: IdKind, at: number): string {
  return `${kind}_${timePart(at)}${'0'.repeat(16)}`;
}

/** When the thing with this id was made, ms. */
export function timeOfId(id: string): number {
  const start = id.indexOf('_') + 1;
  let time = 0;
  for (let i = start; i < start + 10; i++) time = time * 32 + ALPHABET.indexOf(id.charAt(i));
  return time;
}

function timePart(now: number): string {
  // The time of what only looks like an id may be anything.
  const time = Math.max(0, Math.floor(now)) % 2 ** 50;
  const high = Math.floor(time / 2 ** 20);
  return (PAIRS[Math.floor(high / 2 ** 20)] ?? '') + four(high % 2 ** 20) + four(time % 2 ** 20);
}

export type Environment = 'live' | 'test';

const TEST = ':test';

/**
 * The partition of an account that its test keys work in. To the store it is a tenant of its own, so that no query that
 * names a tenant mixes what is live with what is not.
 */
export function testPartitionOf(account: string): string {
  return account.endsWith(TEST) ? account : account + TEST;
}

/** The account that a tenant is, or is the test partition of. */
export function accountOf(tenant: string): string {
  return tenant.endsWith(TEST) ? tenant.slice(0, -TEST.length) : tenant;
}

/** Whether the tenant is an account itself (`live`) or the test partition of one. */
export function environmentOf(tenant: string): Environment {
  return tenant.endsWith(TEST) ? 'test' : 'live';
}

/** What a form is counted under: submissions of test keys, to whatever form, are counted apart. */
export function counterOf({ tenant, id }: { readonly tenant: string; readonly id: string }): string {
  return environmentOf(tenant) === 'test' ? testPartitionOf(id) : id;
}
