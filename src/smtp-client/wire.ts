/**
 * A socket with an SMTP server at its end. Every wait has an absolute deadline and rejects with WireFault; whatever ends
 * the conversation, a deadline included, closes it: nothing is held open by bytes that drip in. What is read is bounded
 * (reply.ts).
 */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket, type ConnectionOptions } from 'node:tls';
import { messageOf } from '../lib/errors.ts';
import { type ConnectionFault, type Step, ProtocolError, ReplyParser, type Reply } from './reply.ts';

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

export interface Limit {
  /** In all, ms. */
  readonly ms: number;
  /** While `pressed`, ms. */
  readonly pressedMs?: number;
}

export interface WireOptions {
  /** Whether others wait for a connection, so that one that hangs may be given up early. */
  readonly pressed: () => boolean;
}

interface Waiter {
  /** Looks whether the wait is over. */
  look(): void;
  fail(ending: Ending): void;
}

/** What is waited for: true after a reply, or after this event of the socket. */
interface Goal {
  readonly done: () => boolean;
  readonly event?: string;
}

/** More replies than any transaction of ours asks for. */
const MAX_REPLIES = 256;

export class Wire {
  #socket: Socket;
  #parser = new ReplyParser();
  #replies: Reply[] = [];
  #connected = false;
  #ending: Ending | undefined;
  #waiter: Waiter | undefined;
  #timer: NodeJS.Timeout | undefined;
  #detach: () => void = () => undefined;
  readonly #pressed: () => boolean;

  /** Begins to connect to an IP address. */
  constructor({ address, port }: { address: string; port: number }, { pressed }: WireOptions) {
    this.#socket = connectTcp({ host: address, port, noDelay: true });
    this.#pressed = pressed;
    this.#attach();
  }

  /** Resolves when there is a connection. */
  connected(limit: Limit): Promise<void> {
    return this.#until('connect', limit, { done: () => this.#connected, event: 'connect' });
  }

  /** `TLSv1.3`, … or null for clear text. */
  get tls(): string | null {
    return this.#socket instanceof TLSSocket ? this.#socket.getProtocol() : null;
  }

  /** Whether it is open and nothing unasked-for has been said, such as 421. */
  get isQuiet(): boolean {
    return this.#ending === undefined && this.#replies.length === 0 && this.#parser.isEmpty;
  }

  /** Whether the other side has already spoken. */
  get hasReply(): boolean {
    return this.#replies.length > 0;
  }

  /** The next reply. */
  async read(step: Step, limit: Limit): Promise<Reply> {
    if (this.#replies.length === 0) await this.#until(step, limit, { done: () => this.hasReply });
    const reply = this.#replies.shift();
    if (reply === undefined) throw new WireFault(step, CLOSED);
    return reply;
  }

  /** Sends these together, in as few segments as they need. */
  send(...parts: readonly (string | Uint8Array)[]): void {
    this.#socket.cork();
    for (const part of parts) this.#socket.write(part);
    this.#socket.uncork();
  }

  /** Resolves when what was sent has mostly been taken, or the other side has spoken. */
  async taken(step: Step, limit: Limit): Promise<void> {
    const done = () => this.hasReply || !this.#socket.writableNeedDrain;
    await this.#until(step, limit, { done, event: 'drain' });
  }

  /** Speaks TLS from here on. */
  async startTls(options: ConnectionOptions, limit: Limit): Promise<void> {
    if (this.#ending === undefined && !this.isQuiet) {
      // Something that was sent in clear text would pass for something said under TLS (RFC 3207 §6).
      this.#end({ fault: 'protocol', words: 'the server sent more before TLS began' });
    }
    const plain = this.#socket;
    this.#detach();
    plain.on('error', (error: Error) => this.#end(broken(error, false)));
    this.#parser = new ReplyParser();
    const secure = connectTls({ ...options, socket: plain });
    this.#socket = secure;
    this.#attach();
    let ready = false;
    secure.once('secureConnect', () => (ready = true));
    await this.#until('starttls', limit, { done: () => ready, event: 'secureConnect' });
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
    const onData = (bytes: Buffer) => this.#receive(bytes);
    const onError = (error: Error) => this.#end(broken(error, !this.#connected));
    const onEnd = () => this.#end(CLOSED);
    socket.once('connect', () => (this.#connected = true));
    socket.on('data', onData).on('error', onError).on('end', onEnd).on('close', onEnd);
    this.#detach = () => socket.off('data', onData).off('error', onError).off('end', onEnd).off('close', onEnd);
  }

  /** Ends the wait after what is left of its time, or as soon as it is long and others press. */
  #watch(step: Step, limit: Limit, left: number): void {
    const slice = Math.min(left, limit.pressedMs ?? left);
    this.#timer = setTimeout(() => {
      if (left > slice && !this.#pressed()) this.#watch(step, limit, left - slice);
      else this.#end(tooSlow(step, limit.ms - left + slice));
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
    this.#waiter?.look();
  }

  #end(ending: Ending): void {
    this.#ending ??= ending;
    this.#socket.destroy();
    this.#waiter?.fail(this.#ending);
  }

  async #until(step: Step, limit: Limit, { done, event }: Goal): Promise<void> {
    if (this.#ending !== undefined && !this.hasReply) throw new WireFault(step, this.#ending);
    if (done()) return;
    const socket = this.#socket;
    const look = () => this.#waiter?.look();
    if (event !== undefined) socket.on(event, look);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#waiter = {
          look: () => done() && resolve(),
          fail: (ending) => reject(new WireFault(step, ending)),
        };
        this.#watch(step, limit, limit.ms);
      });
    } finally {
      clearTimeout(this.#timer);
      this.#waiter = undefined;
      if (event !== undefined) socket.off(event, look);
    }
  }
}

const CLOSED: Ending = { fault: 'closed', words: 'the server closed the connection' };
const HUNG_UP: Ending = { fault: 'closed', words: 'the connection was given up' };

function tooSlow(what: string, ms: number): Ending {
  return { fault: 'timeout', words: `no answer to ${what} within ${ms / 1000} s` };
}

function broken(error: Error, connecting: boolean): Ending {
  return { fault: connecting ? 'refused' : 'closed', words: messageOf(error), cause: error };
}
