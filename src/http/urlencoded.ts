/**
 * `application/x-www-form-urlencoded` (WHATWG URL Standard §5.1) into entries in the order sent. Linear; stops at the
 * limit. A body in another charset than UTF-8 says so in its type or in a `_charset_` field (HTML §4.10.21.5).
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { decoderOf, guessDecoder } from './charset.ts';
import { Entries, malformed, unknownCharset, type FieldLimits, type Parsed } from './parsed.ts';

export function parseUrlencoded(body: Buffer, charset: string | undefined, limits: FieldLimits): Parsed {
  if (charset === undefined || /^utf-?8$/i.test(charset)) {
    const parsed = parseUtf8(body, limits);
    if (parsed !== undefined) return parsed;
  }
  return parseBytes(body, charset, limits);
}

/** The entries of a body that is UTF-8 throughout; undefined for any other. */
function parseUtf8(body: Buffer, limits: FieldLimits): Parsed | undefined {
  if (!isAscii(body) && !isUtf8(body)) return undefined;
  const text = body.toString('utf8');
  const entries = new Entries(limits);
  try {
    for (let start = 0; start <= text.length;) {
      const ampersand = text.indexOf('&', start);
      const end = ampersand === -1 ? text.length : ampersand;
      if (end > start) {
        const pair = text.slice(start, end);
        const equals = pair.indexOf('=');
        const name = decode(equals === -1 ? pair : pair.slice(0, equals));
        if (name === '_charset_') return undefined;
        if (!entries.add(name, equals === -1 ? '' : decode(pair.slice(equals + 1)))) break;
      }
      start = end + 1;
    }
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
  return { entries: entries.list, refusal: entries.refusal };
}

function decode(piece: string): string {
  const spaced = piece.includes('+') ? piece.replaceAll('+', ' ') : piece;
  return spaced.includes('%') ? decodeURIComponent(spaced) : spaced;
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

/** The pairs, unescaped; one more than the limit at most. */
function splitPairs(body: Buffer, most: number): [name: Buffer, value: Buffer][] {
  const pairs: [Buffer, Buffer][] = [];
  for (let start = 0; start <= body.length && pairs.length <= most;) {
    const ampersand = body.indexOf(0x26, start);
    const end = ampersand === -1 ? body.length : ampersand;
    const pair = body.subarray(start, end);
    const equals = pair.indexOf(0x3d);
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
    const escaped = byte === 0x25 ? hexDigit(bytes[i + 1]) * 16 + hexDigit(bytes[i + 2]) : -1;
    if (escaped >= 0) i += 2;
    plain[length++] = escaped >= 0 ? escaped : byte === 0x2b ? 0x20 : byte;
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
