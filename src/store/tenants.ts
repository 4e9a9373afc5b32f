/** Tenants: who owns projects, keys and mail. */
import { sql } from 'kysely';
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { TenantRow } from './tables.ts';
import { OPERATOR } from './projects.ts';

/** The statement that keeps a new tenant. */
export const insertTenant = define<TenantRow>()((db, value) =>
  db.insertInto('tenants').values({
    id: value('id'),
    name: value('name'),
    email: value('email'),
    plan: value('plan'),
    requests_per_hour: value('requests_per_hour'),
    messages_per_hour: value('messages_per_hour'),
    messages_per_day: value('messages_per_day'),
    suspended: value('suspended'),
    trusted: value('trusted'),
    confirmed_at: value('confirmed_at'),
    created_at: value('created_at'),
  }),
);

/** What may be changed of a tenant; what is not named stays. */
export interface TenantChange {
  readonly plan?: string | undefined;
  /** null: the plan's. */
  readonly requests_per_hour?: number | null | undefined;
  /** The same. */
  readonly messages_per_hour?: number | null | undefined;
  readonly messages_per_day?: number | null | undefined;
  readonly suspended?: boolean | undefined;
  readonly trusted?: boolean | undefined;
}

const setPlan = define<Pick<TenantRow, 'id' | 'plan'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ plan: value('plan') })
    .where('id', '=', value('id')),
);
const setRequestsPerHour = define<Pick<TenantRow, 'id' | 'requests_per_hour'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ requests_per_hour: value('requests_per_hour') })
    .where('id', '=', value('id')),
);
const setMessagesPerHour = define<Pick<TenantRow, 'id' | 'messages_per_hour'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ messages_per_hour: value('messages_per_hour') })
    .where('id', '=', value('id')),
);
const setMessagesPerDay = define<Pick<TenantRow, 'id' | 'messages_per_day'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ messages_per_day: value('messages_per_day') })
    .where('id', '=', value('id')),
);
const setSuspended = define<Pick<TenantRow, 'id' | 'suspended'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ suspended: value('suspended') })
    .where('id', '=', value('id')),
);
const setTrusted = define<Pick<TenantRow, 'id' | 'trusted'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ trusted: value('trusted') })
    .where('id', '=', value('id')),
);

/** The statements that change it, none where nothing is named; their unit fails with UnmetError where there is no such tenant. */
export function changeTenant(id: string, change: TenantChange): Statement[] {
  const { plan, requests_per_hour, messages_per_hour, messages_per_day, suspended, trusted } = change;
  return [
    ...(plan === undefined ? [] : [setPlan({ id, plan }, 1)]),
    ...(requests_per_hour === undefined ? [] : [setRequestsPerHour({ id, requests_per_hour }, 1)]),
    ...(messages_per_hour === undefined ? [] : [setMessagesPerHour({ id, messages_per_hour }, 1)]),
    ...(messages_per_day === undefined ? [] : [setMessagesPerDay({ id, messages_per_day }, 1)]),
    ...(suspended === undefined ? [] : [setSuspended({ id, suspended: suspended ? 1 : 0 }, 1)]),
    ...(trusted === undefined ? [] : [setTrusted({ id, trusted: trusted ? 1 : 0 }, 1)]),
  ];
}

/** The statement that confirms a tenant; touches one row, or none where that was done before. */
export const confirmTenant = define<{ id: string; at: number }>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ confirmed_at: value('at') })
    .where('id', '=', value('id'))
    .where('confirmed_at', 'is', null),
);

const forgetKeysOfUnconfirmed = define<{ before: number }>()((db, value) =>
  db
    .deleteFrom('api_keys')
    .where('tenant', 'in', (keys) =>
      keys
        .selectFrom('tenants')
        .select('id')
        .where('confirmed_at', 'is', null)
        .where('created_at', '<=', value('before')),
    ),
);
const forgetTenants = define<{ before: number }>()((db, value) =>
  db.deleteFrom('tenants').where('confirmed_at', 'is', null).where('created_at', '<=', value('before')),
);

/** The statements that forget tenants made before, which nobody has confirmed, and their keys. */
export function forgetUnconfirmed(before: number): Statement[] {
  return [forgetKeysOfUnconfirmed({ before }), forgetTenants({ before })];
}

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('tenants').selectAll().where('id', '=', value('id')),
);

/** The tenant with this id, or undefined. */
export async function findTenant(store: Store, id: string): Promise<TenantRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

const amongIds = define<{ ids: string }>()((db, value, dialect) =>
  db
    .selectFrom('tenants')
    .selectAll()
    .where('id', 'in', listed(value('ids'), dialect)),
);

/** Those of these tenants that there are. */
export function findTenants(store: Store, ids: readonly string[]): Promise<TenantRow[]> {
  return store.select(amongIds({ ids: JSON.stringify(ids) }));
}

/** One page of all tenants, newest first. */
export function listTenants(
  store: Store,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<TenantRow[]> {
  const all = store.read.selectFrom('tenants').selectAll().orderBy('id', 'desc').limit(limit);
  return (before === undefined ? all : all.where('id', '<', before)).execute();
}

/** Every tenant, oldest first. */
export function allTenants(store: Store): Promise<TenantRow[]> {
  return store.read.selectFrom('tenants').selectAll().orderBy('id').execute();
}

/** How many tenants there are. */
export async function countTenants(store: Store): Promise<number> {
  const { count } = await store.read
    .selectFrom('tenants')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

const suspended = define<object>()((db) => db.selectFrom('tenants').select('id').where('suspended', '=', sql.lit(1)));

/** The tenants of which nothing leaves. */
export async function suspendedTenants(store: Store): Promise<string[]> {
  const rows = await store.select(suspended({}));
  return rows.map(({ id }) => id);
}

// Whether the database takes writes: a real commit that changes nothing.

const touch = define<{ id: string }>()((db, value) =>
  db
    .updateTable('tenants')
    .set((eb) => ({ created_at: eb.ref('created_at') }))
    .where('id', '=', value('id')),
);

/** Writes the operator's row as it is. Rejects with StoreError where the database cannot write. */
export async function probeStore(store: Store): Promise<void> {
  await store.write([touch({ id: OPERATOR })]);
}
