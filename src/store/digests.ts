/**
 * What digests tell of: submissions that are kept as spam and notifications that failed, in a span of time; and up to when
 * each project was told.
 */
import { sql } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { deleteFrom, finder, insertInto, listed, query, reader } from './statement.ts';
import type { Store } from './store.ts';

/** Up to when the digests of the project tell what happened; undefined where there was none yet. */
export const findDigest = finder('digests', 'tenant', 'project');

/** The statement that begins with the digests of a project; it touches no row where they have begun. */
export const beginDigests = insertInto('digests', sql`on conflict do nothing`);

/** The statement that goes on from `from` to `until`; with `expect` 1 its unit fails where another daemon has. */
export const moveDigest = query<{ tenant: string; project: string; from: number; until: number }>(
  (value) => sql`update digests set until = ${value('until')}
    where tenant = ${value('tenant')} and project = ${value('project')} and until = ${value('from')}`,
);

/** The statement that ends the digests of a project. */
export const endDigests = deleteFrom('digests', 'tenant', 'project');

/** The forms of a project, and a span of time (ms). */
export interface Span {
  readonly tenant: string;
  readonly forms: readonly string[];
  readonly since: number;
  /** Before this. */
  readonly until: number;
}

/** What was mailed once was marked by its owner, who need not be told. */
const quarantined = sql`status = 'spam' and not exists (
  select 1 from messages where messages.submission = submissions.id and messages.kind = 'notification')`;

const quarantinedAmong = reader(
  (tenant: string, forms: readonly string[], first: string, last: string, limit: number) => sql<{ id: string }>`
    select id from submissions
    where tenant = ${tenant} and form in ${listed(forms)} and id >= ${first} and id < ${last} and ${quarantined}
    order by spam_score, id limit ${limit}`,
);
const countAmong = reader(
  (tenant: string, forms: readonly string[], first: string, last: string) => sql<{ count: number }>`
    select count(*) as count from submissions
    where tenant = ${tenant} and form in ${listed(forms)} and id >= ${first} and id < ${last} and ${quarantined}`,
);

/** The submissions that are kept as spam, those first that are the least likely to be. */
export async function quarantinedIds(
  store: Store,
  { tenant, forms, since, until }: Span,
  limit: number,
): Promise<string[]> {
  const rows = await quarantinedAmong(store, tenant, forms, firstId('sub', since), firstId('sub', until), limit);
  return rows.map(({ id }) => id);
}

/** How many there are. */
export async function countQuarantined(store: Store, { tenant, forms, since, until }: Span): Promise<number> {
  const [row] = await countAmong(store, tenant, forms, firstId('sub', since), firstId('sub', until));
  return row?.count ?? 0;
}

/** Notifications of a form that one recipient never got. */
export interface FailedNotifications {
  readonly form: string;
  readonly recipient: string;
  readonly count: number;
  /** What was said of one of them. */
  readonly reply: string | null;
}

/** Longer than any mail waits, ms. */
const MAX_AGE_MS = 60 * 86_400_000;

const failedAmong = reader(
  (tenant: string, forms: readonly string[], since: number, until: number, first: string, limit: number) =>
    sql<FailedNotifications>`select submissions.form, deliveries.recipient, count(*) as count,
      max(deliveries.last_reply) as reply
    from deliveries
      join messages on messages.id = deliveries.message and messages.kind = 'notification'
      join submissions on submissions.id = messages.submission and submissions.form in ${listed(forms)}
    where deliveries.state in ('bounced', 'expired') and deliveries.state <> 'delivered'
      and deliveries.id >= ${first} and deliveries.tenant = ${tenant}
      and deliveries.settled_at >= ${since} and deliveries.settled_at < ${until}
    group by submissions.form, deliveries.recipient
    order by count desc, submissions.form, deliveries.recipient limit ${limit}`,
);

/** The notifications that ended without being delivered, by form and recipient. */
export function failedNotifications(
  store: Store,
  { tenant, forms, since, until }: Span,
  limit: number,
): Promise<FailedNotifications[]> {
  const first = firstId('dlv', Math.max(0, since - MAX_AGE_MS));
  return failedAmong(store, tenant, forms, since, until, first, limit);
}
