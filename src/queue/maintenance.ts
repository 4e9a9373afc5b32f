/** What the queue does by the clock: keeping its leases, taking back those that nobody keeps, and giving up what is too old. */
import { leasedTo, renewLeases, takeBackLeases } from '../store/leases.ts';
import { noteDue, repairDue } from '../store/destinations.ts';
import { findMessage, giveBack, walkWaiting } from '../store/messages.ts';
import { LEASE } from './claimer.ts';
import { writeExpired, type WritingOptions } from './results.ts';

export interface MaintenanceOptions extends WritingOptions {
  readonly owner: string;
  /** Whether the delivery is claimed in this process. */
  readonly isClaimed: (id: string) => boolean;
}

const RENEW_EVERY = LEASE / 3;
const SWEEP_EVERY = 60_000;
/** From this age on a lease may run out before what is sent under it has arrived. */
const SAFE = (LEASE * 3) / 4;
/** Between two parts of a long walk. */
const WALK_EVERY = 1000;
const STRETCH = 500;
const STRETCHES = 4;

export class Maintenance {
  readonly #options: MaintenanceOptions;
  #started = false;
  /** On both clocks: the monotonic one stands still while the machine is suspended, and leases run out by the other. */
  #renewed: { readonly wall: number; readonly monotonic: number };
  /** On the monotonic clock. */
  #sweepAt = -Infinity;
  #walkAt = -Infinity;
  #walk: { state: 'queued' | 'deferred'; after: string } = { state: 'queued', after: '' };

  constructor(options: MaintenanceOptions) {
    this.#options = options;
    this.#renewed = { wall: options.clock.now(), monotonic: options.clock.monotonic() };
  }

  /** Before the first claim: what the last run left. On SQLite there is no other daemon that could hold a lease. */
  async start(): Promise<void> {
    if (this.#started) return;
    const { store } = this.#options;
    await this.#takeBack(store.dialect === 'sqlite' ? Number.MAX_SAFE_INTEGER : this.#options.clock.now());
    this.#started = true;
  }

  /** Whether what is claimed here is surely nobody else's. */
  areLeasesSafe(): boolean {
    return this.#options.store.dialect === 'sqlite' || this.#age() < SAFE;
  }

  /** How long ago the leases were renewed, by the clock that says more. */
  #age(): number {
    const { clock } = this.#options;
    return Math.max(clock.monotonic() - this.#renewed.monotonic, clock.now() - this.#renewed.wall);
  }

  /** Does what is due. Rejects where the store cannot. */
  async run(): Promise<void> {
    const { store, clock, owner } = this.#options;
    const monotonic = clock.monotonic();
    // Before leases are taken back, too: to a clock that was just set forward our own seem to be over.
    const isSweep = monotonic >= this.#sweepAt;
    if (store.dialect === 'postgres' && (isSweep || this.#age() >= RENEW_EVERY)) {
      const wall = clock.now();
      await store.write([renewLeases({ owner, until: wall + LEASE })]);
      this.#renewed = { wall, monotonic };
    }
    if (monotonic >= this.#walkAt) await this.#expire(monotonic);
    if (!isSweep) return;
    await this.#returnOrphans();
    if (store.dialect === 'postgres') {
      await this.#takeBack(clock.now());
      await store.write([repairDue({ now: clock.now() })]);
    }
    this.#sweepAt = monotonic + SWEEP_EVERY;
  }

  async #takeBack(before: number): Promise<void> {
    const { store, clock, log } = this.#options;
    const destinations = await takeBackLeases(store, before, clock.now());
    if (destinations === 0) return;
    log.warn('queue.taken_back', { destinations });
    // What had not begun is due at once.
    this.#options.wake();
  }

  /** Claims whose commit seemed to fail and did not, and ends that could not be written. */
  async #returnOrphans(): Promise<void> {
    const { store, clock, owner, isClaimed } = this.#options;
    const due = clock.now();
    for (const { id, attempts, destination } of await leasedTo(store, owner)) {
      if (isClaimed(id)) continue;
      await store.write([giveBack({ id, owner, attempts, due }), noteDue({ name: destination, due })]);
    }
  }

  /** Goes some stretches further through what waits; that is all of it where it is not very much. */
  async #expire(monotonic: number): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    for (let i = 0; i < STRETCHES; i++) {
      const { state, after } = this.#walk;
      const { overdue, next } = await walkWaiting(store, state, { after, limit: STRETCH, now });
      const messages = Map.groupBy(overdue, ({ message }) => message);
      await Promise.all(
        Array.from(messages, async ([id, rows]) => writeExpired(rows, await findMessage(store, id), this.#options)),
      );
      this.#walk =
        next === '' ? { state: state === 'queued' ? 'deferred' : 'queued', after: '' } : { state, after: next };
      if (next === '' && state === 'deferred') {
        this.#walkAt = monotonic + SWEEP_EVERY;
        return;
      }
    }
    this.#walkAt = monotonic + WALK_EVERY;
  }
}
