/** Ids: `<kind>_<26 characters>`, a ULID in lower case: 48 bits of time, then 80 random bits, so that they sort by age. */
import { randomBytes } from 'node:crypto';

export type IdKind = 'sub' | 'msg' | 'dlv' | 'fil' | 'frm' | 'key' | 'prj' | 'ten' | 'evt' | 'rev' | 'req';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** A new id of this kind for a thing made at `now` (milliseconds). */
export function newId(kind: IdKind, now: number): string {
  let text = '';
  for (let rest = now, i = 0; i < 10; i++) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  for (const byte of randomBytes(16)) text += ALPHABET.charAt(byte & 31);
  return `${kind}_${text}`;
}
