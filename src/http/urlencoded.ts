/**
 * `application/x-www-form-urlencoded` (WHATWG URL Standard §5.1) into entries in the order sent. Linear; stops at the
 * limit. A body in another charset than UTF-8 says so in its type or in a `_charset_` field (HTML §4.10.21.5).
 */
import { isUtf8 } from 'node:buffer';
import { decoderOf, guessDecoder } from './charset.ts';
import { Entries, malformed, unknownCharset, type FieldLimits, type Parsed } from './parsed.ts';

export function parseUrlencoded(body: Buffer, charset: string | undefined, limits: FieldLimits): Parsed {
  if (charset === undefined || /^utf-?8$/i.test(charset)) {
    const parsed = parseUtf8(body, limits);
    if (parsed !== undefined) return parsed;
  }
  return parseBytes(body, charset, limits);
}

/**
 * The entries of a body that is UTF-8 throughout; undefined for any other. Unescaped as bytes, not with
 * decodeURIComponent, which makes strings of two bytes a character as soon as one is beyond ASCII: whatever reads or
 * copies them later would take twice as long.
 */
function parseUtf8(body: Buffer, limits: FieldLimits): Parsed | undefined {
  const entries = new Entries(limits);
  const plain = Buffer.allocUnsafe(body.length);
  let used = 0;
  for (let i = 0; i < body.length; i++) {
    const begin = i;
    const start = used;
    let value: number | undefined;
    let bits = 0;
    for (let byte = body[i]; byte !== undefined && byte !== AMPERSAND; byte = body[++i]) {
      if (byte === EQUALS && value === undefined) {
        value = used;
        continue;
      }
      if (byte === PERCENT) {
        byte = hexDigit(body[i + 1]) * 16 + hexDigit(body[i + 2]);
        if (byte < 0) return undefined;
        i += 2;
      } else if (byte === PLUS) byte = SPACE;
      plain[used++] = byte;
      bits |= byte;
    }
    if (i === begin) continue;
    const middle = value ?? used;
    const isPlain = bits < 0x80;
    if (!isPlain && !(isUtf8(plain.subarray(start, middle)) && isUtf8(plain.subarray(middle, used)))) return undefined;
    const encoding = isPlain ? 'latin1' : 'utf8';
    const name = plain.toString(encoding, start, middle);
    if (name === '_charset_') return undefined;
    if (!entries.add(name, plain.toString(encoding, middle, used))) break;
  }
  return { entries: entries.list, refusal: entries.refusal };
}

/** The slow way, for other charsets and for a `%` that stands for itself. */
function parseBytes(body: Buffer, declared: string | undefined, limits: FieldLimits): Parsed {
  const pairs = splitPairs(body, limits.fields);
  const charset = declared ?? pairs.find(([name]) => name.equals(CHARSET))?.[1].toString('latin1');
  const decoder = charset === undefined ? guessDecoder(pairs.flat()) : decoderOf(charset);
  if (decoder === undefined) return { entries: [], refusal: unknownCharset(charset ?? '') };
  const entries = new Entries(limits);
  for (const [i, [name, value]] of pairs.entries()) {
    if (name.equals(CHARSET)) continue;
    const texts = [decoder.decode(name), decoder.decode(value)] as const;
    if (texts[0] === undefined || texts[1] === undefined) {
      return {
        entries: entries.list,
        refusal: malformed(`Field ${i + 1} of the body is not valid ${decoder.charset}.`),
      };
    }
    if (!entries.add(texts[0], texts[1])) break;
  }
  return { entries: entries.list, refusal: entries.refusal };
}

const CHARSET = Buffer.from('_charset_');
const AMPERSAND = 0x26;
const EQUALS = 0x3d;
const PERCENT = 0x25;
const PLUS = 0x2b;
const SPACE = 0x20;

/** The pairs, unescaped; one more than the limit at most. */
function splitPairs(body: Buffer, most: number): [name: Buffer, value: Buffer][] {
  const pairs: [Buffer, Buffer][] = [];
  for (let start = 0; start <= body.length && pairs.length <= most;) {
    const ampersand = body.indexOf(AMPERSAND, start);
    const end = ampersand === -1 ? body.length : ampersand;
    const pair = body.subarray(start, end);
    const equals = pair.indexOf(EQUALS);
    const name = equals === -1 ? pair : pair.subarray(0, equals);
    const value = equals === -1 ? pair.subarray(pair.length) : pair.subarray(equals + 1);
    if (pair.length > 0) pairs.push([unescape(name), unescape(value)]);
    start = end + 1;
  }
  return pairs;
}

function unescape(bytes: Buffer): Buffer {
  const plain = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    const escaped = byte === PERCENT ? hexDigit(bytes[i + 1]) * 16 + hexDigit(bytes[i + 2]) : -1;
    if (escaped >= 0) i += 2;
    plain[length++] = escaped >= 0 ? escaped : byte === PLUS ? SPACE : byte;
  }
  return plain.subarray(0, length);
}

/** Far below zero for what is none, so that the sum with a digit is below zero too. */
function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -999;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -999;
}
