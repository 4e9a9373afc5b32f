/**
 * The header block of a message as DKIM reads it. Text is Latin-1 here: one character is one byte, so that no character
 * set is assumed and none is lost.
 */

export interface HeaderField {
  /** Lower case. */
  readonly name: string;
  /** All that follows the colon, folds included, without the last CRLF. */
  readonly value: string;
}

const CRLF = '\r\n';
const END = '\r\n\r\n';

/** The header fields, and the body's chunks, which share the memory of the message. A message without END has no body. */
export function splitMessage(message: readonly Uint8Array[]): { fields: HeaderField[]; body: Uint8Array[] } {
  const parts: string[] = [];
  /** The end of what came before: END may be cut anywhere. */
  let tail = '';
  for (const [i, chunk] of message.entries()) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bodyStart = afterEnd(tail, bytes);
    const part = bytes.toString('latin1', 0, bodyStart);
    parts.push(part);
    if (bodyStart !== undefined) {
      const fields = parseFields(parts.join('').slice(0, -CRLF.length));
      return { fields, body: [chunk.subarray(bodyStart), ...message.slice(i + 1)] };
    }
    tail = (tail + part).slice(1 - END.length);
  }
  return { fields: parseFields(parts.join('')), body: [] };
}

/** Where the bytes after the first END begin, which may have begun in `tail`: the three characters before them, or fewer. */
export function afterEnd(tail: string, bytes: Buffer): number | undefined {
  const seam = (tail + bytes.toString('latin1', 0, END.length - 1)).indexOf(END);
  if (seam !== -1) return seam + END.length - tail.length;
  const at = bytes.indexOf(END, 0, 'latin1');
  return at === -1 ? undefined : at + END.length;
}

/** The fields of a header block. Throws on a line that verifiers would not agree about. */
export function parseFields(block: string): HeaderField[] {
  const lines = block.split(CRLF);
  if (lines.at(-1) === '') lines.pop();
  const fields: { name: string; lines: string[] }[] = [];
  for (const line of lines) {
    if (/[\r\n\0]/.test(line)) throw new Error('a header with a bare CR, a bare LF or a NUL is not signed');
    const previous = fields.at(-1);
    const name = /^[!-9;-~]+(?=:)/.exec(line)?.[0];
    if (name !== undefined) {
      fields.push({ name: name.toLowerCase(), lines: [line.slice(line.indexOf(':') + 1)] });
    } else if (previous !== undefined && /^[ \t]/.test(line)) {
      previous.lines.push(line);
    } else {
      throw new Error('a header line without a name and a colon is not signed');
    }
  }
  return fields.map(({ name, lines }) => ({ name, value: lines.join(CRLF) }));
}

/** `name:value` in the relaxed form, without a CRLF (RFC 6376 §3.4.2). Only SP and HTAB are white space. */
export function relaxHeader({ name, value }: HeaderField): string {
  // First every run becomes one space: cutting long runs off the end with a regular expression would be quadratic.
  const single = value.replaceAll(CRLF, '').replaceAll(/[ \t]{2,}|\t/g, ' ');
  const start = single.startsWith(' ') ? 1 : 0;
  const end = single.endsWith(' ') ? -1 : single.length;
  return `${name}:${single.slice(start, end)}`;
}
