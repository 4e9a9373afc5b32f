/**
 * The header block of a message as it came, to be looked at and edited field by field: whatever is not edited keeps its
 * bytes. Text is Latin-1 here, one character is one byte. Linear, wherever the pieces break.
 */
export interface Field {
  /** Lower case; empty for a line that is no field. */
  readonly name: string;
  /** Its lines as they are, each with its CRLF. */
  readonly text: string;
}

export type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** More than any header block that we accept. */
const MAX_BYTES = 1 << 20;
const END = '\r\n\r\n';

/**
 * The header's lines, and what follows the empty line; a message without an empty line has no body. Rejects what has no
 * end of its header within a mebibyte.
 */
export async function splitHeader(message: Pieces): Promise<{ header: string; body: AsyncIterable<Uint8Array> }> {
  const pieces = join([], message);
  let header = '';
  // The end may be cut anywhere, and the empty line may be the first one.
  let tail = '\r\n';
  for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) {
    const piece = next.value;
    const text = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString('latin1');
    const at = (tail + text).indexOf(END);
    if (at !== -1) {
      const bodyStart = at + END.length - tail.length;
      header += text.slice(0, bodyStart);
      return { header: header.slice(0, -2), body: join([piece.subarray(bodyStart)], pieces) };
    }
    header += text;
    if (header.length > MAX_BYTES) throw new RangeError('the header of a message is too large');
    tail = (tail + text).slice(1 - END.length);
  }
  return { header, body: pieces };
}

async function* join(first: Pieces, rest: Pieces): AsyncGenerator<Uint8Array> {
  yield* first;
  yield* rest;
}

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

/** The tags of a signature (RFC 6376 §3.2) by their names in lower case; of several with one name the first counts. */
export function tagsOf(field: Field): Map<string, string> {
  const tags = valueOf(field)
    .split(';')
    .map((tag): [string, string] => {
      const [name = '', ...value] = tag.split('=');
      return [name.trim().toLowerCase(), value.join('=').trim()];
    });
  return new Map(tags.reverse());
}

/** Blanks and a fold may stand before the colon (RFC 5322 §4.5). */
function nameOf(text: string): string {
  const [, name = ''] = /^([!-9;-~]+)(?:[ \t]|\r\n(?=[ \t]))*:/.exec(text) ?? [];
  return name.toLowerCase();
}
