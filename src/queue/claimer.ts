/**
 * Claims what is due: destination by destination, from each as much as the courier can make use of, from a long queue in
 * turns by tenant. One claim at a time, and one commit for all destinations that it concerns. What is claimed is bounded,
 * and destinations that have not answered lately may hold half of it at most.
 */
import { claimDeliveries, claimDeliveriesOfTenant, tenantsWaiting, type ClaimedRow } from '../store/claims.ts';
import { dueDestinations, dueDestinationsAmong, recomputeDue, repairDueAmong } from '../store/destinations.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { DestinationRow } from '../store/tables.ts';
import { Destination } from './destination.ts';
import type { Courier } from './interfaces.ts';
import { claimDelays, type RetryOptions } from './retry.ts';

export interface ClaimerOptions {
  readonly store: Store;
  readonly courier: Pick<Courier, 'appetite' | 'isProven' | 'proven'>;
  /** Of this daemon's leases. */
  readonly owner: string;
  readonly retry: () => RetryOptions;
}

export interface Claimed {
  readonly destination: Destination;
  readonly rows: readonly ClaimedRow[];
}

/** How long a lease lasts that nobody renews, ms. */
export const LEASE = 60_000;
/** No commit takes longer, ms; where one does, the sweep comes. */
const LATELY = 10_000;
const MOST_CLAIMED = 2000;
const MOST_UNPROVEN = MOST_CLAIMED / 2;
const MOST_DESTINATIONS = 64;
const MOST_TENANTS = 8;

interface Plan {
  readonly destination: Destination;
  readonly room: number;
}

export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #destinations = new Map<string, Destination>();
  /** When destinations were last claimed from, for a short while. */
  readonly #lately = new Map<string, number>();
  #outstanding = 0;
  /** Something is due for which there was no room. */
  #hungry = false;

  constructor(options: ClaimerOptions) {
    this.#options = options;
  }

  get outstanding(): number {
    return this.#outstanding;
  }

  /** Claims what is due and what there is room for; empty when that is nothing. Rejects where the store cannot write. */
  async claim(now: number): Promise<Claimed[]> {
    this.#hungry = false;
    await this.#repair(now);
    const plans = this.#plan(await this.#due(now));
    if (plans.length === 0) return [];
    const claims = await Promise.all(plans.map((plan) => this.#statements(plan, now)));
    // Sorted, so that daemons on one PostgreSQL lock destinations in the same order.
    const names = plans.map(({ destination }) => destination.name).sort();
    const { store } = this.#options;
    const results = await store.write([...claims.flat(), ...names.map((name) => recomputeDue({ name }))]);
    if (store.dialect === 'postgres') for (const name of names) this.#lately.set(name, now);
    const rows = results.flatMap((result) => result.rows.flatMap((row) => ('recipient' in row ? [row] : [])));
    return this.#distribute(plans, rows);
  }

  /** Recipients of a destination are claimed no longer. Answers whether it is time to claim more. */
  settle(destination: Destination, recipients: number): boolean {
    destination.outstanding -= recipients;
    this.#outstanding -= recipients;
    if (destination.outstanding === 0) this.#destinations.delete(destination.name);
    if (!this.#hungry && !destination.backlog) return false;
    return this.#isLow(destination);
  }

  /**
   * On PostgreSQL, mail that was on its way into the queue during a claim may have been overlooked by it: its destination
   * seemed to be due already, and then had nothing left.
   */
  async #repair(now: number): Promise<void> {
    const { store } = this.#options;
    for (const [name, at] of this.#lately) if (at + LATELY < now) this.#lately.delete(name);
    if (this.#lately.size > 0) await store.write([repairDueAmong([...this.#lately.keys()], now)]);
  }

  async #due(now: number): Promise<DestinationRow[]> {
    const { store, courier } = this.#options;
    if (this.#unproven() < MOST_UNPROVEN) {
      return dueDestinations(store, now, MOST_DESTINATIONS + this.#destinations.size);
    }
    // However long the line of those that do not answer is, those that do are not in it.
    this.#hungry = true;
    return dueDestinationsAmong(store, now, courier.proven());
  }

  #plan(due: readonly DestinationRow[]): Plan[] {
    const { courier } = this.#options;
    const plans: Plan[] = [];
    let left = MOST_CLAIMED - this.#outstanding;
    let leftUnproven = MOST_UNPROVEN - this.#unproven();
    for (const row of due) {
      const destination = this.#destinations.get(row.name) ?? new Destination(row.name);
      destination.read(row);
      const proven = courier.isProven(row.name);
      const wanted = this.#appetite(destination) - destination.outstanding;
      const room = Math.min(wanted, left, proven ? left : leftUnproven);
      if (room <= 0 || plans.length === MOST_DESTINATIONS || !this.#isLow(destination)) {
        this.#hungry = true;
        continue;
      }
      left -= room;
      if (!proven) leftUnproven -= room;
      plans.push({ destination, room });
    }
    return plans;
  }

  async #statements({ destination, room }: Plan, now: number): Promise<Statement<ClaimedRow>[]> {
    const { owner, retry } = this.#options;
    const delays = claimDelays(retry());
    const claim = {
      destination: destination.name,
      now,
      owner,
      until: now + LEASE,
      delays: delays.json,
      last_delay: delays.last,
    };
    if (!destination.backlog) return [claimDeliveries({ ...claim, limit: room })];
    const tenants = await this.#turns(destination);
    if (tenants.length < 2) return [claimDeliveries({ ...claim, limit: room })];
    const limit = Math.ceil(room / tenants.length);
    return tenants.map((tenant) => claimDeliveriesOfTenant({ ...claim, tenant, limit }));
  }

  /** The next few tenants with mail for the destination, after those whose turn it was last. */
  async #turns(destination: Destination): Promise<string[]> {
    const { store } = this.#options;
    const turns = { after: destination.tenant, limit: MOST_TENANTS };
    const tenants = await tenantsWaiting(store, destination.name, turns);
    if (tenants.length < MOST_TENANTS && destination.tenant !== '') {
      const more = await tenantsWaiting(store, destination.name, { after: '', limit: MOST_TENANTS - tenants.length });
      tenants.push(...more.filter((tenant) => !tenants.includes(tenant)));
    }
    destination.tenant = tenants.at(-1) ?? '';
    return tenants;
  }

  #distribute(plans: readonly Plan[], rows: readonly ClaimedRow[]): Claimed[] {
    const byDestination = Map.groupBy(rows, (row) => row.destination);
    return plans.flatMap(({ destination, room }) => {
      const claimed = byDestination.get(destination.name) ?? [];
      destination.backlog = claimed.length >= room;
      destination.outstanding += claimed.length;
      this.#outstanding += claimed.length;
      if (destination.outstanding > 0) this.#destinations.set(destination.name, destination);
      else this.#destinations.delete(destination.name);
      return claimed.length === 0 ? [] : [{ destination, rows: claimed }];
    });
  }

  /** One recipient is enough to find out whether a failing destination is back. */
  #appetite(destination: Destination): number {
    const { courier } = this.#options;
    if (destination.isFailing && !courier.isProven(destination.name)) return 1;
    return courier.appetite(destination.name);
  }

  /** Whether half of what the courier can make use of is gone: claims are worth their commit. */
  #isLow(destination: Destination): boolean {
    return destination.outstanding * 2 <= this.#appetite(destination);
  }

  #unproven(): number {
    let sum = 0;
    for (const { name, outstanding } of this.#destinations.values()) {
      if (!this.#options.courier.isProven(name)) sum += outstanding;
    }
    return sum;
  }
}
