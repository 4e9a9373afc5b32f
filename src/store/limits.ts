/** Counts per bucket and slice of time: the memory of the sliding windows. */
import { sql } from 'kysely';
import { insertInto, lister, query, type Placeholders } from './statement.ts';
import type { LimitRow } from './tables.ts';

/** The statement that writes what one slice has counted so far. */
export const saveSlice = insertInto(
  'limits',
  sql`on conflict (bucket, starts_at) do update set count = excluded.count`,
);

/** The statement that forgets the slices of buckets whose name is like `of` that began at `before` or earlier. */
export const dropOldSlices = query<{ of: string; before: number }>(
  (value) => sql`delete from limits where bucket like ${value('of')} and starts_at <= ${value('before')}`,
);

/** PostgreSQL alone: the statement that adds to a slice what one of several daemons has counted, or takes it back. */
export const addToSlice = query<{ bucket: string; starts_at: number; count: number }>(
  (value) => sql`insert into limits (bucket, starts_at, count)
    values (${value('bucket')}, ${value('starts_at')}, greatest(${value('count')}::bigint, 0))
    on conflict (bucket, starts_at) do update set count = greatest(limits.count + ${value('count')}::bigint, 0)`,
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
export const lockBucket = query<{ bucket: string }>(
  (value) => sql`select pg_advisory_xact_lock(hashtextextended(${value('bucket')}, 0))`,
);

/** The statement that counts one more in the current slice, or touches no row where the window holds `max` already. */
export const takeSlice = query<Take>(
  (value) => sql`insert into limits (bucket, starts_at, count)
    select cast(${value('bucket')} as text), cast(${value('slice')} as bigint), 1
    where ${others(value)} < ${value('max')}
    on conflict (bucket, starts_at) do update set count = limits.count + 1
      where limits.count + ${others(value)} < ${value('max')}`,
);

/** What the window holds in slices other than the current one. */
function others(value: Placeholders<Take>) {
  return sql`(select cast(coalesce(sum(other.count), 0) as bigint) from limits as other
    where other.bucket = ${value('bucket')} and other.starts_at > ${value('since')}
      and other.starts_at <> ${value('slice')})`;
}

/** The slices of a bucket that are in the window, oldest first. */
export const slicesOf = query<{ bucket: string; since: number }, Pick<LimitRow, 'starts_at' | 'count'>>(
  (value) => sql`select starts_at, count from limits
    where bucket = ${value('bucket')} and starts_at > ${value('since')} order by starts_at`,
);

/** Every slice that is known, per bucket oldest first. */
export const allSlices = lister('limits', [], sql`order by bucket, starts_at`);
