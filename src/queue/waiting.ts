/**
 * How much waits for each destination. Nobody counts that as it happens, because each delivery would pay for it: it is counted when
 * somebody looks, from destination to destination in the index of what waits, a few at a time, and kept for a while, the longer the more it cost. Whoever asks
 * waits for a moment only, and then gets what is counted so far.
 */
import type { Clock } from '../lib/clock.ts';
import { waitingAfter, type WaitingCount } from '../store/waiting.ts';
import type { Store } from '../store/store.ts';

/** More than these are not counted of one destination. */
export const MAX_COUNTED = 10_000;
/** The destinations with the most. */
const MAX_KEPT = 1000;
const AT_ONCE = 100;
/** Of the time at most one part in so many is spent counting. */
const REST = 20;
const MAX_FRESH_MS = 10_000;
/** Whoever asks waits for so long at most. */
const PATIENCE_MS = 100;

export interface Waiting {
  /** The most first. */
  readonly destinations: readonly WaitingCount[];
  /** How many destinations something waits for. */
  readonly count: number;
  /** When counting began, ms. */
  readonly at: number;
  /** Whether all are counted. */
  readonly complete: boolean;
}

export interface WaitingMail {
  read(): Promise<Waiting>;
}

export function createWaitingMail({ store, clock }: { readonly store: Store; readonly clock: Clock }): WaitingMail {
  let last: Waiting | undefined;
  let freshUntil = -Infinity;
  let counting: Promise<void> | undefined;
  let partial: Waiting | undefined;

  async function count(): Promise<void> {
    const at = clock.now();
    const began = clock.monotonic();
    let destinations: WaitingCount[] = [];
    let known = 0;
    for (let after = ''; ;) {
      const some = await waitingAfter(store, { after, limit: AT_ONCE, most: MAX_COUNTED });
      known += some.length;
      destinations = [...destinations, ...some].sort(byCount).slice(0, MAX_KEPT);
      const isLast = some.length < AT_ONCE;
      partial = { destinations, count: known, at, complete: isLast };
      if (isLast) break;
      after = some.at(-1)?.name ?? '';
      // Others have their turn.
      await clock.sleep(0);
    }
    last = partial;
    const now = clock.monotonic();
    freshUntil = now + Math.min((now - began) * REST, MAX_FRESH_MS);
  }

  return {
    async read() {
      if (last !== undefined && clock.monotonic() < freshUntil) return last;
      counting ??= count().finally(() => (counting = undefined));
      await Promise.race([counting, clock.sleep(PATIENCE_MS)]);
      return last ?? partial ?? { destinations: [], count: 0, at: clock.now(), complete: false };
    },
  };
}

function byCount(a: WaitingCount, b: WaitingCount): number {
  return b.waiting - a.waiting || (a.name < b.name ? -1 : 1);
}
