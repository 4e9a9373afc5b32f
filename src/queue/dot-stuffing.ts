/** Transparency of DATA (RFC 5321 §4.5.2) on buffers: linear, and without a copy where no line begins with a dot. */

const DOT = 0x2e;
const LF = 0x0a;
const LF_DOT = Buffer.from('\n.');

export const END_OF_DATA = Buffer.from('.\r\n');
const CRLF = Buffer.from('\r\n');

/** Stuffs a message that arrives in pieces with canonical line ends, cut anywhere. */
export class DotStuffer {
  #last = LF;

  /** The next piece as it goes onto the wire. */
  push(piece: Uint8Array): Uint8Array {
    const buffer = Buffer.isBuffer(piece) ? piece : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    const dots = dotsToDouble(buffer, this.#last === LF);
    this.#last = buffer.at(-1) ?? this.#last;
    return dots.length === 0 ? buffer : doubled(buffer, dots);
  }

  /** What ends the message, after a line end of our own where its last line has none. */
  end(): Uint8Array {
    return this.#last === LF ? END_OF_DATA : Buffer.concat([CRLF, END_OF_DATA]);
  }
}

function dotsToDouble(buffer: Buffer, atLineStart: boolean): number[] {
  const dots: number[] = atLineStart && buffer[0] === DOT ? [0] : [];
  for (let at = buffer.indexOf(LF_DOT); at !== -1; at = buffer.indexOf(LF_DOT, at + 2)) dots.push(at + 1);
  return dots;
}

function doubled(buffer: Buffer, dots: readonly number[]): Buffer {
  const result = Buffer.allocUnsafe(buffer.length + dots.length);
  let from = 0;
  let to = 0;
  for (const dot of dots) {
    to += buffer.copy(result, to, from, dot);
    result[to++] = DOT;
    from = dot;
  }
  buffer.copy(result, to, from);
  return result;
}
