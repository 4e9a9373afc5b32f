/** Ids: `<kind>_<26 characters>`, a ULID in lower case: 48 bits of time, then 80 random bits, so that they sort by age. */
import { randomFillSync } from 'node:crypto';

export type IdKind =
  | 'sub'
  | 'msg'
  | 'dlv'
  | 'fil'
  | 'frm'
  | 'key'
  | 'prj'
  | 'ten'
  | 'evt'
  | 'rev'
  | 'req'
  | 'whk'
  | 'whd'
  | 'inb'
  | 'inl'
  | 'obj'
  | 'ses'
  | 'sgn';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** Two characters, by the ten bits that they stand for. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => ALPHABET.charAt(bits >>> 5) + ALPHABET.charAt(bits & 31));

/** Random bits at hand, 16 to a number: asking for those of one id takes longer than making it. */
const RANDOM = new Uint16Array(4096);
const PAIRS_PER_ID = 8;
let used = RANDOM.length;

/** A new id of this kind for a thing made at `now` (milliseconds). */
export function newId(kind: IdKind, now: number): string {
  if (used === RANDOM.length) {
    randomFillSync(RANDOM);
    used = 0;
  }
  let random = '';
  for (const end = used + PAIRS_PER_ID; used < end; used++) random += PAIRS[(RANDOM[used] ?? 0) & 1023] ?? '';
  return `${kind}_${timePart(now)}${random}`;
}

function four(bits: number): string {
  return (PAIRS[bits >>> 10] ?? '') + (PAIRS[bits & 1023] ?? '');
}

/** What no id of this kind that was made at `at` (ms) or later sorts before. */
export function firstId(kind: IdKind, at: number): string {
  return `${kind}_${timePart(at)}${'0'.repeat(16)}`;
}

/**
 * What every id of this kind sorts before. A time begins with a digit, so that this holds for databases that sort by bytes and for those
 * that sort as people do, where punctuation comes first.
 */
export function lastId(kind: IdKind): string {
  return `${kind}_${'z'.repeat(26)}`;
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

/** Names the claim of a tenant to a domain. */
export function claimId(tenant: string, domain: string): string {
  return `${tenant} ${domain}`;
}

/** What a form is counted under: submissions of test keys, to whatever form, are counted apart. */
export function counterOf({ tenant, id }: { readonly tenant: string; readonly id: string }): string {
  return environmentOf(tenant) === 'test' ? testPartitionOf(id) : id;
}
