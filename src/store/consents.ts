/**
 * Who agreed to get whose mail. An address that a tenant names gets its mail where the operator trusts the tenant, where
 * the address is at a verified domain of the tenant, or where it agreed once; until then mail for it is parked in the
 * queue. A mailbox that said "never again" gets nothing but mail of tenants that are trusted or have its domain.
 */
import { sql } from 'kysely';
import { canonicalMailbox, parseAddress } from '../lib/addresses.ts';
import { waiting } from './deliveries.ts';
import { noteDue } from './destinations.ts';
import { listed } from './listed.ts';
import { OPERATOR } from './revisions.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { ConsentRow, MailboxRow } from './tables-accounts.ts';

/** `pending`: it has not answered yet. `refused`: it wants no mail of this server. */
export type RecipientStatus = 'confirmed' | 'pending' | 'refused';

/** By the address as it was asked for. */
export type RecipientStatuses = ReadonlyMap<string, RecipientStatus>;

const untrusted = define<{ tenant: string }>()((db, value) =>
  db.selectFrom('tenants').select('id').where('id', '=', value('tenant')).where('trusted', '=', sql.lit(0)),
);
const servedDomains = define<{ tenant: string; names: string }>()((db, value, dialect) =>
  db
    .selectFrom('domains')
    .select('name')
    .where('tenant', '=', value('tenant'))
    .where('name', 'in', listed(value('names'), dialect))
    .where('status', 'in', ['verified', 'degraded'])
    // Rows of domains that were taken out keep their keys, and no project.
    .where('project', '<>', ''),
);
const consentsOf = define<{ tenant: string; addresses: string }>()((db, value, dialect) =>
  db
    .selectFrom('consents')
    .selectAll()
    .where('tenant', '=', value('tenant'))
    .where('address', 'in', listed(value('addresses'), dialect)),
);
const refusedAmong = define<{ mailboxes: string }>()((db, value, dialect) =>
  db
    .selectFrom('mailboxes')
    .select('mailbox')
    .where('mailbox', 'in', listed(value('mailboxes'), dialect))
    .where('refused_at', 'is not', null),
);

/** Whether each of these addresses gets mail of the tenant. */
export async function recipientStatuses(
  store: Store,
  tenant: string,
  addresses: readonly string[],
): Promise<RecipientStatuses> {
  if (addresses.length === 0) return new Map();
  if (tenant === OPERATOR || (await store.select(untrusted({ tenant }))).length === 0) {
    return new Map(addresses.map((address) => [address, 'confirmed']));
  }
  const names = JSON.stringify([...new Set(addresses.map(domainOf))]);
  const lower = JSON.stringify(addresses.map((address) => address.toLowerCase()));
  const boxes = JSON.stringify(addresses.map(canonicalMailbox));
  const [domains, consents, refusals] = await Promise.all([
    store.select(servedDomains({ tenant, names })),
    store.select(consentsOf({ tenant, addresses: lower })),
    store.select(refusedAmong({ mailboxes: boxes })),
  ]);
  const own = new Set(domains.map(({ name }) => name));
  const agreed = new Set(consents.flatMap(({ address, confirmed_at }) => (confirmed_at === null ? [] : [address])));
  const refused = new Set(refusals.map(({ mailbox }) => mailbox));
  return new Map(addresses.map((address) => [address, statusOf(address)]));

  function statusOf(address: string): RecipientStatus {
    if (own.has(domainOf(address))) return 'confirmed';
    if (refused.has(canonicalMailbox(address))) return 'refused';
    return agreed.has(address.toLowerCase()) ? 'confirmed' : 'pending';
  }
}

function domainOf(address: string): string {
  return parseAddress(address)?.domain ?? '';
}

/** When each of these addresses was last mailed a link for the tenant, by the address in lower case; those that never were are absent. */
export async function lastAsked(
  store: Store,
  tenant: string,
  addresses: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const lower = JSON.stringify(addresses.map((address) => address.toLowerCase()));
  const rows = await store.select(consentsOf({ tenant, addresses: lower }));
  return new Map(rows.flatMap(({ address, asked_at }) => (asked_at === null ? [] : [[address, asked_at] as const])));
}

/** What is known of this address; undefined where it was never asked. */
export async function consentOf(store: Store, tenant: string, address: string): Promise<ConsentRow | undefined> {
  const [row] = await store.select(consentsOf({ tenant, addresses: JSON.stringify([address.toLowerCase()]) }));
  return row;
}

/** The addresses that the tenant asked, in their order; those after `after` where it is given. */
export function selectConsents(
  store: Store,
  { tenant, after, limit }: { readonly tenant: string; readonly after: string | undefined; readonly limit: number },
): Promise<ConsentRow[]> {
  const query = store.read.selectFrom('consents').selectAll().where('tenant', '=', tenant);
  const page = after === undefined ? query : query.where('address', '>', after);
  return page.orderBy('address').limit(limit).execute();
}

/** How many there are. */
export async function countConsents(store: Store, tenant: string): Promise<number> {
  const query = store.read.selectFrom('consents').where('tenant', '=', tenant);
  const { count } = await query.select((eb) => eb.fn.countAll().as('count')).executeTakeFirstOrThrow();
  return Number(count);
}

const ask = define<{ tenant: string; address: string; at: number; since: number }>()((db, value) =>
  db
    .insertInto('consents')
    .values({ tenant: value('tenant'), address: value('address'), asked_at: value('at'), confirmed_at: null })
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'address'])
        .doUpdateSet({ asked_at: value('at') })
        .where((eb) => eb.or([eb('consents.asked_at', 'is', null), eb('consents.asked_at', '<=', value('since'))])),
    ),
);
const confirm = define<{ tenant: string; address: string; at: number }>()((db, value) =>
  db
    .insertInto('consents')
    .values({ tenant: value('tenant'), address: value('address'), asked_at: null, confirmed_at: value('at') })
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'address'])
        .doUpdateSet({ confirmed_at: value('at') })
        .where('consents.confirmed_at', 'is', null),
    ),
);

/** The unit's first statement where an address is mailed a link: unmet where it was mailed one after `since`. */
export function noteAsked({
  address,
  ...row
}: {
  tenant: string;
  address: string;
  at: number;
  since: number;
}): Statement {
  return ask({ ...row, address: address.toLowerCase() }, 1);
}

/** The statement that notes that the address agreed to get mail of the tenant; it touches no row where that was known. */
export function confirmRecipient({ address, ...row }: { tenant: string; address: string; at: number }): Statement {
  return confirm({ ...row, address: address.toLowerCase() });
}

/** The statement that notes that the mailbox wants no mail of this server, for good. */
export const refuseMailbox = define<{ mailbox: string; at: number }>()((db, value) =>
  db
    .insertInto('mailboxes')
    .values({ mailbox: value('mailbox'), account: null, refused_at: value('at') })
    .onConflict((conflict) =>
      conflict
        .column('mailbox')
        .doUpdateSet({ refused_at: value('at') })
        .where('mailboxes.refused_at', 'is', null),
    ),
);

/** The statement that makes the mailbox that of the tenant's account; it touches no row where it has another. */
export const takeMailbox = define<{ mailbox: string; account: string }>()((db, value) =>
  db
    .insertInto('mailboxes')
    .values({ mailbox: value('mailbox'), account: value('account'), refused_at: null })
    .onConflict((conflict) =>
      conflict
        .column('mailbox')
        .doUpdateSet({ account: value('account') })
        .where('mailboxes.account', 'is', null),
    ),
);

const mailboxRow = define<{ mailbox: string }>()((db, value) =>
  db.selectFrom('mailboxes').selectAll().where('mailbox', '=', value('mailbox')),
);

/** What is known of the mailbox that the address leads to; undefined where nothing is. */
export async function findMailbox(store: Store, address: string): Promise<MailboxRow | undefined> {
  const [row] = await store.select(mailboxRow({ mailbox: canonicalMailbox(address) }));
  return row;
}

/** Whether the mailbox that the address leads to wants no mail of this server. */
export async function isRefused(store: Store, address: string): Promise<boolean> {
  const row = await findMailbox(store, address);
  return row !== undefined && row.refused_at !== null;
}

/** As the partial index has it. */
const parked = sql<boolean>`next_attempt_at is null`;

const parkedRecipients = define<{ tenant: string }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .select(['tenant', 'recipient', 'destination'])
    .distinct()
    .where(waiting)
    .where(parked)
    .where('tenant', '=', value('tenant')),
);
const allParked = define<object>()((db) =>
  db.selectFrom('deliveries').select(['tenant', 'recipient', 'destination']).distinct().where(waiting).where(parked),
);
const unpark = define<{ tenant: string; recipient: string; due: number; expires_at: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set({ next_attempt_at: value('due'), expires_at: value('expires_at') })
    .where(waiting)
    .where(parked)
    .where('tenant', '=', value('tenant'))
    .where('recipient', '=', value('recipient')),
);

export interface Release {
  /** Only what is parked for this tenant; for all of them where it is absent. */
  readonly tenant?: string | undefined;
  readonly now: number;
  /** How long what is released is tried, ms. */
  readonly ttl: number;
}

/**
 * Makes due what is parked for recipients that have answered meanwhile: to be sent where they agreed, to be ended where
 * they refused. Answers whether there was any; the worker should then be woken.
 */
export async function releaseParked(store: Store, { tenant, now, ttl }: Release): Promise<boolean> {
  const rows = await store.select(tenant === undefined ? allParked({}) : parkedRecipients({ tenant }));
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
