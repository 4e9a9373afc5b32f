/**
 * What a client's bytes mean: commands, each a line that ends in CRLF, and messages, which end with `CRLF.CRLF` and
 * nothing else. A bare CR, a bare LF or a NUL is never a line end and never passes, so that no server after us can read a
 * second message in what we took as one (CVE-2023-51764); nothing depends on how the bytes were cut into packets. Linear.
 */

/** Takes a message's bytes, dots unstuffed. */
export interface Sink {
  /** The bytes are only lent. Resolves when there may be more; undefined: at once. */
  write(bytes: Uint8Array): Promise<void> | undefined;
  /** It has a byte that no mail may have. */
  spoil(): void;
  /** All of it has come. Nothing is read on until `wire.proceed()`. */
  end(): void;
}

const CR = 0x0d;
const LF = 0x0a;
const DOT = 0x2e;
const MAX_COMMAND_BYTES = 4096;
/** So many commands of one packet are answered before others have their turn. */
const MAX_COMMANDS_AT_ONCE = 10;

/** Within a message. `begin`: of a line; `dot`, `dotCr`: behind a dot there. */
type State = 'begin' | 'line' | 'cr' | 'dot' | 'dotCr';
type Next = (error?: Error | null) => void;

/** What the connection does with what was read. */
export interface WireHandlers {
  /** A command line, without its CRLF; nothing is read on until `done` is called. */
  command(line: Buffer, done: () => void): void;
  /** Whether the connection is closing: what still comes is thrown away. */
  isClosed(): boolean;
}

export class Wire {
  readonly #handlers: WireHandlers;
  #input: Buffer = Buffer.alloc(0);
  #next: Next | undefined;
  #sink: Sink | undefined;
  #state: State = 'begin';
  #ended = false;
  #spoilt = false;
  /** Answered since others had their turn. */
  #commands = 0;

  constructor(handlers: WireHandlers) {
    this.#handlers = handlers;
  }

  /** Whether the client has sent more than the command in hand, as far as it has come. */
  get hasMore(): boolean {
    return this.#input.length > 0;
  }

  /** From the next byte on it is a message. */
  receive(sink: Sink): void {
    this.#sink = sink;
    this.#state = 'begin';
    this.#ended = false;
    this.#spoilt = false;
  }

  get isReceiving(): boolean {
    return this.#sink !== undefined && !this.#ended;
  }

  /** After the end of a message: commands again. */
  proceed(): void {
    this.#sink = undefined;
    this.#work();
  }

  /** Bytes of the client's; `next` asks for more, or says why there will be none. */
  write(chunk: Buffer, next: Next): void {
    if (this.#handlers.isClosed()) return next();
    this.#input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    this.#next = next;
    this.#commands = 0;
    this.#work();
  }

  /** More may come. */
  #more(error?: Error): void {
    const next = this.#next;
    this.#next = undefined;
    next?.(error);
  }

  #work(): void {
    for (;;) {
      if (this.#handlers.isClosed()) {
        this.#input = Buffer.alloc(0);
        return this.#more();
      }
      if (this.#sink !== undefined) {
        if (!this.#ended) void this.#feed(this.#sink);
        return;
      }
      const line = this.#takeLine();
      if (line === undefined) return;
      // Also where each reply waited for a promise: those settle within the turn of the event loop.
      if (++this.#commands > MAX_COMMANDS_AT_ONCE) {
        setImmediate(() => {
          this.#commands = 1;
          if (this.#command(line)) this.#work();
        });
        return;
      }
      if (!this.#command(line)) return;
    }
  }

  /** The next command line; undefined, and more is asked for or the line refused, where there is none. */
  #takeLine(): Buffer | undefined {
    const end = this.#input.indexOf(LF);
    if (end > MAX_COMMAND_BYTES || (end < 0 && this.#input.length > MAX_COMMAND_BYTES)) {
      this.#input = Buffer.alloc(0);
      this.#more(new Error('Command line too long'));
      return undefined;
    }
    if (end < 0) {
      this.#more();
      return undefined;
    }
    const line = this.#input.subarray(0, end - 1);
    const isSound = this.#input[end - 1] === CR && !line.includes(CR) && !line.includes(0);
    this.#input = this.#input.subarray(end + 1);
    if (isSound) return line;
    this.#input = Buffer.alloc(0);
    this.#more(new Error('Lines end in CRLF'));
    return undefined;
  }

  /** True where it was done at once. */
  #command(line: Buffer): boolean {
    let returned = false;
    let done = false;
    this.#handlers.command(line, () => {
      done = true;
      if (returned) this.#work();
    });
    returned = true;
    return done;
  }

  async #feed(sink: Sink): Promise<void> {
    const { bytes, taken, ended } = this.#scan(this.#input);
    this.#input = this.#input.subarray(taken);
    this.#ended = ended;
    const waiting = bytes.length === 0 ? undefined : sink.write(bytes);
    if (waiting !== undefined) await waiting;
    if (this.#handlers.isClosed()) {
      this.#input = Buffer.alloc(0);
      this.#more();
    } else if (ended) sink.end();
    else this.#more();
  }

  /** What of this is the message's, moved together in place; how much was read, and whether its end was. */
  #scan(input: Buffer): { bytes: Buffer; taken: number; ended: boolean } {
    let state = this.#state;
    let from = 0;
    let kept = 0;

    function keep(until: number): void {
      if (kept !== from) input.copyWithin(kept, from, until);
      kept += Math.max(0, until - from);
    }

    for (let i = 0; i < input.length; i++) {
      const byte = input[i];
      if (state === 'dotCr' && byte === LF) return { bytes: input.subarray(0, kept), taken: i + 1, ended: true };
      if (state === 'begin' && byte === DOT) {
        keep(i);
        from = i + 1;
        state = 'dot';
      } else if (byte === CR) {
        if (state === 'cr' || state === 'dotCr') this.#spoil();
        // What may be the end is not the message's; where it turns out not to be, the message is spoilt.
        if (state === 'dot') from = i + 1;
        state = state === 'dot' ? 'dotCr' : 'cr';
      } else if (byte === LF && state === 'cr') {
        state = 'begin';
      } else {
        if (byte === LF || byte === 0 || state === 'cr' || state === 'dotCr') this.#spoil();
        state = 'line';
        i = endOfText(input, i);
      }
    }
    keep(input.length);
    this.#state = state;
    return { bytes: input.subarray(0, kept), taken: input.length, ended: false };
  }

  #spoil(): void {
    if (this.#spoilt) return;
    this.#spoilt = true;
    this.#sink?.spoil();
  }
}

/** The last of the bytes from `at` on that mean nothing but themselves: nearly all of a message. */
function endOfText(bytes: Uint8Array, at: number): number {
  let last = at;
  while ((bytes[last + 1] ?? 0) > CR) last++;
  return last;
}
