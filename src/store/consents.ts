/**
 * Who agreed to get whose mail. An address that a tenant names gets its mail where the operator trusts the tenant, where
 * the address is at a verified domain of the tenant, or where it agreed once; until then mail for it is parked in the
 * queue. A mailbox that said "never again" gets nothing but mail of tenants that are trusted or have its domain.
 */
import { sql } from 'kysely';
import { canonicalMailbox, hashedAddress, parseAddress } from '../lib/addresses.ts';
import { waiting } from './messages.ts';
import { noteDue } from './destinations.ts';
import { isServed } from './domains.ts';
import { countOf, deleteFrom, finder, listed, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { ConsentRow, DeliveryRow, DomainRow, MailboxRow } from './tables.ts';

/** `pending`: it has not answered yet. `refused`: it wants no mail of this server. */
export type RecipientStatus = 'confirmed' | 'pending' | 'refused';

/** By the address as it was asked for. */
export type RecipientStatuses = ReadonlyMap<string, RecipientStatus>;

const untrusted = reader((tenant: string) => sql`select id from tenants where id = ${tenant} and trusted = 0`);
// Rows of domains that were taken out keep their keys, and no project.
const servedDomains = reader(
  (tenant: string, names: readonly string[]) => sql<Pick<DomainRow, 'name'>>`select name from domains
    where tenant = ${tenant} and name in ${listed(names)} and ${isServed}`,
);
const consentsOf = reader(
  (tenant: string, addresses: readonly string[]) => sql<ConsentRow>`select * from consents
    where tenant = ${tenant} and address in ${listed(addresses)}`,
);
const refusedAmong = reader(
  (mailboxes: readonly string[]) => sql<Pick<MailboxRow, 'mailbox'>>`select mailbox from mailboxes
    where mailbox in ${listed(mailboxes)} and refused_at is not null`,
);

/** Whether each of these addresses gets mail of the tenant. */
export async function recipientStatuses(
  store: Store,
  tenant: string,
  addresses: readonly string[],
): Promise<RecipientStatuses> {
  if (addresses.length === 0) return new Map();
  if ((await untrusted(store, tenant)).length === 0) {
    return new Map(addresses.map((address) => [address, 'confirmed']));
  }
  const [domains, consents, refusals] = await Promise.all([
    servedDomains(store, tenant, [...new Set(addresses.map(domainOf))]),
    consentsOf(store, tenant, addresses.map(lowerCase)),
    refusedAmong(store, addresses.flatMap(mailboxNames)),
  ]);
  const own = new Set(domains.map(({ name }) => name));
  const agreed = new Set(consents.flatMap(({ address, confirmed_at }) => (confirmed_at === null ? [] : [address])));
  const refused = new Set(refusals.map(({ mailbox }) => mailbox));
  return new Map(addresses.map((address) => [address, statusOf(address)]));

  function statusOf(address: string): RecipientStatus {
    if (own.has(domainOf(address))) return 'confirmed';
    if (mailboxNames(address).some((name) => refused.has(name))) return 'refused';
    return agreed.has(address.toLowerCase()) ? 'confirmed' : 'pending';
  }
}

function domainOf(address: string): string {
  return parseAddress(address)?.domain ?? '';
}

function lowerCase(address: string): string {
  return address.toLowerCase();
}

/** When each of these addresses was last mailed a link for the tenant, by the address in lower case; those that never were are absent. */
export async function lastAsked(
  store: Store,
  tenant: string,
  addresses: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await consentsOf(store, tenant, addresses.map(lowerCase));
  return new Map(rows.flatMap(({ address, asked_at }) => (asked_at === null ? [] : [[address, asked_at] as const])));
}

const oneConsent = finder('consents', 'tenant', 'address');

/** What is known of this address; undefined where it was never asked. */
export function consentOf(store: Store, tenant: string, address: string): Promise<ConsentRow | undefined> {
  return oneConsent(store, tenant, address.toLowerCase());
}

/** The addresses that the tenant asked, in their order; those after `after` where it is given. */
export function selectConsents(
  store: Store,
  { tenant, after, limit }: { readonly tenant: string; readonly after: string | undefined; readonly limit: number },
): Promise<ConsentRow[]> {
  const all = store.read.selectFrom('consents').selectAll().where('tenant', '=', tenant);
  const page = after === undefined ? all : all.where('address', '>', after);
  return page.orderBy('address').limit(limit).execute();
}

/** How many there are. */
export function countConsents(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('consents').where('tenant', '=', tenant));
}

const ask = query<{ tenant: string; address: string; at: number; since: number }>(
  (value) => sql`insert into consents (tenant, address, asked_at)
    values (${value('tenant')}, ${value('address')}, ${value('at')})
    on conflict (tenant, address) do update set asked_at = excluded.asked_at
      where consents.asked_at is null or consents.asked_at <= ${value('since')}`,
);
const confirm = query<{ tenant: string; address: string; at: number }>(
  (value) => sql`insert into consents (tenant, address, confirmed_at)
    values (${value('tenant')}, ${value('address')}, ${value('at')})
    on conflict (tenant, address) do update set confirmed_at = excluded.confirmed_at
      where consents.confirmed_at is null`,
);

/** The unit's first statement where an address is mailed a link: unmet where it was mailed one after `since`. */
export function noteAsked(asked: { tenant: string; address: string; at: number; since: number }): Statement {
  return ask({ ...asked, address: lowerCase(asked.address) }, 1);
}

/** The statement that notes that the address agreed to get mail of the tenant; it touches no row where that was known. */
export function confirmRecipient({ address, ...row }: { tenant: string; address: string; at: number }): Statement {
  return confirm({ ...row, address: address.toLowerCase() });
}

/** The statement that notes that the mailbox wants no mail of this server, for good. */
export const refuseMailbox = query<{ mailbox: string; at: number }>(
  (value) => sql`insert into mailboxes (mailbox, refused_at) values (${value('mailbox')}, ${value('at')})
    on conflict (mailbox) do update set refused_at = excluded.refused_at where mailboxes.refused_at is null`,
);

/** The statement that makes the mailbox that of the tenant's account; it touches no row where it has another. */
export const takeMailbox = query<{ mailbox: string; account: string }>(
  (value) => sql`insert into mailboxes (mailbox, account) values (${value('mailbox')}, ${value('account')})
    on conflict (mailbox) do update set account = excluded.account where mailboxes.account is null`,
);

const mailboxAmong = reader(
  (mailboxes: readonly string[]) => sql<MailboxRow>`select * from mailboxes
    where mailbox in ${listed(mailboxes)} order by mailbox`,
);

/** How a mailbox may be known: by itself, or by its hash after it was erased. */
function mailboxNames(address: string): string[] {
  const mailbox = canonicalMailbox(address);
  return [mailbox, hashedAddress(mailbox)];
}

/** The statement that forgets what is known of a mailbox. */
export const forgetMailbox = deleteFrom('mailboxes', 'mailbox');

/** What is known of the mailbox that the address leads to; undefined where nothing is. */
export async function findMailbox(store: Store, address: string): Promise<MailboxRow | undefined> {
  const rows = await mailboxAmong(store, mailboxNames(address));
  return rows.find(({ refused_at }) => refused_at !== null) ?? rows[0];
}

/** Whether the mailbox that the address leads to wants no mail of this server. */
export async function isRefused(store: Store, address: string): Promise<boolean> {
  const row = await findMailbox(store, address);
  return row !== undefined && row.refused_at !== null;
}

/** As the partial index has it. */
const parked = sql`${waiting} and next_attempt_at is null`;

const parkedRecipients = reader(
  (tenant: string) => sql<Pick<DeliveryRow, 'tenant' | 'recipient' | 'destination'>>`
    select distinct tenant, recipient, destination from deliveries
    where ${parked} and (tenant = ${tenant} or ${tenant} = '')`,
);
const unpark = query<{ tenant: string; recipient: string; due: number; expires_at: number }>(
  (value) => sql`update deliveries set next_attempt_at = ${value('due')}, expires_at = ${value('expires_at')}
    where ${parked} and tenant = ${value('tenant')} and recipient = ${value('recipient')}`,
);

/**
 * Makes due what is parked, for one tenant or for all, for recipients that have answered meanwhile: to be sent where they
 * agreed, and tried for `ttl` ms; to be ended where they refused. Answers whether there was any; the worker should then be woken.
 */
export async function releaseParked(
  store: Store,
  { tenant = '', now, ttl }: { readonly tenant?: string | undefined; readonly now: number; readonly ttl: number },
): Promise<boolean> {
  const rows = await parkedRecipients(store, tenant);
  const unit: Statement[] = [];
  const due = new Set<string>();
  for (const [owner, own] of Map.groupBy(rows, (row) => row.tenant)) {
    const statuses = await recipientStatuses(store, owner, [...new Set(own.map(({ recipient }) => recipient))]);
    const answered = own.filter(({ recipient }) => statuses.get(recipient) !== 'pending');
    for (const { recipient } of answered)
      unit.push(unpark({ tenant: owner, recipient, due: now, expires_at: now + ttl }));
    for (const { destination } of answered) due.add(destination);
  }
  if (unit.length === 0) return false;
  // Rows that many units share come last, in one order.
  await store.write([...unit, ...[...due].sort().map((name) => noteDue({ name, due: now }))]);
  return true;
}

/**
 * The statement that notes an acknowledgment at `at`; it touches no row where the address had one after `since` from any
 * form of the tenant, so that with `expect` 1 its whole unit fails. The cap that makes acknowledgments useless to a spammer
 * lives in the database.
 */
export const acknowledge = query<{ tenant: string; address: string; at: number; since: number }>(
  (value) => sql`insert into acknowledged (tenant, address, at)
    values (${value('tenant')}, ${value('address')}, ${value('at')})
    on conflict (tenant, address) do update set at = excluded.at where acknowledged.at <= ${value('since')}`,
);

/** The statement that forgets acknowledgments before `before`. */
export const forgetAcknowledged = query<{ before: number }>(
  (value) => sql`delete from acknowledged where at < ${value('before')}`,
);
