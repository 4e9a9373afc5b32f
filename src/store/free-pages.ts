/**
 * Gives pages of a SQLite file that are free after much was deleted back to the file system, in steps of which each is a commit of
 * milliseconds. Some stay, because what comes next needs them. A file that was made before this was so keeps all of them until
 * it is restored from a backup (restore.ts).
 */
import { sql } from 'kysely';
import { stepByStep } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { query, reader } from './statement.ts';
import { restOf, type Store } from './store.ts';

/** Pages of a step, 256 KiB, and steps of a run: a run is a matter of seconds. */
const STEP = 64;
const MAX_STEPS = 400;
/** Free pages that stay: so many at least (8 MiB), or this share of the file. */
const MIN_SPARE = 2048;
const SPARE_SHARE = 0.1;

const release = query<object>(() => sql`pragma incremental_vacuum(${sql.lit(STEP)})`);
const state = reader(
  () => sql<{
    free: number;
    pages: number;
    mode: number;
  }>`select freelist_count as free, page_count as pages, auto_vacuum as mode
    from pragma_freelist_count(), pragma_page_count(), pragma_auto_vacuum()`,
);
/** PRAGMA auto_vacuum. */
const INCREMENTAL = 2;

/** Releases what is free beyond the spare pages, or a part of it. A job to run from time to time. */
export async function releaseFreePages(store: Store, clock: Clock): Promise<void> {
  if (store.dialect !== 'sqlite') return;
  let left = MAX_STEPS;
  await stepByStep({ clock, rest: restOf(store) }, async () => {
    const [found] = await state(store);
    if (found === undefined || found.mode !== INCREMENTAL) return false;
    if (found.free <= Math.max(MIN_SPARE, found.pages * SPARE_SHARE)) return false;
    await store.write([release({})]);
    return --left > 0;
  });
}
