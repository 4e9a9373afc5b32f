/**
 * `application/x-www-form-urlencoded` (WHATWG URL Standard §5.1) into entries in the order sent. Linear; stops at the
 * limit. A body in another charset than UTF-8 says so in its type or in a `_charset_` field (HTML §4.10.21.5).
 */
import { decoderOf, guessDecoder } from './charset.ts';
import { Entries, malformed, unknownCharset, type FieldLimits, type Parsed } from './parsed.ts';

const CHARSET = Buffer.from('_charset_');
const AMPERSAND = 0x26;
const EQUALS = 0x3d;
const PERCENT = 0x25;
const PLUS = 0x2b;
const SPACE = 0x20;

export function parseUrlencoded(body: Buffer, declared: string | undefined, limits: FieldLimits): Parsed {
  const pairs = splitPairs(body, limits.fields);
  const charset = declared ?? pairs.find(([name]) => name.equals(CHARSET))?.[1].toString('latin1');
  const decoder = charset === undefined ? guessDecoder(pairs.flat()) : decoderOf(charset);
  if (decoder === undefined) return { entries: [], refusal: unknownCharset(charset ?? '') };
  const entries = new Entries(limits);
  for (const [i, [name, value]] of pairs.entries()) {
    if (name.equals(CHARSET)) continue;
    const texts = [decoder.decode(name), decoder.decode(value)] as const;
    if (texts[0] === undefined || texts[1] === undefined) {
      const refusal = malformed(`Field ${i + 1} of the body is not valid ${decoder.charset}.`);
      return { entries: entries.list, refusal };
    }
    if (!entries.add(texts[0], texts[1])) break;
  }
  return { entries: entries.list, refusal: entries.refusal };
}

/** The pairs, unescaped; at most one more than the limit. */
function splitPairs(body: Buffer, max: number): [name: Buffer, value: Buffer][] {
  const pairs: [Buffer, Buffer][] = [];
  for (let start = 0; start < body.length && pairs.length <= max; start++) {
    if (body[start] === AMPERSAND) continue;
    const ampersand = body.indexOf(AMPERSAND, start);
    const end = ampersand === -1 ? body.length : ampersand;
    const pair = body.subarray(start, end);
    const equals = pair.indexOf(EQUALS);
    const name = equals === -1 ? pair : pair.subarray(0, equals);
    const value = equals === -1 ? pair.subarray(pair.length) : pair.subarray(equals + 1);
    pairs.push([unescape(name), unescape(value)]);
    start = end;
  }
  return pairs;
}

function unescape(bytes: Buffer): Buffer {
  const plain = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    const escaped = byte === PERCENT ? hexDigit(bytes[i + 1]) * 16 + hexDigit(bytes[i + 2]) : NaN;
    if (escaped >= 0) i += 2;
    plain[length++] = escaped >= 0 ? escaped : byte === PLUS ? SPACE : byte;
  }
  return plain.subarray(0, length);
}

/** NaN for what is no digit, and so is every sum with it. */
function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return NaN;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : NaN;
}
