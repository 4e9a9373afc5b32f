/**
 * An SMTP server on loopback that does what a test's script says, step by step: answers, waits, drips, hangs, hangs up. It
 * counts connections, keeps what arrived, and takes everything where the script says nothing.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { TLSSocket, createSecureContext } from 'node:tls';
import { onTestFinished } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';

export type PeerStep =
  'greeting' | 'ehlo' | 'helo' | 'starttls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'final' | 'rset' | 'quit';

/** Never answers. */
export const HANG = { end: 'hang' } as const;
/** Resets the connection. */
export const CLOSE = { end: 'close' } as const;

/** What to do at a step; `\r\n` is added to replies. */
export type PeerAction =
  | string
  | typeof HANG
  | typeof CLOSE
  /** A reply byte by byte, as slowly as told. */
  | { readonly drip: string; readonly everyMs: number }
  | { readonly reply: string; readonly afterMs: number }
  | { readonly reply: string; readonly thenClose: true }
  /** A second reply, to nothing that was asked. */
  | { readonly reply: string; readonly thenReply: string; readonly afterMs: number }
  /** Reads nothing more. */
  | { readonly reply: string; readonly thenStall: true }
  /** Bytes as they are, such as garbage or more than was asked for. */
  | { readonly raw: string };

export interface PeerContext {
  /** From 1. */
  readonly connection: number;
  /** Messages that arrived so far, at this server. */
  readonly messages: number;
  readonly line: string;
  readonly from: string;
  readonly to: readonly string[];
  readonly tls: boolean;
}

type Scripted = PeerAction | ((context: PeerContext) => PeerAction | undefined);
export type PeerScript = Readonly<Partial<Record<PeerStep, Scripted>>>;

export interface PeerMessage {
  readonly from: string;
  readonly to: readonly string[];
  /** Dots unstuffed, as sent. */
  readonly data: string;
  readonly tls: boolean;
  readonly connection: number;
}

export interface SmtpPeer {
  readonly address: string;
  readonly port: number;
  /** PEM. */
  readonly certificate: string;
  readonly messages: readonly PeerMessage[];
  /** Every line that clients sent, message text apart. */
  readonly lines: readonly string[];
  connections(): { readonly total: number; readonly open: number; readonly most: number };
  script(script: PeerScript): void;
  /** Stops listening and hangs up. */
  down(): Promise<void>;
  up(): Promise<void>;
}

export interface PeerOptions {
  readonly address?: string;
  readonly port?: number;
  /** Keywords of EHLO; default: PIPELINING, SIZE, 8BITMIME, SMTPUTF8 and ENHANCEDSTATUSCODES. */
  readonly features?: readonly string[];
  readonly script?: PeerScript;
  /** Host names of the certificate; STARTTLS must be in `features` to be offered. */
  readonly names?: readonly string[];
  /** Around when the certificate is valid, ms; default: now. */
  readonly validAt?: number;
  /** TLS from the first byte. */
  readonly implicitTls?: boolean;
  /** What the TLS handshake meets instead of a server. */
  readonly brokenHandshake?: boolean;
}

const FEATURES = ['PIPELINING', 'SIZE 26214400', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];

/** Starts on 127.0.0.1 (default: a free port); ends with the test. */
export async function startSmtpPeer(options: PeerOptions = {}): Promise<SmtpPeer> {
  const peer = new Peer(options);
  await peer.up();
  onTestFinished(() => peer.down());
  return peer;
}

class Peer implements SmtpPeer {
  readonly address: string;
  port: number;
  readonly certificate: string;
  readonly messages: PeerMessage[] = [];
  readonly lines: string[] = [];
  readonly options: PeerOptions;
  readonly context;
  #script: PeerScript;
  #total = 0;
  #most = 0;
  readonly #sockets = new Set<Socket>();
  #server = createServer();

  constructor(options: PeerOptions) {
    this.options = options;
    this.address = options.address ?? '127.0.0.1';
    this.port = options.port ?? 0;
    this.#script = options.script ?? {};
    const { key, cert } = selfSignedCertificate(options.names ?? ['mx.example.test'], options.validAt ?? Date.now());
    this.certificate = cert;
    this.context = createSecureContext({ key, cert });
  }

  connections() {
    return { total: this.#total, open: this.#sockets.size, most: this.#most };
  }

  script(script: PeerScript): void {
    this.#script = script;
  }

  scripted(step: PeerStep, context: PeerContext): PeerAction | undefined {
    const action = this.#script[step];
    return typeof action === 'function' ? action(context) : action;
  }

  async up(): Promise<void> {
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
    this.#server.listen({ port: this.port, host: this.address });
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  async down(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(socket: Socket): void {
    this.#total += 1;
    this.#sockets.add(socket);
    this.#most = Math.max(this.#most, this.#sockets.size);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
    new Conversation(this, socket, this.#total).begin();
  }
}

class Conversation {
  readonly #peer: Peer;
  readonly #number: number;
  #socket: Socket;
  #buffer = '';
  #state: 'command' | 'data' | 'auth' = 'command';
  #from = '';
  #to: string[] = [];
  #tls = false;
  /** Commands wait while an answer is on its way. */
  #busy = false;
  #challenges: string[] = [];

  constructor(peer: Peer, socket: Socket, number: number) {
    this.#peer = peer;
    this.#socket = socket;
    this.#number = number;
  }

  begin(): void {
    if (this.#peer.options.implicitTls === true) this.#secure();
    else this.#listen();
    this.#act('greeting', '220 peer.example.test ESMTP', '');
  }

  #listen(): void {
    this.#socket.on('data', (bytes: Buffer) => {
      this.#buffer += bytes.toString('latin1');
      this.#work();
    });
  }

  #work(): void {
    while (!this.#busy) {
      const mark = this.#state === 'data' ? '\r\n.\r\n' : '\r\n';
      // An empty message has no line of its own before the dot.
      if (this.#state === 'data' && this.#buffer.startsWith('.\r\n')) this.#buffer = `\r\n${this.#buffer}`;
      const end = this.#buffer.indexOf(mark);
      if (end === -1) return;
      const text = this.#buffer.slice(0, end);
      this.#buffer = this.#buffer.slice(end + mark.length);
      if (this.#state === 'data') this.#message(text);
      else if (this.#state === 'auth') this.#respond(text);
      else this.#command(text);
    }
  }

  #command(line: string): void {
    this.#peer.lines.push(line);
    const verb = /^[A-Za-z]+/.exec(line)?.[0].toUpperCase() ?? '';
    switch (verb) {
      case 'EHLO':
        return this.#act('ehlo', this.#features(), line);
      case 'HELO':
        return this.#act('helo', '250 peer.example.test', line);
      case 'STARTTLS':
        return this.#act('starttls', '220 2.0.0 go ahead', line);
      case 'AUTH':
        return this.#auth(line);
      case 'MAIL':
        this.#from = /<(.*?)>/.exec(line)?.[1] ?? '';
        this.#to = [];
        return this.#act('mail', '250 2.1.0 ok', line);
      case 'RCPT':
        return this.#act('rcpt', '250 2.1.5 ok', line);
      case 'DATA':
        return this.#act('data', this.#to.length === 0 ? '503 5.5.1 no recipients' : '354 go ahead', line);
      case 'RSET':
        this.#to = [];
        return this.#act('rset', '250 2.0.0 ok', line);
      case 'QUIT':
        return this.#act('quit', '221 2.0.0 bye', line);
      default:
        return this.#reply('500 5.5.2 what?');
    }
  }

  #features(): string {
    const lines = ['peer.example.test', ...(this.#peer.options.features ?? FEATURES)];
    const offered = this.#tls ? lines.filter((line) => line !== 'STARTTLS') : lines;
    return offered.map((line, i) => `250${i === offered.length - 1 ? ' ' : '-'}${line}`).join('\r\n');
  }

  #auth(line: string): void {
    if (!/^AUTH LOGIN$/i.test(line)) return this.#act('auth', '235 2.7.0 ok', line);
    this.#challenges = ['334 VXNlcm5hbWU6', '334 UGFzc3dvcmQ6'];
    this.#state = 'auth';
    this.#reply(this.#challenges.shift() ?? '');
  }

  #respond(line: string): void {
    this.#peer.lines.push(line);
    const next = this.#challenges.shift();
    if (next !== undefined) return this.#reply(next);
    this.#state = 'command';
    this.#act('auth', '235 2.7.0 ok', line);
  }

  #message(text: string): void {
    this.#state = 'command';
    const data = text.replace(/^\r\n/, '').replaceAll(/^\./gm, '');
    this.#act('final', '250 2.0.0 taken', data);
  }

  #act(step: PeerStep, usual: string, line: string): void {
    const context = {
      connection: this.#number,
      messages: this.#peer.messages.length,
      line,
      from: this.#from,
      to: this.#to,
      tls: this.#tls,
    };
    const action = this.#peer.scripted(step, context) ?? usual;
    this.#after(step, line, replyOf(action) ?? '');
    if (typeof action === 'object' && 'end' in action) {
      this.#busy = true;
      if (action.end === 'close') this.#socket.destroy();
    } else if (typeof action === 'string') {
      this.#reply(action);
      this.#then(step, action);
    } else if ('raw' in action) {
      this.#socket.write(action.raw);
      this.#then(step, action.raw);
    } else if ('drip' in action) {
      this.#busy = true;
      this.#drip(`${action.drip}\r\n`, action.everyMs);
    } else if ('thenReply' in action) {
      this.#reply(action.reply);
      this.#then(step, action.reply);
      setTimeout(() => this.#reply(action.thenReply), action.afterMs);
    } else if ('thenStall' in action) {
      this.#busy = true;
      this.#reply(action.reply);
      this.#socket.pause();
    } else if ('thenClose' in action) {
      this.#busy = true;
      this.#socket.end(`${action.reply}\r\n`);
    } else {
      this.#busy = true;
      setTimeout(() => {
        this.#busy = false;
        this.#reply(action.reply);
        this.#then(step, action.reply);
        this.#work();
      }, action.afterMs);
    }
  }

  /** What a good answer changes. */
  #after(step: PeerStep, line: string, reply: string): void {
    if (step === 'rcpt' && reply.startsWith('25')) this.#to = [...this.#to, /<(.*?)>/.exec(line)?.[1] ?? ''];
    if (step !== 'final' || !reply.startsWith('250')) return;
    this.#peer.messages.push({
      from: this.#from,
      to: this.#to,
      data: line,
      tls: this.#tls,
      connection: this.#number,
    });
  }

  #then(step: PeerStep, reply: string): void {
    if (step === 'data' && reply.startsWith('354')) this.#state = 'data';
    if (step === 'starttls' && reply.startsWith('220')) this.#secure();
    if (step === 'quit') this.#socket.end();
  }

  #secure(): void {
    this.#socket.removeAllListeners('data');
    this.#buffer = '';
    if (this.#peer.options.brokenHandshake === true) {
      this.#socket.on('data', () => this.#socket.end('this is no TLS\r\n'));
      return;
    }
    const secure = new TLSSocket(this.#socket, { isServer: true, secureContext: this.#peer.context });
    secure.on('error', () => secure.destroy());
    this.#socket = secure;
    this.#tls = true;
    this.#listen();
  }

  #reply(text: string): void {
    this.#socket.write(`${text}\r\n`);
  }

  #drip(text: string, everyMs: number): void {
    const [first] = text;
    if (first === undefined || this.#socket.destroyed) return;
    this.#socket.write(first);
    setTimeout(() => this.#drip(text.slice(1), everyMs), everyMs);
  }
}

function replyOf(action: PeerAction): string | undefined {
  if (typeof action === 'string') return action;
  if ('reply' in action) return action.reply;
  return 'raw' in action ? action.raw : undefined;
}
