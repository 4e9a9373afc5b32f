/** Content transfer encodings (RFC 2045 §6): any text or bytes as 7-bit lines of at most 76 characters. */

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const DOT = 0x2e;
const EQUALS = 0x3d;
const CAPITAL_F = 0x46;
const HEX = Buffer.from('0123456789ABCDEF');

/** Characters of a line before its soft line break. */
const LINE = 75;

/** Text as quoted-printable; CR, LF and CRLF are all line ends, and none is added. */
export function quotedPrintable(bytes: Buffer): Buffer {
  // Grown where it must be: room for the worst case, three times this, would mostly be garbage.
  let out = Buffer.allocUnsafe(bytes.length + (bytes.length >> 3) + 2 * LINE);
  let used = 0;
  let column = 0;
  for (let i = 0; i < bytes.length; i++) {
    if (used + 2 * LINE > out.length) out = Buffer.concat([out], out.length * 2);
    // Most of all text, within a line.
    for (const end = column === 0 ? i : i + LINE - column; i < end && isPlain(bytes, i); i++) {
      out[used++] = bytes[i] ?? 0;
      column++;
    }
    const byte = bytes[i];
    if (byte === undefined) break;
    if (byte === LF || byte === CR) {
      if (byte === CR && bytes[i + 1] === LF) i++;
      out[used++] = CR;
      out[used++] = LF;
      column = 0;
      continue;
    }
    const literal = isPlain(bytes, i) || isInnerBlank(bytes, i);
    if (column + (literal ? 1 : 3) > LINE) {
      out[used++] = EQUALS;
      out[used++] = CR;
      out[used++] = LF;
      column = 0;
    }
    // RFC 2049 §3: no line begins with a dot or with mbox's "From ".
    if (literal && !(column === 0 && (byte === DOT || byte === CAPITAL_F))) {
      out[used++] = byte;
      column++;
    } else {
      out[used++] = EQUALS;
      out[used++] = HEX[byte >> 4] ?? 0;
      out[used++] = HEX[byte & 15] ?? 0;
      column += 3;
    }
  }
  return out.subarray(0, used);
}

/** Whether the byte stands for itself: visible ASCII, or a blank between words. */
function isPlain(bytes: Uint8Array, i: number): boolean {
  const byte = bytes[i] ?? 0;
  if (byte > SPACE) return byte < 0x7f && byte !== EQUALS;
  return byte === SPACE && (bytes[i + 1] ?? 0) > SPACE;
}

/** Any other blank stands for itself where its line goes on. */
function isInnerBlank(bytes: Uint8Array, i: number): boolean {
  const byte = bytes[i];
  if (byte !== SPACE && byte !== TAB) return false;
  const next = bytes[i + 1];
  return next !== undefined && next !== CR && next !== LF;
}

/** Base64 in lines of 76 characters, each with its CRLF. */
export function base64Lines(bytes: Buffer): Buffer {
  const text = Buffer.from(bytes.toString('base64'), 'latin1');
  const lines = Math.ceil(text.length / 76);
  const out = Buffer.allocUnsafe(text.length + lines * 2);
  let used = 0;
  for (let at = 0; at < text.length; at += 76) {
    used += text.copy(out, used, at, at + 76);
    out[used++] = CR;
    out[used++] = LF;
  }
  return out;
}

/** Whether base64 makes less of this text: where more than a sixth of its bytes is not ASCII, most scripts but the Latin. */
export function prefersBase64(text: string): boolean {
  const bytes = Buffer.byteLength(text);
  // A UTF-16 unit beyond ASCII takes two bytes or more, so this never counts more than there are.
  return (bytes - text.length) * 1.5 > bytes / 6;
}
