/**
 * The values of API keys: `svc_sk_live_`, `svc_sk_test_` or `svc_rk_`, 28 random characters of base62 (166 bits), and
 * six that check all before them, so that one that was mistyped is refused without a look-up.
 */
import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM = 28;
const CHECK = 6;

export const KEY_PREFIXES = ['svc_sk_live_', 'svc_sk_test_', 'svc_rk_'] as const;

export type KeyPrefix = (typeof KEY_PREFIXES)[number];

/** A new value. */
export function newKeyValue(prefix: KeyPrefix): string {
  const random = Array.from({ length: RANDOM }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  return prefix + random + checkOf(prefix + random);
}

/** Whether the text is a value that was made by `newKeyValue`, as far as its form tells. */
export function isKeyValue(text: string): boolean {
  const prefix = KEY_PREFIXES.find((known) => text.startsWith(known));
  if (prefix?.length !== text.length - RANDOM - CHECK) return false;
  return text.endsWith(checkOf(text.slice(0, -CHECK)));
}

/** What is kept of a value: its SHA-256, hexadecimal. */
export function hashOfKey(value: string): string {
  return hash('sha256', value);
}

function checkOf(text: string): string {
  let rest = crc32(text);
  let check = '';
  for (let i = 0; i < CHECK; i++) {
    check = ALPHABET.charAt(rest % ALPHABET.length) + check;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return check;
}
