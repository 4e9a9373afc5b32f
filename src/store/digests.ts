/**
 * What digests tell of: submissions that are kept as spam and notifications that failed, in a span of time; and up to when
 * each project was told.
 */
import { sql } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { deleteFrom, finder, insertInto, listed, query, type Placeholders } from './statement.ts';
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
const quarantined = sql`status = 'spam' and unread in (0, 1) and has_files in (0, 1) and not exists (
  select 1 from messages where messages.submission = submissions.id and messages.kind = 'notification')`;

interface Range {
  tenant: string;
  forms: readonly string[];
  first: string;
  last: string;
}

function inRange(value: Placeholders<Range>) {
  return sql`tenant = ${value('tenant')} and form in ${listed(value('forms'))}
    and id >= ${value('first')} and id < ${value('last')} and ${quarantined}`;
}

const quarantinedAmong = query<Range & { limit: number }, { id: string }>(
  (value) => sql`select id from submissions where ${inRange(value)} order by spam_score, id limit ${value('limit')}`,
);
const countAmong = query<Range, { count: number }>(
  (value) => sql`select count(*) as count from submissions where ${inRange(value)}`,
);

function rangeOf({ tenant, forms, since, until }: Span): Range {
  return { tenant, forms, first: firstId('sub', since), last: firstId('sub', until) };
}

/** The submissions that are kept as spam, those first that are the least likely to be. */
export async function quarantinedIds(store: Store, span: Span, limit: number): Promise<string[]> {
  const rows = await store.select(quarantinedAmong({ ...rangeOf(span), limit }));
  return rows.map(({ id }) => id);
}

/** How many there are. */
export async function countQuarantined(store: Store, span: Span): Promise<number> {
  const [row] = await store.select(countAmong(rangeOf(span)));
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

const failedAmong = query<Omit<Range, 'last'> & { since: number; until: number; limit: number }, FailedNotifications>(
  (value) => sql`select submissions.form, deliveries.recipient, count(*) as count, max(deliveries.last_reply) as reply
    from deliveries
      join messages on messages.id = deliveries.message and messages.kind = 'notification'
      join submissions on submissions.id = messages.submission and submissions.form in ${listed(value('forms'))}
    where deliveries.state in ('bounced', 'expired') and deliveries.state <> 'delivered'
      and deliveries.id >= ${value('first')} and deliveries.tenant = ${value('tenant')}
      and deliveries.settled_at >= ${value('since')} and deliveries.settled_at < ${value('until')}
    group by submissions.form, deliveries.recipient
    order by count desc, submissions.form, deliveries.recipient limit ${value('limit')}`,
);

/** The notifications that ended without being delivered, by form and recipient. */
export function failedNotifications(
  store: Store,
  { tenant, forms, since, until }: Span,
  limit: number,
): Promise<FailedNotifications[]> {
  const first = firstId('dlv', Math.max(0, since - MAX_AGE_MS));
  return store.select(failedAmong({ tenant, forms, since, until, first, limit }));
}
