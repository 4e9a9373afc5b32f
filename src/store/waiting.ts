/** What waits for each destination, out of the index of what waits: one step from destination to destination, however much waits. */
import { sql } from 'kysely';
import { HELD, waiting } from './messages.ts';
import { listed, query, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { DestinationRow } from './tables.ts';

export interface WaitingCount {
  readonly name: string;
  /** Up to the most that was asked for. */
  readonly waiting: number;
}

interface After {
  readonly after: string;
  readonly limit: number;
  /** Of one destination no more are counted. */
  readonly most: number;
}

const next = sql`(select min(destination) from deliveries where ${waiting} and destination > place.name)`;

const counts = query<After, WaitingCount>(
  (value) => sql`with recursive place (name, number) as (
      select (select min(destination) from deliveries where ${waiting} and destination > ${value('after')}), 1
      union all
      select ${next}, number + 1 from place where place.name is not null and number < ${value('limit')}
    )
    select name, (select count(*) from (select 1 as one from deliveries
      where destination = place.name and ${waiting} limit ${value('most')}) as counted) as waiting
    from place where name is not null order by name`,
);

/** The destinations behind this one for which something waits, by name. */
export function waitingAfter(store: Store, place: After): Promise<WaitingCount[]> {
  return store.select(counts(place));
}

type Among = { names: readonly string[]; most: number };

const among = query<Among, WaitingCount>(
  (value) => sql`select name, (select count(*) from (select 1 as one from deliveries
      where destination = destinations.name and ${waiting} limit ${value('most')}) as counted) as waiting
    from destinations where name in ${listed(value('names'))}`,
);

/** The same of these. */
export async function waitingOf(store: Store, { names, most }: Among): Promise<WaitingCount[]> {
  return names.length === 0 ? [] : store.select(among({ names, most }));
}

/** Of those that are due first so many are looked at for the oldest. */
const LOOKED_AT = 100;

export type WaitingDetail = Pick<DestinationRow, 'name' | 'held' | 'failures' | 'paused_until' | 'last_error'> & {
  /** When the oldest of those that are due first was accepted. */
  readonly oldest: number | null;
  /** When the first of them is due; null where all are held, or wait for their recipients to agree. */
  readonly next: number | null;
  readonly last_reply: string | null;
};

/** What is known of these destinations. */
export const waitingDetails = reader(
  (names: readonly string[]) => sql<WaitingDetail>`
    select name, held, failures, paused_until, last_error,
      (select min(created_at) from (select created_at from deliveries where destination = destinations.name and ${waiting}
        order by next_attempt_at limit ${sql.lit(LOOKED_AT)}) as first) as oldest,
      (select next_attempt_at from deliveries where destination = destinations.name and ${waiting}
        and next_attempt_at is not null and next_attempt_at < ${sql.lit(HELD)}
        order by next_attempt_at limit 1) as next,
      (select last_reply from (select last_reply, next_attempt_at from deliveries
        where destination = destinations.name and ${waiting}
        order by next_attempt_at desc limit ${sql.lit(LOOKED_AT)}) as last
        where last_reply is not null order by next_attempt_at desc limit 1) as last_reply
    from destinations where name in ${listed(names)}`,
);
