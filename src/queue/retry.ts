/**
 * When to try again: the operator's table with jitter, so that what failed together does not come back together. And what the
 * worker remembers of a destination: its failures, and whose turn it is.
 */
import { LruMap } from '../lib/lru.ts';
import { nextFlow, tenantsWaiting, type Turn } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { DestinationRow } from '../store/tables.ts';
import type { Random, Unreachable } from './transport.ts';

/** A connection or DNS fault is often over soon: one early look before the table begins. */
const FIRST_AFTER_FAULT = 60_000;
const JITTER = 0.1;
/** After the first failure of one of several daemons another may look, ms. */
const OTHERS_LOOK_MS = 1000;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** The table of webhooks: eight attempts over about 28 hours, as the Standard Webhooks specification suggests, ms. */
export const WEBHOOK_RETRY_MS: readonly number[] = [
  5000,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  10 * HOUR,
];

export interface RetryOptions {
  /** `delivery.retry` of mail, ms; the last repeats. */
  readonly table: readonly number[];
  readonly random: Random;
}

/** How long to wait after the `failures`th try in a row (from 1) has failed, ms. */
export function retryDelay(failures: number, cause: 'reply' | 'fault', { table, random }: RetryOptions): number {
  const delays = cause === 'fault' ? [Math.min(FIRST_AFTER_FAULT, at(table, 0)), ...table] : table;
  return jittered(at(delays, failures - 1), random);
}

/** What a claim writes for the case that nobody lives to tell: JSON array of delays by the tries before, jittered. */
export function claimDelays({ table, random }: RetryOptions): { delays: string; last_delay: number } {
  return { delays: JSON.stringify(table.map((delay) => jittered(delay, random))), last_delay: table.length - 1 };
}

/** The longest wait after each try, the first one first: the table with its jitter. */
export function longestWaits(table: readonly number[]): number[] {
  return table.map((delay) => Math.ceil(delay * (1 + JITTER)));
}

function at(table: readonly number[], index: number): number {
  return table[Math.min(index, table.length - 1)] ?? FIRST_AFTER_FAULT;
}

function jittered(delay: number, random: Random): number {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random()));
}

/** What the database knows of a destination, and what a failure writes there. */
type Pause = Pick<DestinationRow, 'failures' | 'pauses' | 'paused_until' | 'line'>;

const PROVEN: Pause = { failures: 0, pauses: 0, paused_until: null, line: '' };

/**
 * What the worker remembers of a destination while something of it is claimed, and how its pauses grow: a failure after a
 * pause is a step of the retry table, one within a pause (new mail may probe) is none, so that a busy form does not turn a
 * short outage of its owner's server into a long silence.
 */
export class Destination {
  readonly name: string;
  /** Recipients that are claimed and not settled. */
  outstanding = 0;
  /** The last claim found more than a part of what it asked for: more may wait. */
  backlog = false;
  readonly turns = new RoundRobin();
  #pause = PROVEN;
  /** When a failure was last noted, on the monotonic clock. */
  #failedAt = -Infinity;

  constructor(name: string) {
    this.name = name;
  }

  get isFailing(): boolean {
    return this.#pause.failures > 0;
  }

  /** In which line it waits for connections (`destinations.line`). */
  get line(): string {
    return this.#pause.line;
  }

  /** Whether a server there has answered, and could be reached since. */
  get isProven(): boolean {
    return this.line === '';
  }

  /** When mail may go there again, if it is paused. */
  get pausedUntil(): number | undefined {
    return this.#pause.paused_until ?? undefined;
  }

  /** Takes over what the database knows: another daemon, or the operator, may have changed it. */
  read(row: DestinationRow | undefined): void {
    this.#pause = row ?? PROVEN;
  }

  /**
   * Notes that it cannot be reached with mail of the tenant. Answers the pause, or undefined where tries that ran side by side
   * have noted it already. A first failure is a short pause where others are to look, too.
   */
  fail(
    { began }: Unreachable,
    { now, monotonic, tenant, hasOthers }: { now: number; monotonic: number; tenant: string; hasOthers: boolean },
    retry: RetryOptions,
  ): (Pause & { readonly paused_until: number }) | undefined {
    const { failures, pauses, paused_until: until } = this.#pause;
    if (began <= this.#failedAt && until !== null) return undefined;
    this.#failedAt = monotonic;
    const line = `again:${tenant}`;
    if (hasOthers && failures === 0) {
      return (this.#pause = { failures: 1, pauses: 0, paused_until: now + OTHERS_LOOK_MS, line });
    }
    const isNew = until === null || until <= now;
    const pause = {
      failures: failures + 1,
      pauses: isNew ? pauses + 1 : pauses,
      paused_until: isNew ? now + retryDelay(pauses + 1, 'fault', retry) : until,
      line,
    };
    this.#pause = pause;
    return pause;
  }

  succeed(): void {
    this.#pause = PROVEN;
  }
}

// Turns: who is served next from a queue that is longer than one claim: other mail before bulk, of which a quarter goes on all the same;
// within each, tenants in turn, and of each tenant its flows (its forms, or kinds of mail) in turn.

/** How much one turn may claim. */
type LimitedTurn = Turn & { readonly limit: number };

/** Of each of the two, so many tenants have a turn at once. */
const MAX_TENANTS = 8;
/** Bulk has this part where other mail waits, too. */
const BULK_SHARE = 1 / 4;
const MAX_REMEMBERED = 1000;

/** The turns at one destination. */
class RoundRobin {
  /** Whose turn was last: of other mail, and of bulk. */
  readonly #tenants: [string, string] = ['', ''];
  /** Which flow had the last turn of its tenant. */
  readonly #flows = new LruMap<string>(MAX_REMEMBERED);

  /** The next turns, for `room` (at least 2) deliveries together. */
  async next(store: Store, destination: string, room: number): Promise<LimitedTurn[]> {
    const forBulk = Math.ceil(room * BULK_SHARE);
    const first = await this.#nextOf(0, { store, destination, most: room - forBulk });
    const bulk = await this.#nextOf(1, { store, destination, most: first.length === 0 ? room : forBulk });
    return [
      ...shared(first, bulk.length === 0 ? room : room - forBulk),
      ...shared(bulk, first.length === 0 ? room : forBulk),
    ];
  }

  async #nextOf(
    bulk: 0 | 1,
    { store, destination, most }: { store: Store; destination: string; most: number },
  ): Promise<Turn[]> {
    const limit = Math.min(MAX_TENANTS, most);
    const after = this.#tenants[bulk];
    const tenants = await tenantsWaiting(store, destination, { bulk, after, limit });
    if (tenants.length < limit && after !== '') {
      const more = await tenantsWaiting(store, destination, { bulk, after: '', limit: limit - tenants.length });
      tenants.push(...more.filter((tenant) => !tenants.includes(tenant)));
    }
    this.#tenants[bulk] = tenants.at(-1) ?? '';
    const turns = tenants.map(async (tenant): Promise<Turn[]> => {
      const key = `${bulk} ${tenant}`;
      const flow = await nextFlow(store, destination, { bulk, tenant, flow: this.#flows.get(key) ?? '' });
      if (flow === undefined) return [];
      this.#flows.set(key, flow);
      return [{ bulk, tenant, flow }];
    });
    return (await Promise.all(turns)).flat();
  }
}

function shared(turns: readonly Turn[], room: number): LimitedTurn[] {
  return turns.map((turn) => ({ ...turn, limit: Math.floor(room / turns.length) }));
}
