/** The relaxed body hash of DKIM (RFC 6376 §3.4.4): one pass over bytes, constant memory, no character set. */
import { isAscii } from 'node:buffer';
import { createHash, hash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
/** After so many bytes, a few milliseconds of work, the event loop gets a turn. */
const TURN = 1 << 20;
/** What is hashed at a time; small enough for Node to cut it from memory that it has at hand. */
const BLOCK = 2048;

const BLANKS = /[ \t]{2,}|\t/g;
const BARE = /\r(?!\n)|(?<!\r)\n/;

/** The same as `hashBody` for a body at hand: what we compose ourselves needs its runs of blanks shortened at most, in a third of the time. */
export async function hashWhole(pieces: readonly Uint8Array[]): Promise<string> {
  const [only, second] = pieces;
  const whole = only !== undefined && second === undefined && only.length < TURN ? relaxed(only) : undefined;
  return whole === undefined ? hashBody(pieces) : hash('sha256', whole, 'base64');
}

/** The relaxed form; undefined where there is something to refuse, blanks at the end of a line or empty lines at that of the body. */
function relaxed(body: Uint8Array): string | Buffer | undefined {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1');
  if (!/[^\n]\r\n$/.test(text.slice(-3)) || BARE.test(text) || text.includes('\0')) return undefined;
  const single = text.replaceAll(BLANKS, ' ');
  if (single.includes(' \r')) return undefined;
  return isAscii(body) ? single : Buffer.from(single, 'latin1');
}

/** The bh= tag's base64. Refuses bare CR, bare LF and NUL. */
export async function hashBody(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<string> {
  const body = new RelaxedBody();
  let sinceTurn = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += TURN) {
      const piece = chunk.subarray(at, at + TURN);
      body.update(piece);
      sinceTurn += piece.length;
      if (sinceTurn >= TURN) {
        await setImmediate();
        sinceTurn = 0;
      }
    }
  }
  return body.digest();
}

class RelaxedBody {
  readonly #hash: Hash = createHash('sha256');
  readonly #out = Buffer.allocUnsafe(BLOCK);
  #used = 0;
  #empty = true;
  /** Line ends held back: empty lines at the end of the body do not count. */
  #lineEnds = 0;
  /** White space held back: a run is one space, and none at the end of its line. */
  #blank = false;
  #afterCr = false;

  update(chunk: Uint8Array): void {
    const out = this.#out;
    for (let i = 0; i < chunk.length;) {
      let byte = chunk[i++] ?? 0;
      this.#step(byte);
      if (byte <= SPACE) continue;
      // The rest of a word stands as it is.
      let used = this.#used;
      for (; i < chunk.length && used < BLOCK; i++) {
        byte = chunk[i] ?? 0;
        if (byte <= SPACE) break;
        out[used++] = byte;
      }
      this.#used = used;
    }
  }

  #step(byte: number): void {
    if (this.#afterCr !== (byte === LF) || byte === 0) refuse();
    if (byte === SPACE || byte === TAB) {
      this.#blank = true;
    } else if (byte === CR) {
      this.#afterCr = true;
    } else if (byte === LF) {
      this.#afterCr = false;
      this.#blank = false;
      this.#lineEnds++;
    } else {
      this.#take(byte);
    }
  }

  digest(): string {
    if (this.#afterCr) refuse();
    if (!this.#empty) {
      this.#put(CR);
      this.#put(LF);
    }
    this.#flush();
    return this.#hash.digest('base64');
  }

  #take(byte: number): void {
    this.#empty = false;
    for (; this.#lineEnds > 0; this.#lineEnds--) {
      this.#put(CR);
      this.#put(LF);
    }
    if (this.#blank) this.#put(SPACE);
    this.#blank = false;
    this.#put(byte);
  }

  #put(byte: number): void {
    if (this.#used === BLOCK) this.#flush();
    this.#out[this.#used++] = byte;
  }

  #flush(): void {
    this.#hash.update(this.#out.subarray(0, this.#used));
    this.#used = 0;
  }
}

function refuse(): never {
  throw new Error('a body with a bare CR, a bare LF or a NUL is not signed');
}
