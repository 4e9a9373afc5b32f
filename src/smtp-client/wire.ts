/**
 * A socket with an SMTP server at its end. Every wait has an absolute deadline and rejects with WireFault; whatever ends
 * the conversation, a deadline included, closes it: nothing is held open by bytes that drip in. What is read is bounded
 * (reply.ts).
 */
import type { X509Certificate } from 'node:crypto';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket, type ConnectionOptions } from 'node:tls';
import { messageOf } from '../lib/errors.ts';
import { ProtocolError, ReplyParser, type ConnectionFault, type Reply, type Step } from './reply.ts';

/**
 * How long each step of a delivery may take in all, ms: ceilings of RFC 5321 §4.5.3.2. They are absolute: what drips in
 * meanwhile stretches none of them.
 */
export const TIMEOUTS = {
  connect: 30_000,
  greeting: 300_000,
  /** EHLO, STARTTLS, AUTH, MAIL, RCPT and RSET, each. */
  command: 300_000,
  tls: 60_000,
  data: 120_000,
  /** Until a block of the message has been taken. */
  block: 180_000,
  final: 600_000,
  /** From MAIL to the answer to the final dot. */
  transaction: 1_800_000,
  /** While others wait for a connection: what hangs longer in a step before the message has left is cut off. */
  pressedConnect: 5000,
  pressed: 30_000,
  /** The same at a pool that has not answered yet. */
  pressedFirst: 3000,
  /** For the greeting, and each answer before there is a session, where another address is left to try. */
  elsewhere: 30_000,
  /** How long a connection is kept without work. */
  idle: 3000,
  /** How old a connection may become before its next message. */
  connection: 300_000,
};

export type Timeouts = Readonly<typeof TIMEOUTS>;

/** The conversation ended in this step. */
export class WireFault extends Error {
  override readonly name = 'WireFault';
  readonly step: Step;
  readonly fault: ConnectionFault;
  constructor(step: Step, { fault, words, cause }: Ending) {
    super(words, { cause });
    this.step = step;
    this.fault = fault;
  }
}

interface Ending {
  readonly fault: ConnectionFault;
  readonly words: string;
  readonly cause?: unknown;
}

interface Wait {
  readonly ms: number;
  /** The same while others wait for a connection. */
  readonly pressedMs?: number;
  readonly done: () => boolean;
}

/** What a server proves itself with. */
export interface Proof {
  readonly certificate: X509Certificate;
  /** Why Node does not trust it, as a code. */
  readonly distrust: string | null;
  /** What the server sent after it. */
  chain(): readonly X509Certificate[];
}

export interface WireOptions {
  readonly timeouts: Timeouts;
  /** Whether others wait for a connection, so that one that hangs may be given up early. */
  readonly pressed: () => boolean;
  /** One of its own unless given. */
  readonly transcript?: Transcript | undefined;
}

/** More replies than any transaction of ours asks for. */
const MAX_REPLIES = 256;
/** OpenSSL's own limit of what it checks is larger than any chain. */
const MAX_CHAIN = 10;

export class Wire {
  timeouts: Timeouts;
  /** What is said, until somebody takes it. */
  readonly transcript: Transcript;
  #socket: Socket;
  #parser = new ReplyParser();
  #replies: Reply[] = [];
  #connected = false;
  #secure = false;
  #proof: Proof | undefined;
  #ending: Ending | undefined;
  /** Looks whether what is waited for has come, or never will. */
  #look: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #pressed: () => boolean;

  /** Begins to connect to an IP address. */
  constructor({ address, port }: { address: string; port: number }, { timeouts, pressed, transcript }: WireOptions) {
    this.timeouts = timeouts;
    this.#pressed = pressed;
    this.transcript = transcript ?? new Transcript();
    this.transcript.note(`connecting to ${address}, port ${port}`);
    this.#socket = connectTcp({ host: address, port, noDelay: true });
    this.#socket.once('connect', () => (this.#connected = true));
    this.#attach();
  }

  /** Resolves when there is a connection. */
  connected(): Promise<void> {
    const { connect: ms, pressedConnect: pressedMs } = this.timeouts;
    return this.#until('connect', { ms, pressedMs, done: () => this.#connected });
  }

  /** `TLSv1.3`, … or null for clear text. */
  get tls(): string | null {
    return this.#socket instanceof TLSSocket ? this.#socket.getProtocol() : null;
  }

  /** Our address, while it is open. */
  get localAddress(): string | null {
    return this.#socket.localAddress ?? null;
  }

  /** What the server proved itself with under TLS. */
  get proof(): Proof | undefined {
    // Node takes the certificate off what was sent: asked again, it takes the next one.
    this.#proof ??= this.#readProof();
    return this.#proof;
  }

  #readProof(): Proof | undefined {
    if (!(this.#socket instanceof TLSSocket)) return undefined;
    const certificate = this.#socket.getPeerX509Certificate();
    // Node has the code here, whatever its types say.
    const distrust = this.#socket.authorized ? null : String(this.#socket.authorizationError);
    return certificate && { certificate, distrust, chain: () => issuersOf(certificate) };
  }

  /** Whether it is open and nothing unasked-for has been said, such as 421. */
  get isQuiet(): boolean {
    return this.#ending === undefined && !this.hasReply && this.#parser.isEmpty;
  }

  /** Whether the other side has already spoken. */
  get hasReply(): boolean {
    return this.#replies.length > 0;
  }

  /** The next reply. */
  async read(step: Step): Promise<Reply> {
    const ms = this.timeouts[step === 'greeting' || step === 'data' || step === 'final' ? step : 'command'];
    // What has left is not given up early: it may have arrived.
    const pressedMs = step === 'final' ? ms : this.timeouts.pressed;
    await this.#until(step, { ms, pressedMs, done: () => this.hasReply });
    const reply = this.#replies.shift();
    if (reply === undefined) throw new WireFault(step, CLOSED);
    this.transcript.replied(reply.code, reply.lines);
    return reply;
  }

  /** Sends these together, in as few segments as they need. Texts are commands, which the transcript has. */
  send(...parts: readonly (string | Uint8Array)[]): void {
    for (const part of parts) if (typeof part === 'string') this.transcript.said(part);
    this.#write(parts);
  }

  /** The reply to a command; `shown` is what the transcript has of one that holds a secret. */
  ask(step: Step, line: string, shown = line): Promise<Reply> {
    this.transcript.said(shown);
    this.#write([`${line}\r\n`]);
    return this.read(step);
  }

  #write(parts: readonly (string | Uint8Array)[]): void {
    this.#socket.cork();
    for (const part of parts) this.#socket.write(part);
    this.#socket.uncork();
  }

  /** Resolves when what was sent has mostly been taken, or the other side has spoken. */
  taken(step: Step): Promise<void> {
    const done = () => this.hasReply || !this.#socket.writableNeedDrain;
    return this.#until(step, { ms: this.timeouts.block, done });
  }

  /** Speaks TLS from here on. */
  async startTls(options: ConnectionOptions): Promise<void> {
    if (this.#ending === undefined && !this.isQuiet) {
      // Something that was sent in clear text would pass for something said under TLS (RFC 3207 §6).
      this.#end({ fault: 'protocol', words: 'the server sent more data before TLS started' });
    }
    const plain = this.#socket;
    plain.removeAllListeners('data');
    this.#parser = new ReplyParser();
    this.#socket = connectTls({ ...options, socket: plain });
    this.#socket.once('secureConnect', () => (this.#secure = true));
    this.#attach();
    const { tls: ms, pressed: pressedMs } = this.timeouts;
    await this.#until('starttls', { ms, pressedMs, done: () => this.#secure });
    const { name = '' } = this.#socket instanceof TLSSocket ? this.#socket.getCipher() : {};
    this.transcript.note(`${this.tls ?? 'TLS'} ${name}`.trimEnd());
  }

  /** Ends everything after `ms`, until the answer is called. */
  endAfter(ms: number, what: string): () => void {
    const timer = setTimeout(() => this.#end(tooSlow(what, ms)), ms);
    return () => clearTimeout(timer);
  }

  /** Hangs up. */
  close(): void {
    this.#end(HUNG_UP);
  }

  /** Says goodbye and hangs up without waiting long for the answer. */
  quit(): void {
    if (this.#ending !== undefined) return;
    this.#ending = HUNG_UP;
    const socket = this.#socket;
    socket.end('QUIT\r\n');
    const timer = setTimeout(() => socket.destroy(), 1000);
    timer.unref();
    socket.once('close', () => clearTimeout(timer));
  }

  #attach(): void {
    const socket = this.#socket;
    // Under TLS, the socket below it says nothing of its own.
    const onEnd = () => socket === this.#socket && this.#end(CLOSED);
    socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    socket.on('error', (error: Error) =>
      this.#end({ fault: this.#connected ? 'closed' : 'refused', words: messageOf(error), cause: error }),
    );
    socket.on('end', onEnd).on('close', onEnd);
    for (const event of ['connect', 'secureConnect', 'drain']) socket.on(event, () => this.#look());
  }

  /** Ends the conversation after what is left of the time, or as soon as it is long and others press. */
  #watch(step: Step, wait: Wait, left = wait.ms): void {
    const slice = Math.min(left, wait.pressedMs ?? left);
    this.#timer = setTimeout(() => {
      if (left > slice && !this.#pressed()) this.#watch(step, wait, left - slice);
      else this.#end(tooSlow(step, wait.ms - left + slice));
    }, slice);
  }

  #receive(bytes: Buffer): void {
    if (this.#ending !== undefined) return;
    try {
      this.#replies.push(...this.#parser.push(bytes));
      if (this.#replies.length > MAX_REPLIES) throw new ProtocolError('more replies than commands');
    } catch (error) {
      return this.#end({ fault: 'protocol', words: messageOf(error), cause: error });
    }
    this.#look();
  }

  #end(ending: Ending): void {
    this.#ending ??= ending;
    this.#socket.destroy();
    this.#look();
  }

  async #until(step: Step, wait: Wait): Promise<void> {
    // What was said before the end still counts.
    const isOver = () => wait.done() && (this.#ending === undefined || this.hasReply);
    if (isOver()) return;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#watch(step, wait);
        this.#look = () => {
          if (isOver()) resolve();
          else if (this.#ending !== undefined) reject(new WireFault(step, this.#ending));
        };
        this.#look();
      });
    } finally {
      clearTimeout(this.#timer);
      this.#look = () => undefined;
    }
  }
}

function issuersOf({ issuerCertificate: next }: X509Certificate): X509Certificate[] {
  const chain: X509Certificate[] = [];
  for (; next !== undefined && chain.length < MAX_CHAIN; next = next.issuerCertificate) chain.push(next);
  return chain;
}

const CLOSED: Ending = { fault: 'closed', words: 'the server closed the connection' };
const HUNG_UP: Ending = { fault: 'closed', words: 'the connection was abandoned' };

function tooSlow(what: string, ms: number): Ending {
  return { fault: 'timeout', words: `no reply to ${what} within ${ms / 1000} s` };
}

// What is said in a session, as a person reads it who wants to know why mail did not arrive.

/** Longest line that is kept, and longest dialogue; of a longer one the middle is left out. */
const MAX_LINE = 500;
const MAX_DIALOGUE = 6000;
/** Of these, how much of the beginning stays: greeting, EHLO and TLS. */
const HEAD = 2000;
const OMITTED = '- (lines omitted here)';

/** Commands and replies, never the message itself nor credentials; of a bounded size. */
export class Transcript {
  #lines: string[] = [];
  #length = 0;

  /** We said this; one command or several, each ended by CRLF. */
  said(commands: string): void {
    for (const line of commands.split('\r\n')) if (line !== '') this.#add('>', line);
  }

  /** The server replied this, a line of it each. */
  replied(code: number, lines: readonly string[]): void {
    for (const [i, line] of lines.entries())
      this.#add('<', `${code}${i < lines.length - 1 ? '-' : ' '}${line}`.trimEnd());
  }

  /** What is no line of either side. */
  note(text: string): void {
    this.#add('-', text);
  }

  /** All since the last call. */
  take(): string {
    const text = joinDialogues([this.#lines.join('\n')]);
    this.#lines = [];
    this.#length = 0;
    return text;
  }

  #add(side: '>' | '<' | '-', line: string): void {
    // What is too long is shortened now and then, not at every line.
    if (this.#length > 4 * MAX_DIALOGUE) {
      this.#lines = joinDialogues([this.#lines.join('\n')]).split('\n');
      this.#length = MAX_DIALOGUE;
    }
    const text = `${side} ${line.slice(0, MAX_LINE)}`;
    this.#lines.push(text);
    this.#length += text.length;
  }
}

/** Several dialogues as one that is not too long. */
export function joinDialogues(dialogues: readonly string[]): string {
  const text = dialogues.filter((dialogue) => dialogue !== '').join('\n');
  if (text.length <= MAX_DIALOGUE) return text;
  const head = text.slice(0, text.lastIndexOf('\n', HEAD));
  const tail = text.slice(text.indexOf('\n', text.length - (MAX_DIALOGUE - HEAD)) + 1);
  return `${head}\n${OMITTED}\n${tail}`;
}
