/**
 * The end of an account. What it was is deleted stretch by stretch: each statement may be repeated, and none takes long,
 * however much there is.
 */
import { sql } from 'kysely';
import { lastId, testPartitionOf } from '../lib/ids.ts';
import { finder, insertInto, lister, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import { unsettled } from './messages.ts';
import type { AccountDeletionRow } from './tables.ts';

const insert = insertInto('account_deletions', sql`on conflict (tenant) do nothing`);

/** The statement that notes that an account is to go; its unit fails with UnmetError where that was noted before. */
export function insertDeletion(row: AccountDeletionRow): Statement {
  return insert(row, 1);
}

/** The deletion of this account, or undefined. */
export const findDeletion = finder('account_deletions', 'tenant');

/** All that have not ended, oldest first. */
export const allDeletions = lister('account_deletions', [], sql`order by created_at, tenant`);

type Own = { tenant: string; test: string };

/** A statement about what the account has, its test partition included. */
function own(build: (is: ReturnType<typeof isOwn>) => ReturnType<typeof sql>) {
  const statement = query<Own>((value) => build(isOwn(value('tenant'), value('test'))) as never);
  return (tenant: string): Statement => statement({ tenant, test: testPartitionOf(tenant) });
}

function isOwn(tenant: string, test: string) {
  return sql<boolean>`tenant in (${tenant}, ${test})`;
}

const revokeKeys = query<Own & { at: number }>(
  (value) => sql`update api_keys set revoked_at = ${value('at')}
    where ${isOwn(value('tenant'), value('test'))} and revoked_at is null`,
);
const dropProjects = own((is) => sql`delete from projects where ${is}`);
const releaseDomains = own(
  (is) => sql`update domains set project = '', status = 'pending', broken_at = null where ${is} and project <> ''`,
);
const dropSessions = own((is) => sql`delete from sessions where ${is}`);
const dropLinks = own((is) => sql`delete from sign_in_links where ${is}`);
const dropWebhooks = own((is) => sql`delete from webhooks where ${is}`);

/**
 * The statements that end what an account may do: API keys, projects, domains, webhooks and sessions. DKIM keys, forms and revisions
 * stay, for mail that is queued.
 */
export function endAccount(tenant: string, at: number): Statement[] {
  return [
    revokeKeys({ tenant, test: testPartitionOf(tenant), at }),
    dropProjects(tenant),
    releaseDomains(tenant),
    dropWebhooks(tenant),
    dropSessions(tenant),
    dropLinks(tenant),
  ];
}

const open = reader(
  (tenant: string, test: string) => sql<{ id: string }>`select id from deliveries
    where ${isOwn(tenant, test)} and state in ('queued', 'deferred', 'sending') and ${unsettled} limit 1`,
);

/** Whether something of the account is still to be delivered. */
export async function hasOpenDeliveries(store: Store, tenant: string): Promise<boolean> {
  return (await open(store, tenant, testPartitionOf(tenant))).length > 0;
}

/** Tables with ids whose rows are many. */
const LONG = ['messages', 'submissions', 'events', 'inbound_log'] as const;

type Long = (typeof LONG)[number];

const KINDS = { messages: 'msg', submissions: 'sub', events: 'evt', inbound_log: 'inl' } as const;

/** Where to go on. */
export interface Stretch {
  readonly table: Long;
  /** Behind this id. */
  readonly after: string;
}

const SIZE = 200;

/** What a submission's files are made of goes with it. */
const dropChunks = query<Own & { after: string; until: string }>(
  (value) => sql`delete from file_chunks where file in (
    select submission_files.id from submission_files join submissions on submissions.id = submission_files.submission
    where submissions.id > ${value('after')} and submissions.id <= ${value('until')}
      and ${isOwn(value('tenant'), value('test'))})`,
);
const dropStretch = new Map(
  LONG.map((table) => [
    table,
    query<Own & { after: string; until: string }>(
      (value) => sql`delete from ${sql.table(table)} where id > ${value('after')} and id <= ${value('until')}
        and ${isOwn(value('tenant'), value('test'))}`,
    ),
  ]),
);

/** The first stretch of all that is deleted. */
export const FIRST_STRETCH: Stretch = { table: LONG[0], after: '' };

/** Deletes what the account has among the next rows of the table, and answers where to go on; undefined at the end of the last table. */
export async function deleteStretch(store: Store, tenant: string, stretch: Stretch): Promise<Stretch | undefined> {
  const { table, after } = stretch;
  const { rows } = await sql<{ id: string }>`select id from ${sql.table(table)} where id > ${after}
    order by id limit 1 offset ${sql.lit(SIZE - 1)}`.execute(store.read);
  const until = rows[0]?.id;
  const values = { tenant, test: testPartitionOf(tenant), after, until: until ?? lastId(KINDS[table]) };
  const drop = dropStretch.get(table);
  await store.write([
    ...(table === 'submissions' ? [dropChunks(values)] : []),
    ...(drop === undefined ? [] : [drop(values)]),
  ]);
  if (until !== undefined) return { table, after: until };
  const next = LONG[LONG.indexOf(table) + 1];
  return next === undefined ? undefined : { table: next, after: '' };
}

/** Tables of which an account has few rows. */
const SHORT = [
  'spam_learned',
  'config_revisions',
  'domains',
  'dkim_keys',
  'suppressions',
  'digests',
  'acknowledged',
  'api_keys',
  'usage',
  'event_counts',
  'message_counts',
  'form_overflows',
  'forms',
  'collections',
  'tokens',
  'consents',
  'received_reports',
  'dmarc_results',
  'tls_results',
  'sessions',
  'sign_in_links',
  'totp',
  'recovery_codes',
] as const;

const dropRows = SHORT.map((table) => own((is) => sql`delete from ${sql.table(table)} where ${is}`));

/** The statements that delete all else that the account has, one commit each. */
export function deleteRest(tenant: string): Statement[] {
  return dropRows.map((statement) => statement(tenant));
}

const freeMailbox = query<{ tenant: string }>(
  (value) => sql`update mailboxes set account = null where account = ${value('tenant')}`,
);
const dropTenant = query<{ tenant: string }>((value) => sql`delete from tenants where id = ${value('tenant')}`);
const dropDeletion = query<{ tenant: string }>(
  (value) => sql`delete from account_deletions where tenant = ${value('tenant')}`,
);

/** The statements that forget the account; their unit fails with UnmetError where that was done. */
export function forgetAccount(tenant: string): Statement[] {
  return [freeMailbox({ tenant }), dropTenant({ tenant }), dropDeletion({ tenant }, 1)];
}
