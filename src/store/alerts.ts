/** Alerts to the operator: each cause has a name, and is mailed about once in a while, however many daemons notice it. */
import { sql } from 'kysely';
import { HELD, waiting } from './messages.ts';
import { query, reader } from './statement.ts';
import type { Store } from './store.ts';

/** The statement that notes the mail about this cause; it touches no row where there was one after `since`. */
export const noteAlert = query<{ name: string; now: number; since: number }>(
  (value) => sql`insert into alerts (name, mailed_at) values (${value('name')}, ${value('now')})
    on conflict (name) do update set mailed_at = excluded.mailed_at where alerts.mailed_at <= ${value('since')}`,
);

/** The statement that forgets mails before `before`. */
export const forgetAlerts = query<{ before: number }>(
  (value) => sql`delete from alerts where mailed_at <= ${value('before')}`,
);

/** The names of causes that were mailed about after `since`. */
export async function alertsSince(store: Store, since: number): Promise<ReadonlySet<string>> {
  return new Set((await recent(store, since)).map(({ name }) => name));
}

const recent = reader((since: number) => sql<{ name: string }>`select name from alerts where mailed_at > ${since}`);

export interface WaitingMail {
  readonly destination: string;
  readonly count: number;
  /** What one of its servers replied, or what kept us from asking. */
  readonly reply: string | null;
}

/** Destinations with the most mail that was accepted before `before` and is to be tried again, at most `limit`; what the operator holds is not. */
export const mailWaitingSince: (store: Store, before: number, limit: number) => Promise<WaitingMail[]> = reader(
  (before: number, limit: number) => sql<WaitingMail>`
    select destination, count(*) as count, max(last_reply) as reply from deliveries
    where ${waiting} and webhook is null and next_attempt_at < ${sql.lit(HELD)} and created_at <= ${before}
      and destination not in (select name from destinations where held = 1)
    group by destination order by count(*) desc, destination limit ${limit}`,
);
