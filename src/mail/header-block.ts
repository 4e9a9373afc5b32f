/**
 * The header block of a message as it came, to be looked at and edited field by field: whatever is not edited keeps its
 * bytes. Text is Latin-1 here, one character is one byte. Linear, wherever the pieces break.
 */
import { afterEnd } from './dkim.ts';

export interface Field {
  /** Lower case; empty for a line that is no field. */
  readonly name: string;
  /** Its lines as they are, each with its CRLF. */
  readonly text: string;
}

export type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** More than any header block that we accept. */
const MAX = 1 << 20;

/**
 * The header's lines, and what comes from the empty line on; a message without an empty line has no rest. Rejects what
 * has no end of its header within a mebibyte.
 */
export async function splitHeader(message: Pieces): Promise<{ header: string; rest: AsyncIterable<Uint8Array> }> {
  const iterator = iteratorOf(message);
  const parts: string[] = [];
  // An empty line may be the first one.
  let tail = '\r\n';
  let size = 0;
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    const { buffer, byteOffset, byteLength } = next.value;
    const bytes = Buffer.from(buffer, byteOffset, byteLength);
    const bodyStart = afterEnd(tail, bytes);
    const part = bytes.toString('latin1', 0, bodyStart);
    parts.push(part);
    if (bodyStart !== undefined) {
      return { header: parts.join('').slice(0, -2), rest: rest(bytes.subarray(bodyStart), iterator) };
    }
    size += byteLength;
    if (size > MAX) throw new RangeError('the header of a message is too large');
    tail = (tail + part).slice(-3);
  }
  return { header: parts.join(''), rest: nothing() };
}

function iteratorOf(message: Pieces): Iterator<Uint8Array> | AsyncIterator<Uint8Array> {
  return Symbol.asyncIterator in message ? message[Symbol.asyncIterator]() : message[Symbol.iterator]();
}

async function* rest(
  first: Uint8Array,
  iterator: Iterator<Uint8Array> | AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    yield Buffer.from('\r\n');
    if (first.length > 0) yield first;
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
  } finally {
    await iterator.return?.();
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** The fields in their order; their texts are the header again when joined. */
export function fieldsOf(header: string): Field[] {
  const texts: string[] = [];
  for (let at = 0; at < header.length;) {
    let end = at;
    do {
      const next = header.indexOf('\r\n', end);
      end = next === -1 ? header.length : next + 2;
    } while (header[end] === ' ' || header[end] === '\t');
    texts.push(header.slice(at, end));
    at = end;
  }
  return texts.map((text) => ({ name: nameOf(text), text }));
}

/** What follows the colon, folds included, without the last CRLF. */
export function valueOf({ text }: Field): string {
  return text.slice(text.indexOf(':') + 1, text.endsWith('\r\n') ? -2 : undefined);
}

/** Blanks and a fold may stand before the colon (RFC 5322 §4.5). */
function nameOf(text: string): string {
  const [, name = ''] = /^([!-9;-~]+)(?:[ \t]|\r\n(?=[ \t]))*:/.exec(text) ?? [];
  return name.toLowerCase();
}
