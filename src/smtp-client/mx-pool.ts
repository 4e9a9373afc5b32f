/**
 * A set of mail hosts, however many domains lead there: what waits for it, in turns by destination, and how many
 * connections it is good for. It starts with two, gets one more with each answer while more waits, and half with a 421
 * or a fault.
 */
import { untouched, type Batch, type Unreachable } from '../queue/transport.ts';
import { Connection, type MxPoolOptions, type Waiting, type Workplace } from './connection.ts';
import type { NextHop } from './route.ts';
import type { Target } from './session.ts';
import type { Claimant } from './concurrency.ts';

const FIRST_LIMIT = 2;
/** How long an address that did not answer is tried last, ms. */
const RESTING = 60_000;
const MOST_RETURNS = 3;

export class MxPool implements Claimant, Workplace {
  readonly options: MxPoolOptions;
  readonly brokenTls = new Set<string>();
  nextHop: NextHop;
  #limit = FIRST_LIMIT;
  /** Whether it has answered, and could be reached since; undefined while nothing is known of it. */
  #proven: boolean | undefined;
  #ceiling = { connections: Infinity, until: -Infinity };
  #asking = false;
  #stopped = false;
  /** By destination, in the order of their turns. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #connections = new Set<Connection>();
  readonly #idle = new Set<Connection>();
  readonly #resting = new Map<string, number>();

  constructor(nextHop: NextHop, options: MxPoolOptions) {
    this.nextHop = nextHop;
    this.options = options;
  }

  get limit(): number {
    return this.#limit;
  }

  get isUnused(): boolean {
    return this.#connections.size === 0 && this.#waiting.size === 0;
  }

  get connections(): ReadonlySet<Connection> {
    return this.#connections;
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
    return this.#stopped || this.#connections.size > this.#limit || this.options.connectionLimit.mustYield(this);
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
    if (this.#stopped || this.#waiting.size === 0 || this.#connections.size >= this.#most()) return false;
    this.#start();
    this.#grow();
    return true;
  }

  /** A transaction got answers to its end. */
  answered(): void {
    this.#proven = true;
    if (this.#waiting.size > 0) {
      this.#limit = Math.min(this.#limit + 1, this.#most());
      this.#grow();
    }
  }

  /** A connection failed (at `address`), or the server asked for fewer. */
  faltered(address?: string): void {
    const until = this.options.clock.monotonic() + RESTING;
    const open = [...this.#connections].filter((connection) => connection.isOpen).length;
    this.#limit = Math.max(1, Math.floor(this.#limit / 2));
    // What it just refused is not asked again at the next answer.
    if (open > 0) this.#ceiling = { connections: Math.max(this.#limit, open), until };
    if (address === undefined) return;
    this.#resting.set(address, until);
    if (open === 0) this.#proven = false;
  }

  /** Puts a batch back where other connections serve it; answers false where there are none. */
  putBack({ batch, returns }: Waiting, connection: Connection): boolean {
    const others = [...this.#connections].some((other) => other !== connection && other.isOpen);
    if (this.#stopped || !others || returns >= MOST_RETURNS) return false;
    this.#put({ batch, returns: returns + 1 });
    return true;
  }

  /** Nobody is reached: what waits for the destination goes back untried; the first of each other destination hears it, too. */
  unreachable(destination: string, result: Unreachable): void {
    const dead = ![...this.#connections].some((connection) => connection.isOpen);
    for (const [name, queue] of this.#waiting) {
      if (name !== destination && !dead) continue;
      this.#waiting.delete(name);
      const [first, ...rest] = queue.map(({ batch }) => batch);
      if (first !== undefined) void this.#end(first, name === destination ? undefined : result);
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
    this.#connections.delete(connection);
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
    while (!this.#stopped && !this.#asking && this.#connections.size < Math.min(this.#limit, this.#needed())) {
      this.#asking = true;
      if (!this.options.connectionLimit.request(this)) return;
      this.#asking = false;
      this.#start();
    }
  }

  /** Connections that work, and one more for each batch that nobody has taken. */
  #needed(): number {
    let waiting = 0;
    for (const queue of this.#waiting.values()) waiting += queue.length;
    return this.#connections.size - this.#idle.size + waiting;
  }

  #start(): void {
    const connection = new Connection(this);
    this.#connections.add(connection);
    void this.options.track(connection.run());
  }
}
