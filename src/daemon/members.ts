/**
 * Which daemons on one PostgreSQL database live. Each counts in a row of its own; whoever has seen no count for eight seconds
 * takes it for dead. No clocks are compared: each judges by what it has seen itself, and judges nobody after a time in which it could
 * not see.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { beat, listMembers, removeMember } from '../store/members.ts';
import type { Store } from '../store/store.ts';
import type { MemberRow } from '../store/tables.ts';

export interface MembersOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Of this member; what it leases has the same owner. */
  readonly id: string;
  /** Its name for people. */
  readonly machine: string;
  readonly roles: readonly string[];
  /** Called with each member that is dead, until it succeeds. */
  readonly onDead?: (id: string) => Promise<void>;
}

export interface Members {
  /** How many living members have the role; at least one. */
  count(role: string): number;
  /** Whether another living member has the role, for all that is known; before anything is known, one may have. */
  hasOthers(role: string): boolean;
  /** What divides a limit on all members with the role among them: this one's part, at least 1. Undefined where there is one member. */
  share(role: string): ((limit: number) => number) | undefined;
  /** Whether no other member takes this one for dead within the next seconds; undefined where there is none. */
  readonly isSafe: (() => boolean) | undefined;
  close(): Promise<void>;
}

/** The role of a thread that delivers, a member of its own, which runs while there is something to deliver. Its daemon has the role `delivery`. */
export const DELIVERY_THREAD = 'delivery_thread';

const BEAT_EVERY_MS = 2000;
/** A member that has not counted for so long is dead. */
const DEAD_AFTER_MS = 8000;
/** So long after it last counted a member is surely not taken for dead. */
const SAFE_MS = 5000;
/** After a longer time between two looks nobody is judged by it. */
const MAX_GAP_MS = 6000;

/** Joins. On SQLite there is one member. */
export function joinMembers(options: MembersOptions): Members {
  const { store, clock, log, id, machine, roles, onDead } = options;
  if (store.dialect === 'sqlite') {
    return {
      count: () => 1,
      hasOthers: () => false,
      share: () => undefined,
      isSafe: undefined,
      close: () => Promise.resolve(),
    };
  }
  const stop = new AbortController();
  const watch = new MemberWatch();
  let countedAt = clock.monotonic();
  let isFailing = false;

  async function look(): Promise<void> {
    const began = clock.monotonic();
    await store.write([beat({ id, machine, roles: roles.join(' ') })]);
    countedAt = began;
    for (const dead of watch.see(await listMembers(store), clock.monotonic())) {
      if (dead.id === id || onDead === undefined) continue;
      log.warn('cluster.member_dead', { machine: dead.machine, roles: dead.roles });
      await onDead(dead.id);
    }
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        await look();
        isFailing = false;
      } catch (error) {
        watch.forget();
        if (!isFailing) log.warn('cluster.not_counted', errorFields(error));
        isFailing = true;
      }
      await clock.sleep(BEAT_EVERY_MS, stop.signal);
    }
  }

  const running = run();

  function count(role: string): number {
    return Math.max(1, watch.living.filter((member) => member.roles.split(' ').includes(role)).length);
  }

  return {
    count,
    hasOthers: (role) => watch.isBlind || count(role) > 1,
    share: (role) => (limit) => Math.max(1, Math.floor(limit / count(role))),
    isSafe: () => clock.monotonic() - countedAt < SAFE_MS,
    async close() {
      stop.abort();
      await running;
      // Otherwise the others notice it themselves.
      await store
        .write([removeMember({ id })])
        .catch((error: unknown) => log.warn('cluster.not_left', errorFields(error)));
    },
  };
}

/** What was seen of the members, on the monotonic clock. */
export class MemberWatch {
  #seen = new Map<string, { readonly row: MemberRow; readonly since: number }>();
  #dead = new Set<string>();
  #at = -Infinity;

  /** Those that were not dead when they were last seen. */
  get living(): readonly MemberRow[] {
    return [...this.#seen.values()].flatMap(({ row }) => (this.#dead.has(row.id) ? [] : [row]));
  }

  /** Whether nothing has been seen, or nothing lately. */
  get isBlind(): boolean {
    return this.#at === -Infinity;
  }

  /** Takes in what is there now. Answers who is dead. */
  see(rows: readonly MemberRow[], now: number): MemberRow[] {
    const isGap = now - this.#at > MAX_GAP_MS;
    this.#at = now;
    const before = this.#seen;
    this.#seen = new Map(
      rows.map((row) => {
        const known = before.get(row.id);
        return [row.id, known?.row.beat === row.beat && !isGap ? known : { row, since: now }];
      }),
    );
    const dead = rows.filter(({ id }) => now - (this.#seen.get(id)?.since ?? now) >= DEAD_AFTER_MS);
    this.#dead = new Set(dead.map(({ id }) => id));
    return dead;
  }

  /** Nothing was seen for a while: who did not count meanwhile may live. */
  forget(): void {
    this.#at = -Infinity;
  }
}
