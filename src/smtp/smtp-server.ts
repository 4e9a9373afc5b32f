/**
 * The one file that reaches into smtp-server, where its documented options and hooks do not suffice: it greets after 100 ms,
 * takes a bare LF for the end of a command, takes a client that has ended its side for gone, and can end no message that is
 * too large before its end. test/smtp/smtp-server.test.ts names every member that this relies on.
 */
import type { Socket } from 'node:net';
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import { SMTPConnection, type SMTPConnectionOptions as ConnectionDetails } from 'smtp-server/lib/smtp-connection.js';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { Wire } from './wire.ts';

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
