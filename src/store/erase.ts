/**
 * What is kept of a person, by mail address: found stretch by stretch, because an address is in no index, and deleted in
 * units that leave alone what is being sent just then.
 */
import { sql, type RawBuilder } from 'kysely';
import { firstId, lastId } from '../lib/ids.ts';
import { deleteAmong, deleteFrom, listed, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { ConsentRow, DeliveryRow, InboundLogRow, SubmissionRow, SuppressionRow, Tables } from './tables.ts';

export interface Stretch {
  /** Of one tenant; undefined: of all. */
  readonly tenant: string | undefined;
  /** The domains that an address of the person may have. */
  readonly domains: readonly string[];
  /** Behind this id. */
  readonly after: string;
  /** So many rows are looked at. */
  readonly size: number;
}

/** Rows that may be about the person, and where to go on (empty at the end). */
export interface Found<Row> {
  readonly rows: readonly Row[];
  readonly next: string;
}

/** With the kind of their ids that sorts last. */
const KINDS = { submissions: 'sub', deliveries: 'whd', inbound_log: 'inl' } as const;

type Walked = keyof typeof KINDS;

async function walk<T extends Walked>(
  store: Store,
  table: T,
  { stretch, texts }: { readonly stretch: Stretch; readonly texts: readonly (keyof Tables[T] & string)[] },
): Promise<Found<Tables[T]>> {
  const { tenant, domains, after, size } = stretch;
  const from = sql.table(table);
  const [end] = (
    await sql<{
      id: string;
    }>`select id from ${from} where id > ${after} order by id limit 1 offset ${size - 1}`.execute(store.read)
  ).rows;
  const next = end?.id ?? '';
  const owned = tenant === undefined ? sql`` : sql`and tenant = ${tenant}`;
  const named = domains.flatMap((domain) => texts.map((text) => holds(sql.ref(text), domain, store)));
  const { rows } = await sql<Tables[T]>`select * from ${from}
    where id > ${after} and id <= ${next === '' ? lastId(KINDS[table]) : next} ${owned} and (${sql.join(named, sql` or `)})
    order by id`.execute(store.read);
  return { rows, next };
}

function holds(text: RawBuilder<unknown>, domain: string, { dialect }: Store): RawBuilder<boolean> {
  const pattern = `%@${domain.replaceAll(/[\\%_]/g, '\\$&')}%`;
  return dialect === 'sqlite'
    ? sql<boolean>`${text} like ${pattern} escape '\\'`
    : sql<boolean>`${text} ilike ${pattern} escape '\\'`;
}

/** Submissions with such an address in a field or control field. */
export function submissionsNaming(store: Store, stretch: Stretch): Promise<Found<SubmissionRow>> {
  return walk(store, 'submissions', { stretch, texts: ['fields', 'control'] });
}

/** Deliveries of mail to such an address. */
export function deliveriesNaming(store: Store, stretch: Stretch): Promise<Found<DeliveryRow>> {
  return walk(store, 'deliveries', { stretch, texts: ['recipient'] });
}

/** What was said of mail from or to such an address. */
export function inboundNaming(store: Store, stretch: Stretch): Promise<Found<InboundLogRow>> {
  return walk(store, 'inbound_log', { stretch, texts: ['sender', 'recipient'] });
}

const isUnsettled = sql`exists (select 1 from deliveries
  where deliveries.message = messages.id and deliveries.state in ('queued', 'sending', 'deferred'))`;

/** The statement that forgets those of these messages that are settled, with their deliveries. */
export const forgetSettled = query<{ ids: readonly string[] }>(
  (value) => sql`delete from messages where id in ${listed(value('ids'))} and not ${isUnsettled}`,
);

/** The statement that forgets the messages about those of these submissions that are gone. */
export const forgetMessagesOfGone = query<{ ids: readonly string[] }>(
  (value) => sql`delete from messages where submission in ${listed(value('ids'))}
    and not exists (select 1 from submissions where submissions.id = messages.submission)`,
);

/** The statement that forgets those of these events whose submission or message is gone. */
export const forgetEventsOfGone = query<{ ids: readonly string[] }>(
  (value) => sql`delete from events where id in ${listed(value('ids'))} and (
    (submission is not null and not exists (select 1 from submissions where submissions.id = events.submission))
    or (message is not null and not exists (select 1 from messages where messages.id = events.message)))`,
);

interface LogEntry {
  readonly tenant: string;
  readonly sender: string;
  readonly recipient: string;
  readonly created_at: number;
}

/**
 * The statement that forgets the event of an entry of the log of inbound mail, which has its moment and holds both its
 * addresses. Entries of nobody have none.
 */
export function forgetInboundEvents({ tenant, sender, recipient, created_at: at }: LogEntry): Statement {
  return ofEntry({ tenant, sender, recipient, at, first: firstId('evt', at), end: firstId('evt', at + 1) });
}

const ofEntry = query<{
  tenant: string;
  sender: string;
  recipient: string;
  at: number;
  first: string;
  end: string;
}>((value, dialect) => {
  function member(name: string) {
    return dialect === 'sqlite'
      ? sql`json_extract(data, ${sql.lit(`$.${name}`)})`
      : sql`(data::json ->> ${sql.lit(name)})`;
  }
  return sql`delete from events where tenant = ${value('tenant')} and created_at = ${value('at')}
      and id >= ${value('first')} and id < ${value('end')} and type in ('inbound.accepted', 'inbound.rejected')
      and ${member('from')} = ${value('sender')} and ${member('to')} = ${value('recipient')}`;
});

export const forgetTokensAbout = deleteAmong('tokens', 'subject');
export const forgetLogEntries = deleteAmong('inbound_log', 'id');
export const forgetBouncesIn = deleteAmong('bounces', 'inbound');
export const forgetBouncesOf = deleteAmong('bounces', 'message');

/** Those of these submissions that are there. */
export const submissionsLeft = reader(
  (ids: readonly string[]) => sql<{ id: string }>`select id from submissions where id in ${listed(ids)}`,
);

function ofTenant(tenant: string) {
  return sql`(tenant = ${tenant} or ${tenant} = '')`;
}

/** The entries of these addresses on suppression lists, of one tenant or (empty) of all. */
export const suppressionsAmong = reader(
  (addresses: readonly string[], tenant: string) => sql<SuppressionRow>`select * from suppressions
    where address in ${listed(addresses)} and ${ofTenant(tenant)}`,
);

/** What these addresses agreed to, or were asked. */
export const consentsAmong = reader(
  (addresses: readonly string[], tenant: string) => sql<ConsentRow>`select * from consents
    where address in ${listed(addresses)} and ${ofTenant(tenant)}`,
);

/** When this mailbox was last sent an acknowledgment. */
export const acknowledgedAmong = reader(
  (mailbox: string, tenant: string) => sql<Tables['acknowledged']>`select * from acknowledged
    where address = ${mailbox} and ${ofTenant(tenant)}`,
);

export const forgetConsent = deleteFrom('consents', 'tenant', 'address');
export const forgetAcknowledgment = deleteFrom('acknowledged', 'tenant', 'address');
export const forgetSuppression = deleteFrom('suppressions', 'tenant', 'address');
