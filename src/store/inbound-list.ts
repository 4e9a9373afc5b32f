/**
 * Mail that came in for an account as a list: newest first, page by page. One call looks at a bounded number of rows: where
 * a filter lets few through, a page may hold few or none, and `next` goes on where the search ended.
 */
import { sql, type RawBuilder } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { listed, listerAmong, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { InboundLogRow, MessageRow } from './tables.ts';

export interface InboundListFilter {
  readonly tenant: string;
  /** Only mail for these domains. */
  readonly domains?: readonly string[] | undefined;
  readonly outcome?: InboundLogRow['outcome'] | undefined;
  readonly reason?: string | undefined;
  /** In lower case. */
  readonly recipient?: string | undefined;
  /** The same. */
  readonly sender?: string | undefined;
  /** From this moment on, ms. */
  readonly from?: number | undefined;
  /** Before this moment, ms. */
  readonly until?: number | undefined;
}

const MAX_EXAMINED = 10_000;
const MAX_COUNT = 10_000;

/** One page. */
export async function listInbound(
  store: Store,
  filter: InboundListFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<{ readonly rows: readonly InboundLogRow[]; readonly next: string | null }> {
  const { where, end } = await span(store, filter, before);
  const { rows } = await sql<InboundLogRow>`select * from inbound_log where ${where}
    order by id desc limit ${limit + 1}`.execute(store.read);
  if (rows.length > limit) return { rows: rows.slice(0, limit), next: rows[limit - 1]?.id ?? null };
  return { rows, next: end === floorOf(filter) ? null : end };
}

/** How many there are, up to a bound; `more`: there are, or may be, more. */
export async function countInbound(
  store: Store,
  filter: InboundListFilter,
): Promise<{ readonly count: number; readonly more: boolean }> {
  const { where, end } = await span(store, filter);
  const { rows } = await sql<{ count: number }>`select count(*) as count
    from (select id from inbound_log where ${where} limit ${MAX_COUNT + 1}) as found`.execute(store.read);
  const count = rows[0]?.count ?? 0;
  return { count: Math.min(count, MAX_COUNT), more: count > MAX_COUNT || end !== floorOf(filter) };
}

function floorOf({ from }: InboundListFilter): string {
  return from === undefined ? '' : firstId('inl', from);
}

/** What one call looks at: the condition, and the oldest id among it. */
async function span(
  store: Store,
  filter: InboundListFilter,
  before?: string,
): Promise<{ readonly where: RawBuilder<unknown>; readonly end: string }> {
  const { tenant, recipient, outcome, until } = filter;
  const floor = floorOf(filter);
  const walked = [
    sql`tenant = ${tenant}`,
    ...(recipient === undefined ? [] : [sql`lower(recipient) = ${recipient}`]),
    // Written as the partial index has it.
    ...(recipient === undefined && outcome !== undefined && outcome !== 'accepted'
      ? [sql`outcome = ${outcome} and outcome <> 'accepted'`]
      : []),
    ...(before === undefined ? [] : [sql`id < ${before}`]),
    ...(until === undefined ? [] : [sql`id < ${firstId('inl', until)}`]),
  ];
  const rest = restOf(filter);
  const among = sql.join(walked, sql` and `);
  const [last] =
    rest.length === 0
      ? []
      : (
          await sql<{ id: string }>`select id from inbound_log where ${among} and id >= ${floor}
            order by id desc limit 1 offset ${MAX_EXAMINED - 1}`.execute(store.read)
        ).rows;
  const end = last?.id ?? floor;
  return { where: sql.join([...walked, sql`id >= ${end}`, ...rest], sql` and `), end };
}

function restOf({ domains, reason, sender, outcome, recipient }: InboundListFilter): RawBuilder<unknown>[] {
  return [
    ...(domains === undefined ? [] : [sql`domain in (${sql.join([...domains, ''])})`]),
    ...(reason === undefined ? [] : [sql`reason = ${reason}`]),
    ...(sender === undefined ? [] : [sql`lower(sender) = ${sender}`]),
    ...(outcome === undefined || (recipient === undefined && outcome !== 'accepted')
      ? []
      : [sql`outcome = ${outcome}`]),
  ];
}

/** These messages that came in. */
export const inboundByIds = listerAmong('inbound', 'id');

const owned = reader(
  (tenant: string, ids: readonly string[]) => sql<Pick<MessageRow, 'id'>>`select id from messages
    where id in ${listed(ids)} and tenant = ${tenant}`,
);

/** Those of these messages that are the account's: what came in for several accounts became messages of each. */
export async function ownedMessages(store: Store, tenant: string, ids: readonly string[]): Promise<Set<string>> {
  return new Set((await owned(store, tenant, ids)).map(({ id }) => id));
}
