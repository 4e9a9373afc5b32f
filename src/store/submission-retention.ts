/**
 * Submissions that are old enough to go. One goes only when all mail about it is settled and every active webhook has been
 * told of it. Whether its mail is settled is asked again in the unit that removes it, so that a mail which is asked for
 * meanwhile keeps what it is made of.
 */
import { sql } from 'kysely';
import { listed, query } from './rows.ts';
import type { Statement } from './statement.ts';
import type { Store } from './store.ts';
import { isOrphan, isSettled, lockSubmissions } from './submissions.ts';

/** A form that has submissions, of one tenant. */
export interface Shelf {
  readonly tenant: string;
  readonly form: string;
}

const nextShelf = query<{ tenant: string; form: string }, Shelf>(
  (value) => sql`select tenant, form from submissions
    where (tenant, form) > (${value('tenant')}, ${value('form')}) order by tenant, form limit 1`,
);

/** The shelf after this one; undefined after the last. */
export async function shelfAfter(store: Store, { tenant, form }: Shelf): Promise<Shelf | undefined> {
  return (await store.select(nextShelf({ tenant, form })))[0];
}

const hasArrived = sql`exists (
  select 1 from messages join deliveries on deliveries.message = messages.id
  where messages.submission = submissions.id and messages.kind = 'notification'
    and deliveries.state in ('delivered', 'captured'))`;

/** Events are found a while after they were recorded (events/webhooks), and posted a while after that. */
const isTold = sql`not exists (
  select 1 from webhooks
  where webhooks.tenant = submissions.tenant and webhooks.status = 'active' and (
    webhooks.cursor <= submissions.created_at + 120000
    or exists (
      select 1 from events join deliveries on deliveries.event = events.id
      where events.tenant = submissions.tenant and events.created_at = submissions.created_at
        and events.submission = submissions.id
        and deliveries.webhook = webhooks.id and deliveries.settled_at is null)))`;

const old = query<Shelf & { after: string; before: string; unreached: string; limit: number }, { id: string }>(
  (value) => sql`select id from submissions
    where tenant = ${value('tenant')} and form = ${value('form')}
      and id > ${value('after')} and id < ${value('before')} and (id < ${value('unreached')} or ${hasArrived})
      and ${isSettled} and ${isTold}
    order by id limit ${value('limit')}`,
);
const files = query<{ ids: string }, { submission: string; id: string; size: number }>(
  (value, dialect) => sql`select submission, id, size from submission_files
    where submission in ${listed(value('ids'), dialect)}`,
);
const bodies = query<{ ids: string }, { submission: string; size: number }>(
  (value, dialect) => sql`select submission, size from messages
    where submission in ${listed(value('ids'), dialect)} and body <> 'dropped'`,
);

export interface OldSubmission {
  readonly id: string;
  readonly files: readonly string[];
  /** Of its files and of the bodies of its mail. */
  readonly bytes: number;
}

export interface OldOnes extends Shelf {
  /** Only those behind this one. */
  readonly after: string;
  /** Only those before this id; and of those that no recipient got, only those before `unreached`. */
  readonly before: string;
  readonly unreached: string;
  readonly limit: number;
}

/** Submissions of the shelf that may go, oldest first. */
export async function oldSubmissions(store: Store, which: OldOnes): Promise<OldSubmission[]> {
  const rows = await store.select(old(which));
  if (rows.length === 0) return [];
  const ids = JSON.stringify(rows.map(({ id }) => id));
  const [ofFiles, ofBodies] = await Promise.all([store.select(files({ ids })), store.select(bodies({ ids }))]);
  const filesBy = Map.groupBy(ofFiles, ({ submission }) => submission);
  const bodiesBy = Map.groupBy(ofBodies, ({ submission }) => submission);
  return rows.map(({ id }) => {
    const own = filesBy.get(id) ?? [];
    const bytes = [...own, ...(bodiesBy.get(id) ?? [])].reduce((sum, { size }) => sum + size, 0);
    return { id, files: own.map((file) => file.id), bytes };
  });
}

/** The rows of their files go with them. */
const removeSettled = query<{ ids: string }>(
  (value, dialect) => sql`delete from submissions where id in ${listed(value('ids'), dialect)} and ${isSettled}`,
);
const removeFiles = query<{ files: string }>(
  (value, dialect) => sql`delete from file_chunks where file in ${listed(value('files'), dialect)} and ${isOrphan}`,
);
const isGone = sql`not exists (select 1 from submissions where submissions.id = messages.submission)`;
const removeBodies = query<{ ids: string }>(
  (value, dialect) => sql`delete from message_chunks where message in (
    select id from messages where submission in ${listed(value('ids'), dialect)} and ${isGone})`,
);
const dropBodies = query<{ ids: string }>(
  (value, dialect) => sql`update messages set body = 'dropped'
    where submission in ${listed(value('ids'), dialect)} and body <> 'dropped' and ${isGone}`,
);

/** The unit that removes those of these submissions whose mail is settled still, their files and the bodies of their mail. */
export function removeOldSubmissions(those: readonly OldSubmission[]): Statement[] {
  const ids = JSON.stringify(those.map(({ id }) => id));
  return [
    lockSubmissions({ ids }),
    removeSettled({ ids }),
    removeFiles({ files: JSON.stringify(those.flatMap((each) => each.files)) }),
    removeBodies({ ids }),
    dropBodies({ ids }),
  ];
}
