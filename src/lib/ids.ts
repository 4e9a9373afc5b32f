/** Ids: `<kind>_<26 characters>`, a ULID in lower case: 48 bits of time, then 80 random bits, so that they sort by age. */
import { randomFillSync } from 'node:crypto';

export type IdKind =
  'sub' | 'msg' | 'dlv' | 'fil' | 'frm' | 'key' | 'prj' | 'ten' | 'evt' | 'rev' | 'req' | 'whk' | 'whd' | 'inb' | 'inl';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** Two characters, by the ten bits that they stand for. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => ALPHABET.charAt(bits >>> 5) + ALPHABET.charAt(bits & 31));

/** Of an id's random part. */
const BYTES = 10;
/** Random bytes for so many ids are drawn at a time: asking the system for each costs more than all else here. */
const drawn = new Uint8Array(BYTES * 1024);
let used = drawn.length;

/** A new id of this kind for a thing made at `now` (milliseconds). */
export function newId(kind: IdKind, now: number): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const at = used;
  used += BYTES;
  return `${kind}_${timePart(now)}${random(at)}${random(at + 5)}`;
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
  const time = Math.floor(now / 2 ** 20);
  return pair(time >>> 20) + four(time & 0xfffff) + four(now % 2 ** 20);
}

/** Of 20 bits. */
function four(bits: number): string {
  return pair(bits >>> 10) + pair(bits & 1023);
}

function pair(bits: number): string {
  return PAIRS[bits] ?? '';
}

/** Eight characters, of five random bytes. */
function random(at: number): string {
  const top = (byte(at) << 12) | (byte(at + 1) << 4) | (byte(at + 2) >>> 4);
  return four(top) + four(((byte(at + 2) & 15) << 16) | (byte(at + 3) << 8) | byte(at + 4));
}

function byte(at: number): number {
  return drawn[at] ?? 0;
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
