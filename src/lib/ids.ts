/** Ids: `<kind>_<26 characters>`, a ULID in lower case: 48 bits of time, then 80 random bits, so that they sort by age. */
import { randomUUID } from 'node:crypto';

export type IdKind =
  'sub' | 'msg' | 'dlv' | 'fil' | 'frm' | 'key' | 'prj' | 'ten' | 'evt' | 'rev' | 'req' | 'whk' | 'whd' | 'inb' | 'inl';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/**
 * A new id of this kind for a thing made at `now` (milliseconds). The random bits are a UUID's, because Node draws those
 * many at a time: several ids are made for each submission, and asking the system for each cost more than all else here.
 */
export function newId(kind: IdKind, now: number): string {
  const uuid = randomUUID();
  // Of its hexadecimal digits those that are random (RFC 9562 §5.4), five at a time: 20 bits, four characters.
  const random =
    four(uuid.slice(0, 5)) +
    four(uuid.slice(5, 8) + uuid.slice(34)) +
    four(uuid.slice(24, 29)) +
    four(uuid.slice(29, 34));
  return `${kind}_${timePart(now)}${random}`;
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
  return `${character(time >>> 25)}${character(time >>> 20)}${characters(time)}${characters(now % 2 ** 20)}`;
}

/** Sorts before every id of this kind that was made at `now` or later, and after every earlier one. */
export function idBound(kind: IdKind, now: number): string {
  const time = Math.floor(now / 2 ** 20);
  return `${kind}_${character(time >>> 25)}${character(time >>> 20)}${characters(time)}${characters(now % 2 ** 20)}`;
}

function four(hex: string): string {
  return characters(Number.parseInt(hex, 16));
}

/** Of 20 bits. */
function characters(bits: number): string {
  return character(bits >>> 15) + character(bits >>> 10) + character(bits >>> 5) + character(bits);
}

function character(bits: number): string {
  return ALPHABET.charAt(bits & 31);
}
