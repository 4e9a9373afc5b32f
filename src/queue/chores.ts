/** What the queue does by the clock: keeping its leases, taking back those that nobody keeps, and giving up what is too old. */
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { leasedTo, renewLeases, takeBackLeases } from '../store/claims.ts';
import { giveBack, overdueDeliveries } from '../store/deliveries.ts';
import { noteDue, repairDue } from '../store/destinations.ts';
import { findMessage } from '../store/messages.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { DeliveryRow } from '../store/tables.ts';
import { LEASE } from './claimer.ts';
import { expired } from './outcome.ts';

export interface ChoresOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly owner: string;
  /** Whether the delivery is claimed in this process. */
  readonly isClaimed: (id: string) => boolean;
}

const RENEW_EVERY = LEASE / 3;
const SWEEP_EVERY = 60_000;
/** From this age on a lease may run out before what is sent under it has arrived. */
const SAFE = (LEASE * 3) / 4;
const AT_ONCE = 500;
const MOST_AT_A_TIME = 20;

export class Chores {
  readonly #options: ChoresOptions;
  #started = false;
  /** On the monotonic clock. */
  #renewedAt: number;
  #sweptAt = -Infinity;

  constructor(options: ChoresOptions) {
    this.#options = options;
    this.#renewedAt = options.clock.monotonic();
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
    const { store, clock } = this.#options;
    return store.dialect === 'sqlite' || clock.monotonic() - this.#renewedAt < SAFE;
  }

  /** Does what is due. Rejects where the store cannot. */
  async run(): Promise<void> {
    const { store, clock, owner } = this.#options;
    const monotonic = clock.monotonic();
    if (store.dialect === 'postgres' && monotonic - this.#renewedAt >= RENEW_EVERY) {
      await store.write([renewLeases({ owner, until: clock.now() + LEASE })]);
      this.#renewedAt = monotonic;
    }
    if (monotonic - this.#sweptAt < SWEEP_EVERY) return;
    await this.#returnOrphans();
    if (store.dialect === 'postgres') {
      await this.#takeBack(clock.now());
      await store.write([repairDue({})]);
    }
    if (await this.#expire(clock.now())) this.#sweptAt = monotonic;
  }

  async #takeBack(before: number): Promise<void> {
    const { store, clock, log } = this.#options;
    const destinations = await takeBackLeases(store, before, clock.now());
    if (destinations > 0) log.warn('queue.taken_back', { destinations });
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

  /** Answers whether nothing is left to do. */
  async #expire(now: number): Promise<boolean> {
    const { store } = this.#options;
    for (let i = 0; i < MOST_AT_A_TIME; i++) {
      const rows = await overdueDeliveries(store, now, AT_ONCE);
      await Promise.all(rows.map((row) => this.#giveUp(row, now)));
      if (rows.length < AT_ONCE) return true;
    }
    return false;
  }

  async #giveUp(row: DeliveryRow, now: number): Promise<void> {
    const { store, log } = this.#options;
    const { unit, event, fields } = expired(row, await findMessage(store, row.message), now);
    try {
      await store.write(unit);
      log.info(event, fields);
    } catch (error) {
      // It was claimed or cancelled in between.
      if (!(error instanceof UnmetError)) throw error;
    }
  }
}
