/**
 * A set of mail hosts, however many domains lead there: what waits for it, in turns by destination, and how many
 * connections it is good for. It starts with two, gets one more with each answer while more waits, and half with a 421
 * or a fault.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { untouched, type Batch, type Result, type Unreachable } from '../queue/transport.ts';
import { appliedTlsPolicy, type NextHop } from './route.ts';
import { openSession, type Opened, type Session, type Target } from './session.ts';
import type { TlsSession } from './tls-reports.ts';
import { HostAttempt, transact, type Spoken } from './transaction.ts';
import type { Timeouts, Wire } from './wire.ts';

const FIRST_LIMIT = 2;
/** How long an address that did not answer is tried last, ms. */
const RESTING = 60_000;
const MAX_RETURNS = 3;

export class MxPool implements Claimant {
  readonly options: MxPoolOptions;
  readonly brokenTls = new Set<string>();
  readonly anchors = new Map<string, readonly string[]>();
  readonly connections = new Set<Connection>();
  nextHop: NextHop;
  /** How many connections it is good for. */
  limit = FIRST_LIMIT;
  /** Whether it has answered, and could be reached since; undefined while nothing is known of it. */
  #proven: boolean | undefined;
  #ceiling = { connections: Infinity, until: -Infinity };
  #asking = false;
  #stopped = false;
  /** Senders that the smarthost has refused in a row. */
  #refusedSenders = 0;
  /** By destination, in the order of their turns. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #idle = new Set<Connection>();
  readonly #resting = new Map<string, number>();

  constructor(nextHop: NextHop, options: MxPoolOptions) {
    this.nextHop = nextHop;
    this.options = options;
  }

  get isUnused(): boolean {
    return this.connections.size === 0 && this.#waiting.size === 0;
  }

  isProven(): boolean {
    return this.#proven === true;
  }

  /** Where to connect to, in order; what lately did not answer comes last. */
  targets(): Target[] {
    const now = this.options.clock.monotonic();
    const all = this.nextHop.hosts.flatMap(({ name, addresses }) =>
      addresses.map((address) => ({ host: name, address })),
    );
    const rests = ({ address }: Target) => (this.#resting.get(address) ?? -Infinity) > now;
    return [...all.filter((target) => !rests(target)), ...all.filter(rests)];
  }

  take(batches: readonly Batch[]): void {
    if (batches.some(({ isProven }) => isProven)) this.#proven ??= true;
    for (const batch of batches) this.#put({ batch, returns: 0 });
    for (const connection of this.#idle) {
      if (this.#waiting.size === 0) break;
      connection.wake(this.hasTooMany ? undefined : this.next());
    }
    this.#grow();
  }

  /** Whether there is a connection too many here, for the server or for others who wait for one. */
  get hasTooMany(): boolean {
    return this.#stopped || this.connections.size > this.limit || this.options.connectionLimit.mustYield(this);
  }

  /** The next batch, in turn. */
  next(): Waiting | undefined {
    for (const [destination, queue] of this.#waiting) {
      const first = queue.shift();
      if (this.#waiting.size > 1 || queue.length === 0) this.#waiting.delete(destination);
      if (queue.length > 0) this.#waiting.set(destination, queue);
      if (first !== undefined) return first;
    }
    return undefined;
  }

  grant(): boolean {
    this.#asking = false;
    if (this.#stopped || this.#waiting.size === 0 || this.connections.size >= this.#most()) return false;
    this.#start();
    this.#grow();
    return true;
  }

  /** A transaction got answers to its end. */
  answered(): void {
    this.#proven = true;
    if (this.#waiting.size > 0) {
      this.limit = Math.min(this.limit + 1, this.#most());
      this.#grow();
    }
  }

  /** A connection failed (at `address`), or the server asked for fewer. */
  faltered(address?: string): void {
    const until = this.options.clock.monotonic() + RESTING;
    const open = [...this.connections].filter((connection) => connection.isOpen).length;
    this.limit = Math.max(1, Math.floor(this.limit / 2));
    // What it just refused is not asked again at the next answer.
    if (open > 0) this.#ceiling = { connections: Math.max(this.limit, open), until };
    if (address === undefined) return;
    this.#resting.set(address, until);
    if (open === 0) this.#proven = false;
  }

  /** Puts a batch back where other connections serve it; answers false where there are none. */
  putBack({ batch, returns }: Waiting, connection: Connection): boolean {
    const hasOther = [...this.connections].some((other) => other !== connection && other.isOpen);
    if (this.#stopped || !hasOther || returns >= MAX_RETURNS) return false;
    this.#put({ batch, returns: returns + 1 });
    return true;
  }

  /**
   * One sender that the smarthost refuses makes the mail of that sender wait; the second in a row speaks against the
   * smarthost, and all mail waits.
   */
  judgeSender(spoken: readonly Spoken[]): readonly Spoken[] {
    const isRefused = spoken.some(({ verdict }) => verdict.kind === 'temporary' && verdict.sender === true);
    this.#refusedSenders = isRefused ? this.#refusedSenders + 1 : 0;
    if (this.#refusedSenders < 2) return spoken;
    return spoken.map((each) => ({ ...each, verdict: { kind: 'temporary', next: 'address', connection: true } }));
  }

  /** Nobody is reached: what waits for the destination goes back untried; the first of each other destination hears it, too. */
  unreachable(destination: string, result: Unreachable): void {
    const dead = ![...this.connections].some((connection) => connection.isOpen);
    for (const [name, queue] of this.#waiting) {
      if (name !== destination && !dead) continue;
      this.#waiting.delete(name);
      const [first, ...rest] = queue.map(({ batch }) => batch);
      if (first !== undefined)
        // What was said is of another message, which may be of another account.
        void this.#end(
          first,
          name === destination || result.isRelay === true ? undefined : { ...result, dialogue: undefined },
        );
      for (const batch of rest) void this.#end(batch);
    }
    if (this.#waiting.size === 0) this.#withdraw();
  }

  sleep(connection: Connection): () => void {
    this.#idle.add(connection);
    const end = this.options.connectionLimit.idle(() => connection.wake());
    return () => {
      this.#idle.delete(connection);
      end();
    };
  }

  left(connection: Connection): void {
    this.connections.delete(connection);
    this.options.connectionLimit.release(this);
    this.#grow();
  }

  /** Gives back what waits and starts nothing more. */
  stop(): void {
    this.#stopped = true;
    for (const queue of this.#waiting.values()) for (const { batch } of queue) void this.#end(batch);
    this.#waiting.clear();
    this.#withdraw();
    for (const connection of this.#idle) connection.wake();
  }

  #end(batch: Batch, result?: Unreachable): Promise<void> {
    return this.options.track(batch.done(result ?? untouched(batch)));
  }

  #withdraw(): void {
    this.#asking = false;
    this.options.connectionLimit.withdraw(this);
  }

  #put(item: Waiting): void {
    const { destination } = item.batch;
    const queue = this.#waiting.get(destination);
    if (queue === undefined) this.#waiting.set(destination, [item]);
    else queue.push(item);
  }

  #most(): number {
    const most = this.options.config().delivery.per_destination;
    return this.#ceiling.until > this.options.clock.monotonic() ? Math.min(most, this.#ceiling.connections) : most;
  }

  #grow(): void {
    while (!this.#stopped && !this.#asking && this.connections.size < Math.min(this.limit, this.#needed())) {
      this.#asking = true;
      if (!this.options.connectionLimit.request(this)) return;
      this.#asking = false;
      this.#start();
    }
  }

  /** Connections that work, and one more for each batch that nobody has taken. */
  #needed(): number {
    return this.connections.size - this.#idle.size + [...this.#waiting.values()].flat().length;
  }

  #start(): void {
    const connection = new Connection(this);
    this.connections.add(connection);
    void this.options.track(connection.run());
  }
}

interface MxPoolOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly timeouts: Timeouts;
  readonly connectionLimit: ConnectionLimit;
  readonly ca: string | undefined;
  readonly onTransaction: ((ms: number) => void) | undefined;
  readonly onTlsSession: ((session: TlsSession) => void) | undefined;
  /** Makes a stop wait for this work. */
  readonly track: (work: Promise<void>) => Promise<void>;
}

interface Waiting {
  readonly batch: Batch;
  /** How often it was put back, because the connection that it had was one too many. */
  readonly returns: number;
}

/**
 * One connection's worth of work at a pool: it takes batch after batch, keeps its session between them, and begins none
 * before the end of the one before is on the disk. So a crash can double one message per connection at most, and those that
 * one commit ends are followed by as many that are made right after one another, which costs the processor a quarter less
 * than one here and one there (docs/performance.md).
 */
class Connection {
  readonly #pool: MxPool;
  #session: Session | undefined;
  #wire: Wire | undefined;
  /** Ends the sleep of a connection without work, with some or for good. */
  wake: (item?: Waiting) => void = () => undefined;
  isBusy = false;
  /** What it has in hand. */
  #batch: Batch | undefined;
  #cut = false;

  constructor(pool: MxPool) {
    this.#pool = pool;
  }

  /** Whether it has a session. */
  get isOpen(): boolean {
    return this.#session !== undefined;
  }

  /** Works until there is nothing more to do. Never rejects. */
  async run(): Promise<void> {
    try {
      for (let item = this.#pool.next(); item !== undefined; item = await this.#nextItem()) {
        this.isBusy = true;
        await this.#handle(item);
        this.isBusy = false;
      }
    } finally {
      this.#hangUp();
      this.#pool.left(this);
    }
  }

  /** Hangs up in the middle of whatever it does. */
  cut(): void {
    this.#cut = true;
    this.#wire?.close();
    this.wake();
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
      const timer = setTimeout(() => this.wake(), this.#pool.options.timeouts.idle);
      this.wake = (item) => {
        clearTimeout(timer);
        awake();
        this.wake = () => undefined;
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
      if (result.kind === 'unreachable' && this.#pool.nextHop.relay !== undefined)
        result = { ...result, isRelay: true };
    } catch (error) {
      // Not the other side's doing: a fault of ours must cost neither the mail nor the connection.
      log.error('delivery.fault', { destination: batch.destination, ...errorFields(error) });
      this.#hangUp();
      result = attempt.settle('deferred', '451 4.3.0 an error on this server');
    }
    if (result.kind === 'unreachable' && this.#pool.putBack(item, this)) return;
    const written = track(batch.done(result));
    if (result.kind === 'unreachable') this.#pool.unreachable(batch.destination, result);
    await written;
  }

  async #try(batch: Batch, attempt: HostAttempt): Promise<Result> {
    const { clock, onTransaction } = this.#pool.options;
    const mayLeave = (): boolean => !this.#cut && batch.mayLeave();
    if (!(await batch.begin())) return attempt.settle('untouched', '');
    while (attempt.open.length > 0) {
      if (attempt.wantsElsewhere && !attempt.hasNext) break;
      if (attempt.wantsElsewhere || !this.#canGoOn()) this.#hangUp();
      const session = this.#session ?? (await this.#connect(attempt, () => void batch.open()));
      if (session === undefined || this.#cut) break;
      const body = await batch.open();
      if (body.kind === 'unrenderable') return attempt.settle('bounced', `550 5.6.0 ${body.reason}`);
      if (body.kind === 'unavailable')
        return attempt.settle(body.isPassing ? 'postponed' : 'deferred', `451 4.3.0 ${body.reason}`);
      session.wire.timeouts = this.#timeouts();
      this.#countSession(batch, session);
      const began = clock.monotonic();
      const outcome = await transact(session, { body, recipients: attempt.open, mayLeave });
      if (outcome.calledOff) {
        this.#hangUp();
        return attempt.settle('untouched', '');
      }
      if (!outcome.usable) this.#session = undefined;
      if (outcome.stale) {
        attempt.wasStale(outcome.dialogue);
        continue;
      }
      onTransaction?.(clock.monotonic() - began);
      attempt.record(session.target, this.#pool.judgeSender(outcome.spoken), {
        ...session.peer,
        dialogue: outcome.dialogue,
      });
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
        anchors: pool.anchors,
        onWire: (wire) => {
          this.#wire = wire;
          if (this.#cut) wire.close();
        },
      });
      if (opened.kind === 'open') {
        this.#session = opened.session;
        return opened.session;
      }
      attempt.failedToOpen(target, opened);
      this.#countFailure(target, opened);
      pool.faltered(target.address);
    }
    return undefined;
  }

  /** For whose mail a session is used first. */
  #countSession(
    { destination, isTlsReport }: Batch,
    { target, wire, tlsResult: result, distrust, domains }: Session,
  ): void {
    if (domains.has(destination)) return;
    domains.add(destination);
    if (isTlsReport || this.#pool.nextHop.isMx !== true) return;
    const policy = appliedTlsPolicy(this.#pool.nextHop, target.host, destination);
    const { localAddress: local } = wire;
    const failure = { ...target, local, reason: distrust };
    this.#pool.options.onTlsSession?.({ domain: destination, policy, result, ...failure });
  }

  /** Where the policy kept us from having one. */
  #countFailure(target: Target, { peer, reply, local }: Extract<Opened, { kind: 'failed' }>): void {
    const result = peer.policy?.result ?? null;
    if (this.#batch === undefined || this.#batch.isTlsReport || result === null) return;
    const { destination: domain } = this.#batch;
    const policy = appliedTlsPolicy(this.#pool.nextHop, target.host, domain);
    this.#pool.options.onTlsSession?.({ domain, policy, result, ...target, local, reason: reply });
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

// Who may have a connection: pools that have answered share `delivery.concurrency`, in turns. A pool that has not answered
// yet has its connections beside that, because nobody who is served waits for one that may hang: the claims bound them
// (claimer.ts), fairly among tenants.

/** A pool as far as connections are concerned. */
interface Claimant {
  /** Whether it has answered. */
  isProven(): boolean;
  /** Uses a connection that came free; answers false where it needs none any more. */
  grant(): boolean;
}

export class ConnectionLimit {
  readonly #total: () => number;
  readonly #held = new Map<Claimant, number>();
  readonly #waiting = new Set<Claimant>();
  /** Connections that are kept without work, longest first. */
  readonly #idle = new Set<() => void>();
  /** All connections. */
  open = 0;

  constructor(total: () => number) {
    this.#total = total;
  }

  /** Whether somebody waits for a connection. */
  isPressed(): boolean {
    return this.#waiting.size > 0;
  }

  /** Whether a connection may be kept without work: not where first contacts that answered are more than all there may be. */
  mayIdle(): boolean {
    return this.open <= this.#total() || this.#used() <= this.#total();
  }

  /** Takes a connection now, or waits for `grant`. */
  request(pool: Claimant): boolean {
    if (this.#mayTake(pool) && !this.#othersWait(pool)) {
      this.#take(pool);
      return true;
    }
    this.#waiting.add(pool);
    this.#hangUpIdle();
    return false;
  }

  /** Waits no longer: others are not to be hurried for it. */
  withdraw(pool: Claimant): void {
    this.#waiting.delete(pool);
  }

  release(pool: Claimant): void {
    this.open -= 1;
    const left = (this.#held.get(pool) ?? 0) - 1;
    if (left > 0) this.#held.set(pool, left);
    else this.#held.delete(pool);
    this.#review();
  }

  /** Whether the pool has more than its share while others wait for a connection. */
  mustYield(pool: Claimant): boolean {
    if (this.#waiting.size === 0 || !pool.isProven()) return false;
    const holders = [...this.#held.keys()].filter((holder) => holder.isProven()).length;
    const share = Math.max(1, Math.floor(this.#total() / (holders + this.#waiting.size)));
    if ((this.#held.get(pool) ?? 0) <= share) return false;
    return this.#used() >= this.#total() && this.#othersWait(pool);
  }

  /** Notes a connection without work; `hangUp` is called when somebody else needs it. Answers how to end that. */
  idle(hangUp: () => void): () => void {
    this.#idle.add(hangUp);
    if (this.#waiting.size > 0) queueMicrotask(() => this.#hangUpIdle());
    return () => this.#idle.delete(hangUp);
  }

  /** Serves those who wait. */
  #review(): void {
    for (const pool of this.#waiting) {
      if (!this.#mayTake(pool)) continue;
      this.#waiting.delete(pool);
      this.#take(pool);
      if (!pool.grant()) this.release(pool);
    }
  }

  #take(pool: Claimant): void {
    this.open += 1;
    this.#held.set(pool, (this.#held.get(pool) ?? 0) + 1);
  }

  #mayTake(pool: Claimant): boolean {
    return !pool.isProven() || this.#used() < this.#total();
  }

  /** Connections to pools that have answered. */
  #used(): number {
    let used = 0;
    for (const [pool, count] of this.#held) if (pool.isProven()) used += count;
    return used;
  }

  #othersWait(pool: Claimant): boolean {
    return pool.isProven() && [...this.#waiting].some((other) => other !== pool);
  }

  #hangUpIdle(): void {
    const [hangUp] = this.#idle;
    if (hangUp === undefined || this.#used() < this.#total()) return;
    this.#idle.delete(hangUp);
    hangUp();
  }
}
