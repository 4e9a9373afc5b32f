/**
 * A set of mail hosts, however many domains lead there: what waits for it, in turns by destination, and how many
 * connections it is good for. It starts with two, gets one more with each answer while more waits, and half with a 421
 * or a fault.
 */
import { untouched, type Parcel, type Unreachable } from '../queue/interfaces.ts';
import { Lane, type SiteOptions, type Waiting, type Workplace } from './connection.ts';
import type { Way } from './route.ts';
import type { Target } from './session.ts';
import type { Claimant } from './concurrency.ts';

const FIRST_LIMIT = 2;
/** How long an address that did not answer is tried last, ms. */
const RESTING = 60_000;
const MOST_RETURNS = 3;

export class Site implements Claimant, Workplace {
  readonly options: SiteOptions;
  readonly brokenTls = new Set<string>();
  way: Way;
  #limit = FIRST_LIMIT;
  /** Whether it has answered, and could be reached since; undefined while nothing is known of it. */
  #proven: boolean | undefined;
  #ceiling = { lanes: Infinity, until: -Infinity };
  #asking = false;
  #stopped = false;
  /** By destination, in the order of their turns. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #lanes = new Set<Lane>();
  readonly #idle = new Set<Lane>();
  readonly #resting = new Map<string, number>();

  constructor(way: Way, options: SiteOptions) {
    this.way = way;
    this.options = options;
  }

  get limit(): number {
    return this.#limit;
  }

  get isUnused(): boolean {
    return this.#lanes.size === 0 && this.#waiting.size === 0;
  }

  get lanes(): ReadonlySet<Lane> {
    return this.#lanes;
  }

  isProven(): boolean {
    return this.#proven === true;
  }

  /** Where to connect to, in order; what lately did not answer comes last. */
  targets(): Target[] {
    const now = this.options.clock.monotonic();
    const all = this.way.hosts.flatMap(({ name, addresses }) => addresses.map((address) => ({ host: name, address })));
    const rests = ({ address }: Target) => (this.#resting.get(address) ?? -Infinity) > now;
    return [...all.filter((target) => !rests(target)), ...all.filter(rests)];
  }

  take(parcels: readonly Parcel[]): void {
    if (parcels.some(({ isProven }) => isProven)) this.#proven ??= true;
    for (const parcel of parcels) this.#put({ parcel, returns: 0 });
    for (const lane of this.#idle) {
      if (this.#waiting.size === 0) break;
      lane.wake(this.hasTooMany ? undefined : this.next());
    }
    this.#grow();
  }

  /** Whether there is a connection too many here, for the server or for others who wait for one. */
  get hasTooMany(): boolean {
    return this.#stopped || this.#lanes.size > this.#limit || this.options.slots.mustYield(this);
  }

  /** The next parcel, in turn. */
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
    if (this.#stopped || this.#waiting.size === 0 || this.#lanes.size >= this.#most()) return false;
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
    const open = [...this.#lanes].filter((lane) => lane.isOpen).length;
    this.#limit = Math.max(1, Math.floor(this.#limit / 2));
    // What it just refused is not asked again at the next answer.
    if (open > 0) this.#ceiling = { lanes: Math.max(this.#limit, open), until };
    if (address === undefined) return;
    this.#resting.set(address, until);
    if (open === 0) this.#proven = false;
  }

  /** Puts a parcel back where other connections serve it; answers false where there are none. */
  putBack({ parcel, returns }: Waiting, lane: Lane): boolean {
    const others = [...this.#lanes].some((other) => other !== lane && other.isOpen);
    if (this.#stopped || !others || returns >= MOST_RETURNS) return false;
    this.#put({ parcel, returns: returns + 1 });
    return true;
  }

  /** Nobody is reached: what waits for the destination goes back untried; the first of each other destination hears it, too. */
  unreachable(destination: string, result: Unreachable): void {
    const dead = ![...this.#lanes].some((lane) => lane.isOpen);
    for (const [name, queue] of this.#waiting) {
      if (name !== destination && !dead) continue;
      this.#waiting.delete(name);
      const [first, ...rest] = queue.map(({ parcel }) => parcel);
      if (first !== undefined) void this.#end(first, name === destination ? undefined : result);
      for (const parcel of rest) void this.#end(parcel);
    }
    if (this.#waiting.size === 0) this.#withdraw();
  }

  sleep(lane: Lane): () => void {
    this.#idle.add(lane);
    const end = this.options.slots.idle(() => lane.wake());
    return () => {
      this.#idle.delete(lane);
      end();
    };
  }

  left(lane: Lane): void {
    this.#lanes.delete(lane);
    this.options.slots.release(this);
    this.#grow();
  }

  /** Gives back what waits and starts nothing more. */
  stop(): void {
    this.#stopped = true;
    for (const queue of this.#waiting.values()) for (const { parcel } of queue) void this.#end(parcel);
    this.#waiting.clear();
    this.#withdraw();
    for (const lane of this.#idle) lane.wake();
  }

  #end(parcel: Parcel, result?: Unreachable): Promise<void> {
    return this.options.track(parcel.done(result ?? untouched(parcel)));
  }

  #withdraw(): void {
    this.#asking = false;
    this.options.slots.withdraw(this);
  }

  #put(item: Waiting): void {
    const { destination } = item.parcel;
    const queue = this.#waiting.get(destination);
    if (queue === undefined) this.#waiting.set(destination, [item]);
    else queue.push(item);
  }

  #most(): number {
    const most = this.options.config().delivery.per_destination;
    return this.#ceiling.until > this.options.clock.monotonic() ? Math.min(most, this.#ceiling.lanes) : most;
  }

  #grow(): void {
    while (!this.#stopped && !this.#asking && this.#lanes.size < Math.min(this.#limit, this.#needed())) {
      this.#asking = true;
      if (!this.options.slots.request(this)) return;
      this.#asking = false;
      this.#start();
    }
  }

  /** Lanes that work, and one more for each parcel that nobody has taken. */
  #needed(): number {
    let waiting = 0;
    for (const queue of this.#waiting.values()) waiting += queue.length;
    return this.#lanes.size - this.#idle.size + waiting;
  }

  #start(): void {
    const lane = new Lane(this);
    this.#lanes.add(lane);
    void this.options.track(lane.run());
  }
}
