/**
 * One connection's worth of work at a pool: it takes batch after batch, keeps its session between them, and lets no
 * message leave before the end of the one before is on the disk. So a crash can double one message per connection at most.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Batch, Result, Unreachable } from '../queue/transport.ts';
import { openSession, type Session, type Target } from './session.ts';
import type { ConnectionLimit } from './concurrency.ts';
import type { Timeouts } from './timeouts.ts';
import type { NextHop } from './route.ts';
import { transact } from './transaction.ts';
import { HostAttempt } from './attempt.ts';
import type { Wire } from './wire.ts';

export interface MxPoolOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly timeouts: Timeouts;
  readonly connectionLimit: ConnectionLimit;
  readonly ca: string | undefined;
  /** Makes a stop wait for this work. */
  readonly track: (work: Promise<void>) => Promise<void>;
}

export interface Waiting {
  readonly batch: Batch;
  /** How often it was put back, because the connection that it had was one too many. */
  readonly returns: number;
}

/** What a connection knows of its pool. */
export interface Workplace {
  readonly options: MxPoolOptions;
  readonly nextHop: NextHop;
  readonly brokenTls: Set<string>;
  /** Whether there is a connection too many here, for the server or for others who wait for one. */
  readonly hasTooMany: boolean;
  isProven(): boolean;
  /** Where to connect to, in order. */
  targets(): Target[];
  /** The next batch, in turn. */
  next(): Waiting | undefined;
  /** A transaction got answers to its end. */
  answered(): void;
  /** A connection failed (at `address`), or the server asked for fewer. */
  faltered(address?: string): void;
  /** Puts a batch back where other connections serve it; answers false where there are none. */
  putBack(item: Waiting, connection: Connection): boolean;
  /** Nobody is reached for this destination. */
  unreachable(destination: string, result: Unreachable): void;
  /** The connection has nothing to do; answers how to end that. */
  sleep(connection: Connection): () => void;
  left(connection: Connection): void;
}

export class Connection {
  readonly #pool: Workplace;
  #session: Session | undefined;
  #wire: Wire | undefined;
  /** The end of the batch before. */
  #settled: Promise<void> = Promise.resolve();
  #wake: (item?: Waiting) => void = () => undefined;
  #busy = false;
  /** What it has in hand. */
  #batch: Batch | undefined;
  #cut = false;

  constructor(pool: Workplace) {
    this.#pool = pool;
  }

  /** Whether it has a session. */
  get isOpen(): boolean {
    return this.#session !== undefined;
  }

  get isBusy(): boolean {
    return this.#busy;
  }

  /** Works until there is nothing more to do. Never rejects. */
  async run(): Promise<void> {
    try {
      for (let item = this.#pool.next(); item !== undefined; item = await this.#nextItem()) {
        this.#busy = true;
        await this.#handle(item);
        this.#busy = false;
      }
    } finally {
      this.#session?.wire.quit();
      this.#session = undefined;
      this.#pool.left(this);
    }
  }

  /** Ends the sleep of a connection without work, with some or for good. */
  wake(item?: Waiting): void {
    this.#wake(item);
  }

  /** Hangs up in the middle of whatever it does. */
  cut(): void {
    this.#cut = true;
    this.#wire?.close();
    this.#wake();
  }

  async #nextItem(): Promise<Waiting | undefined> {
    if (this.#pool.hasTooMany) return undefined;
    const now = this.#pool.next();
    if (now !== undefined || this.#session === undefined || !this.#pool.options.connectionLimit.mayIdle()) return now;
    return this.#sleep();
  }

  #sleep(): Promise<Waiting | undefined> {
    return new Promise((resolve) => {
      const awake = this.#pool.sleep(this);
      const timer = setTimeout(() => this.#wake(), this.#pool.options.timeouts.idle);
      this.#wake = (item) => {
        clearTimeout(timer);
        awake();
        this.#wake = () => undefined;
        resolve(item);
      };
    });
  }

  async #handle(item: Waiting): Promise<void> {
    const { batch } = item;
    this.#batch = batch;
    const { clock, log, track } = this.#pool.options;
    const attempt = new HostAttempt(batch.recipients, this.#pool.targets(), clock.monotonic());
    let result: Result;
    try {
      result = await this.#try(batch, attempt);
    } catch (error) {
      // Not the other side's doing: a fault of ours must cost neither the mail nor the connection.
      log.error('delivery.fault', { destination: batch.destination, ...errorFields(error) });
      this.#hangUp();
      result = attempt.settle('deferred', '451 4.3.0 an error of this server');
    }
    if (result.kind === 'unreachable') {
      if (this.#pool.putBack(item, this)) return;
      this.#settled = track(batch.done(result));
      this.#pool.unreachable(batch.destination, result);
      return;
    }
    this.#settled = track(batch.done(result));
  }

  async #try(batch: Batch, attempt: HostAttempt): Promise<Result> {
    const mayLeave = async (): Promise<boolean> => {
      await this.#settled;
      return !this.#cut && batch.mayLeave();
    };
    if (!(await batch.begin())) return attempt.settle('untouched', '');
    while (attempt.open.length > 0) {
      if (attempt.wantsElsewhere && !attempt.hasNext) break;
      if (attempt.wantsElsewhere || !this.#canGoOn()) this.#hangUp();
      const session = this.#session ?? (await this.#connect(attempt, () => void batch.open()));
      if (session === undefined || this.#cut) break;
      const body = await batch.open();
      if (body.kind === 'unrenderable') return attempt.settle('bounced', `550 5.6.0 ${body.reason}`);
      if (body.kind === 'unavailable') return attempt.settle('deferred', `451 4.3.0 ${body.reason}`);
      const outcome = await transact(
        session,
        { body, recipients: attempt.open },
        { timeouts: this.#timeouts(), mayLeave },
      );
      if (outcome.calledOff) {
        this.#hangUp();
        return attempt.settle('untouched', '');
      }
      if (!outcome.usable) this.#session = undefined;
      if (outcome.stale) continue;
      attempt.record(session.target, outcome.spoken, session.peer);
      if (outcome.usable) this.#pool.answered();
      else this.#pool.faltered();
    }
    // The next message begins with the best host again.
    if (attempt.moved) this.#hangUp();
    return this.#cut ? this.#cutShort(attempt) : attempt.result();
  }

  /** What the stop of the daemon has left in the middle: uncertain where the message had gone out already. */
  #cutShort(attempt: HostAttempt): Result {
    const result = attempt.result();
    if (result.kind === 'unreachable') return attempt.settle('untouched', '');
    const recipients = result.recipients.map((one) =>
      one.outcome === 'deferred' ? { ...one, outcome: AFTER_CUT[one.cause] } : one,
    );
    return { kind: 'decided', recipients };
  }

  async #connect(attempt: HostAttempt, ahead: () => void): Promise<Session | undefined> {
    const pool = this.#pool;
    const { config, connectionLimit, clock, ca } = pool.options;
    for (let target = attempt.next(); target !== undefined && !this.#cut; target = attempt.next()) {
      // A pool that answers gets its message without waiting for it to be rendered.
      if (pool.isProven()) ahead();
      const opened = await openSession(target, {
        nextHop: pool.nextHop,
        hostname: config().server.hostname,
        timeouts: this.#timeouts(attempt.hasNext),
        pressed: () => (pool.isProven() ? connectionLimit.isPressed() : this.#batch?.isPressed() === true),
        monotonic: () => clock.monotonic(),
        ca,
        brokenTls: pool.brokenTls,
        onWire: (wire) => this.#hold(wire),
      });
      if (opened.kind === 'open') {
        this.#session = opened.session;
        return opened.session;
      }
      attempt.failedToOpen(target, opened);
      pool.faltered(target.address);
    }
    return undefined;
  }

  /** A pool that has not answered yet gets less patience, and so does a silent server where another may do. */
  #timeouts(hasNext = false): Timeouts {
    const { timeouts } = this.#pool.options;
    const { elsewhere, pressedFirst: first } = timeouts;
    const opening = hasNext
      ? { greeting: Math.min(timeouts.greeting, elsewhere), command: Math.min(timeouts.command, elsewhere) }
      : {};
    return { ...timeouts, ...opening, ...(this.#pool.isProven() ? {} : { pressedConnect: first, pressed: first }) };
  }

  #hold(wire: Wire): void {
    this.#wire = wire;
    if (this.#cut) wire.close();
  }

  /** Whether the session may carry one more message. */
  #canGoOn(): boolean {
    const session = this.#session;
    if (session === undefined) return false;
    const { clock, config, timeouts } = this.#pool.options;
    if (session.used >= config().delivery.messages_per_connection) return false;
    return session.wire.isQuiet && clock.monotonic() - session.since < timeouts.connection;
  }

  #hangUp(): void {
    this.#session?.wire.quit();
    this.#session = undefined;
  }
}

/** A fault that our own hanging up made is none; a reply stands. */
const AFTER_CUT = { fault: 'untouched', uncertain: 'interrupted', reply: 'deferred' } as const;
