/**
 * The one file that reaches into smtp-server, where its documented options and hooks do not suffice: it greets after 100 ms,
 * takes a bare LF for the end of a command, takes a client that has ended its side for gone, and can end no message that is
 * too large before its end. test/smtp/smtp-server.test.ts names every member that this relies on. Below it is what takes its
 * parser's place: `Wire`, which reads what a client sends.
 */
import type { Socket } from 'node:net';
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import { SMTPConnection, type SMTPConnectionOptions as ConnectionDetails } from 'smtp-server/lib/smtp-connection.js';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';

export type { ConnectionDetails };
export type Done = () => void;

/** A connection that greets at once: smtp-server waits 100 ms for clients that talk too soon. */
export class PromptConnection extends SMTPConnection {
  #socket: Socket;
  #hasGreeted = false;

  constructor(server: SMTPServer, socket: Socket, details: ConnectionDetails) {
    super(server, socket, details);
    this.#socket = socket;
  }

  /** Behind STARTTLS another one. */
  get socket(): Socket {
    return this.#socket;
  }

  override init(): void {
    super.init();
    setImmediate(() => this.connectionReady());
  }

  /** Called once more by smtp-server when its pause is over. */
  override connectionReady(): void {
    if (this.#hasGreeted) return;
    this.#hasGreeted = true;
    this.greet();
  }

  greet(): void {
    super.connectionReady();
  }

  /** From here on it is TLS. */
  secured(socket: Socket): void {
    this.#socket = socket;
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** A connection that is read by our rules; who derives from it answers MAIL, RCPT and DATA. */
export abstract class Connection extends PromptConnection {
  /** Set while smtp-server's constructor runs, and anew behind STARTTLS. */
  declare wire: Wire;

  /** The reply that ends the connection instead of the command; nothing as a rule. */
  abstract beforeCommand(verb: string, hasMore: boolean): string | undefined;
  /** An error reply other than 421 was sent. */
  abstract countError(text: string): void;
  abstract mail(line: string, done: Done): void;
  abstract recipient(line: string, done: Done): void;
  abstract data(line: string, done: Done): void;
  /** The reply to XOWN. */
  abstract loopback(line: string): string;

  override greet(): void {
    if (this.wire.hasMore) this.reply('421 4.7.0 Command sent before the reply');
    else super.greet();
  }

  override _createParser(): SMTPStream {
    const stock = super._createParser();
    const parser = new Parser();
    parser.oncommand = (line, done) => {
      const verb = line.subarray(0, 10).toString('latin1').split(' ', 1)[0]?.toUpperCase() ?? '';
      const refusal = this.beforeCommand(verb, parser.wire.hasMore);
      if (refusal !== undefined) return this.reply(refusal);
      if (parser.wire.hasMore) this.#holdReplies();
      stock.oncommand(line, done);
    };
    parser.on('error', (error) => this.reply(`421 4.7.0 ${error.message}`));
    // The client has ended its side, and has been answered to all that it said.
    parser.once('finish', () => this.close());
    this.wire = parser.wire;
    return parser;
  }

  /** Replies to commands that came together leave together (RFC 2920 §3.2), at the end of the turn at the latest. */
  #holdReplies(): void {
    const { socket } = this;
    if (socket.writableCorked > 0) return;
    socket.cork();
    setImmediate(() => socket.uncork());
  }

  /** A whole reply: `250 2.1.0 Accepted`. */
  reply(reply: string): void {
    this.send(Number(reply.slice(0, 3)), reply.slice(4));
  }

  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    const text = typeof data === 'string' ? data : '';
    // A reply of ours brings its own enhanced code (RFC 2034).
    if (this.socket.readyState === 'writeOnly') this.#sendLate(code, data);
    else super.send(code, data, /^[245]\.\d{1,3}\.\d{1,3} /.test(text) ? false : context);
    if (code >= 400 && code !== 421) this.countError(text);
  }

  /**
   * To a client that has ended its side already, which smtp-server takes for gone. Exim does so behind a QUIT that it sends
   * with the end of its message; without the reply it would send the message again.
   */
  #sendLate(code: number, data?: string | string[] | null): void {
    const lines = [data ?? ''].flat();
    const text = lines.map((line, i) => `${code}${i < lines.length - 1 ? '-' : ' '}${line}\r\n`).join('');
    this.socket.write(text);
    if (code === 421) this.close();
  }

  override handler_MAIL(command: Buffer, done: Done): void {
    this.mail(command.toString(), done);
  }

  override handler_RCPT(command: Buffer, done: Done): void {
    this.recipient(command.toString(), done);
  }

  override handler_DATA(command: Buffer, done: Done): void {
    this.data(command.toString(), done);
  }

  handler_XOWN(command: Buffer, done: Done): void {
    this.reply(this.loopback(command.toString()));
    done();
  }

  /**
   * smtp-server's handling of MAIL, its hook `onMailFrom` included, for parameters that it knows; the path was read already,
   * and it is shown the one path that its own, narrower reading never refuses.
   */
  openTransaction(parameters: string, done: Done): void {
    super.handler_MAIL(Buffer.from(`MAIL FROM:<>${parameters}`), done);
  }
}

/** Reads for smtp-server by our rules. */
class Parser extends SMTPStream {
  readonly wire = new Wire({
    command: (line, done) => this.oncommand(line, done),
    isClosed: () => this.isClosed,
  });

  override _write(chunk: Buffer, _encoding: BufferEncoding | 'buffer', next: (error?: Error | null) => void): void {
    this.wire.write(chunk, next);
  }
}

/** A server whose connections are ours: `open` makes one, or turns the socket away. */
export class Server<Each extends PromptConnection> extends SMTPServer {
  readonly #open: (socket: Socket, details: ConnectionDetails) => Each | undefined;
  readonly #bySession = new WeakMap<SMTPServerSession, Each>();

  constructor(options: SMTPServerOptions, open: (socket: Socket, details: ConnectionDetails) => Each | undefined) {
    super(options);
    this.#open = open;
  }

  override connect(socket: Socket, details?: ConnectionDetails | null): void {
    const connection = this.#open(socket, details ?? {});
    if (connection === undefined) return;
    this.#bySession.set(connection.session, connection);
    this.connections.add(connection);
    connection.on('error', (error: Error) => this.emit('error', error));
    connection.init();
  }

  override onSecure(...[socket, session, done]: Parameters<SMTPServer['onSecure']>): void {
    this.connectionOf(session)?.secured(socket);
    done();
  }

  /** The connection that a hook was called for. */
  connectionOf(session: SMTPServerSession): Each | undefined {
    return this.#bySession.get(session);
  }
}

// What a client sends: commands, each a line that ends in CRLF, and messages, which end with `CRLF.CRLF` and
// nothing else. A bare CR, a bare LF or a NUL is never a line end and never passes, so that no server after us can read a
// second message in what we took as one (CVE-2023-51764); nothing depends on how the bytes were cut into packets. Linear.

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
interface WireHandlers {
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
    this.#more(new Error('Lines must end in CRLF'));
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
