/**
 * Claims what is due: destination by destination, from each as much as its transport can make use of, from a long queue in
 * turns (round-robin.ts) but for a part that is of its newest mail, so that what comes now never waits behind all that came
 * before. One claim at a time, and one commit for all destinations that it concerns. What is claimed is bounded.
 *
 * Destinations wait in lines: one for all that have answered, and for each tenant one of first contacts and one of those
 * that could not be reached. The lines take turns, and of what a destination holds that has not answered (a look-up in
 * DNS, a connection) no line takes more than it leaves free. So there is always room for a line that comes new, and however
 * many destinations of a tenant hang, they hold up neither another tenant nor its own first contacts.
 */
import { claimDeliveries, claimNewest, claimTurn, type ClaimedRow } from '../store/leases.ts';
import {
  dueDestinations,
  dueDestinationsAmong,
  dueLines,
  findDestination,
  recomputeDue,
  RELAY,
  repairDueAmong,
} from '../store/destinations.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { DestinationRow } from '../store/tables.ts';
import type { Reach } from './reach.ts';
import { SANDBOX } from './sandbox.ts';
import { claimDelays, type RetryOptions } from './retry.ts';
import { Destination, isWebhook } from './destinations.ts';
import type { Transport } from './transport.ts';

export interface ClaimerOptions {
  readonly store: Store;
  readonly transportOf: (destination: string) => Pick<Transport, 'capacity'>;
  /** How many destinations that have not answered may be tried at a time. */
  readonly mostUnproven: () => number;
  /** Of this daemon's leases. */
  readonly owner: string;
  readonly retry: (destination: string) => RetryOptions;
  /** The smarthost's pause; while there is a smarthost, all mail is for it but that of the destinations beside it. */
  readonly relay: Destination;
  /** Destinations whose mail does not leave through the smarthost; undefined where there is none. */
  readonly besideRelay: () => readonly string[] | undefined;
  readonly reach: Reach;
}

export interface Claimed {
  readonly destination: Destination;
  readonly rows: readonly ClaimedRow[];
}

/** How long a lease lasts that nobody renews, ms. */
export const LEASE = 60_000;
/** No commit takes longer, ms; where one does, the sweep comes. */
const LATELY = 10_000;
const MAX_CLAIMED = 2000;
/** Webhooks have room of their own: targets that hang delay no mail. */
const MAX_WEBHOOKS_CLAIMED = 1000;
const MAX_DESTINATIONS = 64;
/** From a long queue this part of a claim is of the newest. */
const NEWEST_SHARE = 1 / 4;
/** Smaller claims are of the oldest alone. */
const MIN_FOR_TURNS = 4;
/** Recipients of a destination that has not answered; one alone where its line has half of its share. */
const MAX_PER_UNPROVEN = 4;

interface Plan {
  readonly destination: Destination;
  readonly room: number;
}

export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #destinations = new Map<string, Destination>();
  /** When destinations were last claimed from, for a short while. */
  readonly #lately = new Map<string, number>();
  /** Something is due for which there was no room. */
  #hungry = false;
  /** A line that has all that it may have had more that is due. */
  #crowded = false;
  /** Whose turn was last. */
  #line = '';

  constructor(options: ClaimerOptions) {
    this.#options = options;
  }

  /** Claims what is due and what there is room for; empty when that is nothing. Rejects where the store cannot write. */
  async claim(now: number): Promise<Claimed[]> {
    this.#hungry = false;
    await this.#repair(now);
    const plans = await this.#plan(now);
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

  /** Whether a line has more to do than it may begin, and this destination's is one that has all that it may have. */
  isPressed({ line, isProven }: Destination): boolean {
    return this.#crowded && !isProven && !this.#shares().isOpen(line);
  }

  /** Recipients of a destination are claimed no longer. Answers whether it is time to claim more. */
  settle(destination: Destination, recipients: number): boolean {
    destination.outstanding -= recipients;
    if (destination.outstanding === 0) this.#destinations.delete(destination.name);
    return (this.#hungry || destination.backlog) && this.#isLow(destination);
  }

  /**
   * On PostgreSQL, mail that was on its way into the queue during a claim may have been overlooked by it: its destination
   * seemed to be due already, and then had nothing left.
   */
  async #repair(now: number): Promise<void> {
    const { store } = this.#options;
    for (const [name, at] of this.#lately) if (at + LATELY < now) this.#lately.delete(name);
    if (this.#lately.size > 0) await store.write([repairDueAmong({ names: [...this.#lately.keys()], now })]);
  }

  async #plan(now: number): Promise<Plan[]> {
    const shares = this.#shares();
    const left = this.#leftProven();
    const due =
      (await this.#dueWithoutRoute(now)) ??
      (await this.#dueBesideRelay(now)) ??
      (await this.#dueByLine(now, { left, shares }));
    const plans: Plan[] = [];
    for (let turn = 0; due.some((rows) => turn < rows.length); turn++) {
      for (const row of due.flatMap((rows) => rows[turn] ?? [])) {
        const plan = plans.length < MAX_DESTINATIONS ? this.#planFor(row, { left, shares }) : undefined;
        if (plan === undefined) this.#hungry = true;
        else {
          plans.push(plan);
          if (plan.destination.isProven) left[kindOf(plan.destination)] -= plan.room;
          else if (plan.destination.outstanding === 0) shares.take(row.line);
          if (row.line !== '') this.#line = row.line;
        }
      }
    }
    return plans;
  }

  /** Where no mail server can be reached from here: what needs none, and now and then one message to find out; undefined where they can. */
  async #dueWithoutRoute(now: number): Promise<DestinationRow[][] | undefined> {
    const { reach } = this.#options;
    return reach.hasRoute ? undefined : this.#dueBeside([SANDBOX], now, () => reach.mayProbe());
  }

  /** Where the smarthost failed: what does not need it, and after its pause one message to find out; undefined where it works. */
  async #dueBesideRelay(now: number): Promise<DestinationRow[][] | undefined> {
    const { store, relay, besideRelay, reach } = this.#options;
    const names = besideRelay();
    relay.read(names === undefined ? undefined : await findDestination(store, RELAY));
    if (names === undefined) return undefined;
    const isAvoided = reach.avoided().includes(RELAY);
    if (!relay.isFailing && !isAvoided) return undefined;
    return this.#dueBeside(names, now, () => !isAvoided && (relay.pausedUntil ?? 0) <= now);
  }

  /** What is due of the named destinations and of webhooks, and where that is allowed one destination more, if none is being tried. */
  async #dueBeside(names: readonly string[], now: number, mayProbe: () => boolean): Promise<DestinationRow[][]> {
    const { store } = this.#options;
    const limit = MAX_DESTINATIONS + this.#destinations.size;
    const otherDestinations = await dueDestinationsAmong(store, names, { now, limit });
    const isAsked = [...this.#destinations.keys()].some((name) => !isWebhook(name) && !names.includes(name));
    if (isAsked || !mayProbe()) return [otherDestinations];
    return [otherDestinations, await dueDestinationsAmong(store, names, { now, limit: 1, but: true })];
  }

  async #dueByLine(now: number, { left, shares }: { left: Left; shares: Shares }): Promise<DestinationRow[][]> {
    const lines = await this.#dueLines(now);
    const open = lines.filter((line) => (line === '' ? left.mail > 0 || left.webhooks > 0 : shares.isOpen(line)));
    this.#crowded = lines.some((line) => line !== '' && !shares.isOpen(line));
    this.#hungry = open.length < lines.length;
    return Promise.all(open.map((line) => this.#dueIn(line, now)));
  }

  #planFor(row: DestinationRow, { left, shares }: { left: Left; shares: Shares }): Plan | undefined {
    const destination = this.#destinations.get(row.name) ?? new Destination(row.name);
    destination.read(row);
    const { line, isProven, outstanding } = destination;
    if (!isProven && outstanding === 0 && !shares.isOpen(line)) return undefined;
    const most = isProven ? left[kindOf(destination)] : shares.isHalfFull(line) ? 1 : MAX_PER_UNPROVEN;
    const room = Math.min(this.#capacity(destination) - outstanding, most);
    return room > 0 && this.#isLow(destination) ? { destination, room } : undefined;
  }

  /** The one of what is proven, and then as many others as one claim serves, after the one whose turn was last. */
  async #dueLines(now: number): Promise<string[]> {
    const lines = await dueLines(this.#options.store, now);
    const rest = lines.filter((line) => line !== '');
    const next = rest.findIndex((line) => line > this.#line);
    const turns = next === -1 ? rest : [...rest.slice(next), ...rest.slice(0, next)];
    return [...lines.slice(0, lines.length - rest.length), ...turns.slice(0, MAX_DESTINATIONS)];
  }

  #dueIn(line: string, now: number): Promise<DestinationRow[]> {
    const inHand = [...this.#destinations.values()].filter((each) => each.line === line).length;
    const limit = MAX_DESTINATIONS + inHand;
    return dueDestinations(this.#options.store, line, { now, limit, but: this.#options.reach.avoided() });
  }

  async #statements({ destination, room }: Plan, now: number): Promise<Statement<ClaimedRow>[]> {
    const { owner, retry } = this.#options;
    const claim = {
      destination: destination.name,
      now,
      owner,
      until: now + LEASE,
      ...claimDelays(retry(destination.name)),
    };
    if (!destination.backlog || room < MIN_FOR_TURNS) return [claimDeliveries({ ...claim, limit: room })];
    const newest = Math.floor(room * NEWEST_SHARE);
    const turns = await destination.turns.next(this.#options.store, destination.name, room - newest);
    return [claimNewest({ ...claim, limit: newest }), ...turns.map((turn) => claimTurn({ ...claim, ...turn }))];
  }

  #distribute(plans: readonly Plan[], rows: readonly ClaimedRow[]): Claimed[] {
    const byDestination = Map.groupBy(rows, (row) => row.destination);
    return plans.flatMap(({ destination, room }) => {
      const claimed = byDestination.get(destination.name) ?? [];
      // Whose turn it is may have nothing that is due; then the oldest are claimed, whosoever they are.
      destination.backlog = claimed.length >= (destination.backlog ? room / 2 : room);
      destination.outstanding += claimed.length;
      if (destination.outstanding > 0) this.#destinations.set(destination.name, destination);
      else this.#destinations.delete(destination.name);
      return claimed.length === 0 ? [] : [{ destination, rows: claimed }];
    });
  }

  /** One recipient is enough to find out whether a failing destination is back. */
  #capacity(destination: Destination): number {
    const { relay, besideRelay, reach } = this.#options;
    const { name } = destination;
    const isProbe =
      kindOf(destination) === 'mail' &&
      ((relay.isFailing && besideRelay()?.includes(name) === false) || (!reach.hasRoute && name !== SANDBOX));
    return destination.isFailing || isProbe
      ? 1
      : this.#options.transportOf(destination.name).capacity(destination.name);
  }

  /** Whether half of what the transport can make use of is gone: claims are worth their commit. */
  #isLow(destination: Destination): boolean {
    return destination.outstanding * 2 <= this.#capacity(destination);
  }

  /** How many recipients at proven destinations may be claimed beside those that are. */
  #leftProven(): Left {
    const left = { mail: MAX_CLAIMED, webhooks: MAX_WEBHOOKS_CLAIMED };
    for (const destination of this.#destinations.values())
      if (destination.isProven) left[kindOf(destination)] -= destination.outstanding;
    return left;
  }

  #shares(): Shares {
    const shares = new Shares(this.#options.mostUnproven());
    for (const { line, isProven } of this.#destinations.values()) if (!isProven) shares.take(line);
    return shares;
  }
}

/** How much may be claimed of each. */
type Left = Record<'mail' | 'webhooks', number>;

function kindOf({ name }: Destination): keyof Left {
  return isWebhook(name) ? 'webhooks' : 'mail';
}

/** How much of the room for destinations that have not answered each line has. */
class Shares {
  #free: number;
  readonly #taken = new Map<string, number>();

  constructor(total: number) {
    this.#free = total;
  }

  take(line: string): void {
    this.#free -= 1;
    this.#taken.set(line, this.#of(line) + 1);
  }

  /** Whether the line may take more: it has less than it leaves to others. */
  isOpen(line: string): boolean {
    return this.#of(line) < this.#free;
  }

  isHalfFull(line: string): boolean {
    return this.#of(line) * 2 >= this.#free;
  }

  #of(line: string): number {
    return this.#taken.get(line) ?? 0;
  }
}
