/** Counts per bucket and slice of time: the memory of the sliding windows. */
import { sql, type Kysely } from 'kysely';
import { define, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { Tables, LimitRow } from './tables.ts';

/** The statement that writes what one slice has counted so far. */
export const saveSlice = define<LimitRow>()((db, value) =>
  db
    .insertInto('limits')
    .values({ bucket: value('bucket'), starts_at: value('starts_at'), count: value('count') })
    .onConflict((conflict) => conflict.columns(['bucket', 'starts_at']).doUpdateSet({ count: value('count') })),
);

/** The statement that forgets the bucket's slices that began at `until` or earlier. */
export const dropSlices = define<{ bucket: string; until: number }>()((db, value) =>
  db.deleteFrom('limits').where('bucket', '=', value('bucket')).where('starts_at', '<=', value('until')),
);

/** The statement that forgets all slices that began before `before`. */
export const dropOldSlices = define<{ before: number }>()((db, value) =>
  db.deleteFrom('limits').where('starts_at', '<', value('before')),
);

interface Take {
  bucket: string;
  /** The slice that is now. */
  slice: number;
  /** Slices that began at this time or earlier have left the window. */
  since: number;
  max: number;
}

/**
 * PostgreSQL alone, where units run beside each other: the statement that keeps the bucket for this unit. A row lock would
 * not do: at the turn of a slice there is no row yet.
 */
export const lockBucket = define<{ bucket: string }>()((db, value) =>
  db.selectNoFrom(sql`pg_advisory_xact_lock(hashtextextended(${value('bucket')}, 0))`.as('locked')),
);

/** The statement that counts one more in the current slice, or touches no row where the window holds `max` already. */
export const takeSlice = define<Take>()((db, value) =>
  db
    .insertInto('limits')
    .columns(['bucket', 'starts_at', 'count'])
    .expression(
      db
        .selectNoFrom((eb) => [
          eb.cast<string>(eb.val(value('bucket')), 'text').as('bucket'),
          eb.cast<number>(eb.val(value('slice')), 'bigint').as('starts_at'),
          eb.cast<number>(eb.lit(1), 'bigint').as('count'),
        ])
        .where((eb) => eb(others(db, value), '<', value('max'))),
    )
    .onConflict((conflict) =>
      conflict
        .columns(['bucket', 'starts_at'])
        .doUpdateSet((eb) => ({ count: eb('limits.count', '+', 1) }))
        .where((eb) => eb(eb('limits.count', '+', others(db, value)), '<', value('max'))),
    ),
);

/** What the window holds in slices other than the current one. */
function others(db: Kysely<Tables>, value: Placeholders<Take>) {
  return db
    .selectFrom('limits as other')
    .where('other.bucket', '=', value('bucket'))
    .where('other.starts_at', '>', value('since'))
    .where('other.starts_at', '<>', value('slice'))
    .select((eb) => eb.cast<number>(eb.fn.coalesce(eb.fn.sum('other.count'), eb.lit(0)), 'bigint').as('sum'));
}

/** The statement that takes one back from the slice. */
export const untakeSlice = define<{ bucket: string; slice: number }>()((db, value) =>
  db
    .updateTable('limits')
    .set((eb) => ({ count: eb('count', '-', 1) }))
    .where('bucket', '=', value('bucket'))
    .where('starts_at', '=', value('slice'))
    .where('count', '>', 0),
);

/** The slices of a bucket that are in the window, oldest first. */
export const slicesOf = define<{ bucket: string; since: number }>()((db, value) =>
  db
    .selectFrom('limits')
    .select(['starts_at', 'count'])
    .where('bucket', '=', value('bucket'))
    .where('starts_at', '>', value('since'))
    .orderBy('starts_at'),
);

const all = define<object>()((db) => db.selectFrom('limits').selectAll().orderBy('bucket').orderBy('starts_at'));

/** Every slice that is known, per bucket oldest first. */
export function allSlices(store: Store): Promise<LimitRow[]> {
  return store.select(all({}));
}
