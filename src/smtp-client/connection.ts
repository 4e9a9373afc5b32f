/**
 * One connection's worth of work at a site: it takes parcel after parcel, keeps its session between them, and lets no
 * message leave before the end of the one before is on the disk. So a crash can double one message per connection at most.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Parcel, Result, Unreachable } from '../queue/interfaces.ts';
import { openSession, type Session, type Target } from './session.ts';
import type { Slots } from './concurrency.ts';
import type { Timeouts } from './timeouts.ts';
import type { Way } from './route.ts';
import { transact } from './transaction.ts';
import { Trial } from './attempt.ts';
import type { Wire } from './wire.ts';

export interface SiteOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly timeouts: Timeouts;
  readonly slots: Slots;
  readonly ca: string | undefined;
  /** Makes a stop wait for this work. */
  readonly track: (work: Promise<void>) => Promise<void>;
}

export interface Waiting {
  readonly parcel: Parcel;
  /** How often it was put back, because the connection that it had was one too many. */
  readonly returns: number;
}

/** What a lane knows of its site. */
export interface Workplace {
  readonly options: SiteOptions;
  readonly way: Way;
  readonly brokenTls: Set<string>;
  /** Whether there is a connection too many here, for the server or for others who wait for one. */
  readonly hasTooMany: boolean;
  isProven(): boolean;
  /** Where to connect to, in order. */
  targets(): Target[];
  /** The next parcel, in turn. */
  next(): Waiting | undefined;
  /** A transaction got answers to its end. */
  answered(): void;
  /** A connection failed (at `address`), or the server asked for fewer. */
  faltered(address?: string): void;
  /** Puts a parcel back where other connections serve it; answers false where there are none. */
  putBack(item: Waiting, lane: Lane): boolean;
  /** Nobody is reached for this destination. */
  unreachable(destination: string, result: Unreachable): void;
  /** The lane has nothing to do; answers how to end that. */
  sleep(lane: Lane): () => void;
  left(lane: Lane): void;
}

export class Lane {
  readonly #site: Workplace;
  #session: Session | undefined;
  #wire: Wire | undefined;
  /** The end of the parcel before. */
  #settled: Promise<void> = Promise.resolve();
  #wake: (item?: Waiting) => void = () => undefined;
  #busy = false;
  /** What it has in hand. */
  #parcel: Parcel | undefined;
  #cut = false;

  constructor(site: Workplace) {
    this.#site = site;
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
      for (let item = this.#site.next(); item !== undefined; item = await this.#nextItem()) {
        this.#busy = true;
        await this.#handle(item);
        this.#busy = false;
      }
    } finally {
      this.#session?.wire.quit();
      this.#session = undefined;
      this.#site.left(this);
    }
  }

  /** Ends the sleep of a lane without work, with some or for good. */
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
    if (this.#site.hasTooMany) return undefined;
    const now = this.#site.next();
    if (now !== undefined || this.#session === undefined || !this.#site.options.slots.mayIdle()) return now;
    return this.#sleep();
  }

  #sleep(): Promise<Waiting | undefined> {
    return new Promise((resolve) => {
      const awake = this.#site.sleep(this);
      const timer = setTimeout(() => this.#wake(), this.#site.options.timeouts.idle);
      this.#wake = (item) => {
        clearTimeout(timer);
        awake();
        this.#wake = () => undefined;
        resolve(item);
      };
    });
  }

  async #handle(item: Waiting): Promise<void> {
    const { parcel } = item;
    this.#parcel = parcel;
    const { clock, log, track } = this.#site.options;
    const trial = new Trial(parcel.recipients, this.#site.targets(), clock.monotonic());
    let result: Result;
    try {
      result = await this.#try(parcel, trial);
    } catch (error) {
      // Not the other side's doing: a fault of ours must cost neither the mail nor the lane.
      log.error('delivery.fault', { destination: parcel.destination, ...errorFields(error) });
      this.#hangUp();
      result = trial.settle('deferred', '451 4.3.0 an error of this server');
    }
    if (result.kind === 'unreachable') {
      if (this.#site.putBack(item, this)) return;
      this.#settled = track(parcel.done(result));
      this.#site.unreachable(parcel.destination, result);
      return;
    }
    this.#settled = track(parcel.done(result));
  }

  async #try(parcel: Parcel, trial: Trial): Promise<Result> {
    const mayLeave = async (): Promise<boolean> => {
      await this.#settled;
      return !this.#cut && parcel.mayLeave();
    };
    if (!(await parcel.begin())) return trial.settle('untouched', '');
    while (trial.open.length > 0) {
      if (trial.wantsElsewhere && !trial.hasNext) break;
      if (trial.wantsElsewhere || !this.#canGoOn()) this.#hangUp();
      const session = this.#session ?? (await this.#connect(trial, () => void parcel.open()));
      if (session === undefined || this.#cut) break;
      const body = await parcel.open();
      if (body.kind === 'unrenderable') return trial.settle('bounced', `550 5.6.0 ${body.reason}`);
      if (body.kind === 'unavailable') return trial.settle('deferred', `451 4.3.0 ${body.reason}`);
      const outcome = await transact(
        session,
        { body, recipients: trial.open },
        { timeouts: this.#timeouts(), mayLeave },
      );
      if (outcome.calledOff) {
        this.#hangUp();
        return trial.settle('untouched', '');
      }
      if (!outcome.usable) this.#session = undefined;
      if (outcome.stale) continue;
      trial.record(session.target, outcome.spoken, session.peer);
      if (outcome.usable) this.#site.answered();
      else this.#site.faltered();
    }
    // The next message begins with the best host again.
    if (trial.moved) this.#hangUp();
    return this.#cut ? this.#cutShort(trial) : trial.result();
  }

  /** What the stop of the daemon has left in the middle: uncertain where the message had gone out already. */
  #cutShort(trial: Trial): Result {
    const result = trial.result();
    if (result.kind === 'unreachable') return trial.settle('untouched', '');
    const recipients = result.recipients.map((one) =>
      one.outcome === 'deferred' ? { ...one, outcome: AFTER_CUT[one.cause] } : one,
    );
    return { kind: 'decided', recipients };
  }

  async #connect(trial: Trial, ahead: () => void): Promise<Session | undefined> {
    const site = this.#site;
    const { config, slots, clock, ca } = site.options;
    for (let target = trial.next(); target !== undefined && !this.#cut; target = trial.next()) {
      // A site that answers gets its message without waiting for it to be rendered.
      if (site.isProven()) ahead();
      const opened = await openSession(target, {
        way: site.way,
        hostname: config().server.hostname,
        timeouts: this.#timeouts(trial.hasNext),
        pressed: () => (site.isProven() ? slots.isPressed() : this.#parcel?.isPressed() === true),
        monotonic: () => clock.monotonic(),
        ca,
        brokenTls: site.brokenTls,
        onWire: (wire) => this.#hold(wire),
      });
      if (opened.kind === 'open') {
        this.#session = opened.session;
        return opened.session;
      }
      trial.failedToOpen(target, opened);
      site.faltered(target.address);
    }
    return undefined;
  }

  /** A site that has not answered yet gets less patience, and so does a silent server where another may do. */
  #timeouts(hasNext = false): Timeouts {
    const { timeouts } = this.#site.options;
    const { elsewhere, pressedFirst: first } = timeouts;
    const opening = hasNext
      ? { greeting: Math.min(timeouts.greeting, elsewhere), command: Math.min(timeouts.command, elsewhere) }
      : {};
    return { ...timeouts, ...opening, ...(this.#site.isProven() ? {} : { pressedConnect: first, pressed: first }) };
  }

  #hold(wire: Wire): void {
    this.#wire = wire;
    if (this.#cut) wire.close();
  }

  /** Whether the session may carry one more message. */
  #canGoOn(): boolean {
    const session = this.#session;
    if (session === undefined) return false;
    const { clock, config, timeouts } = this.#site.options;
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
