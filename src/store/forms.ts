/** Forms that the API made: those by themselves, and instant forms. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { FormRow } from './tables-accounts.ts';

/** The statement that makes the form. */
export const insertForm = define<FormRow>()((db, value) =>
  db.insertInto('forms').values({
    id: value('id'),
    tenant: value('tenant'),
    kind: value('kind'),
    name: value('name'),
    domain: value('domain'),
    config: value('config'),
    created_at: value('created_at'),
  }),
);

/** The statement that changes what the form says. */
export const updateForm = define<Pick<FormRow, 'id' | 'name' | 'config'>>()((db, value) =>
  db
    .updateTable('forms')
    .set({ name: value('name'), config: value('config') })
    .where('id', '=', value('id')),
);

/** The statement that takes the form out of service for good. */
export const deleteForm = define<{ id: string }>()((db, value) => db.deleteFrom('forms').where('id', '=', value('id')));

const byId = define<{ id: string }>()((db, value) => db.selectFrom('forms').selectAll().where('id', '=', value('id')));

/** The form with this id, or undefined. */
export async function findForm(store: Store, id: string): Promise<FormRow | undefined> {
  // Whatever stands in an address comes here; PostgreSQL takes no NUL.
  if (!/^frm_[0-9a-z]{1,26}$/.test(id)) return undefined;
  const [row] = await store.select(byId({ id }));
  return row;
}

export interface FormFilter {
  readonly tenants: readonly string[];
  readonly kind: FormRow['kind'];
  /** Only those on these domains. */
  readonly domains?: readonly string[] | undefined;
}

/** The tenants' forms of this kind, newest first; only those before an id where one is given. */
export function listForms(
  store: Store,
  { before, limit, ...filter }: FormFilter & { readonly before?: string | undefined; readonly limit: number },
): Promise<FormRow[]> {
  let query = filtered(store, filter).selectAll();
  if (before !== undefined) query = query.where('id', '<', before);
  return query.orderBy('id', 'desc').limit(limit).execute();
}

function filtered(store: Store, { tenants, kind, domains }: FormFilter) {
  const all = store.read
    .selectFrom('forms')
    .where('tenant', 'in', [...tenants])
    .where('kind', '=', kind);
  return domains === undefined ? all : all.where('domain', 'in', ['', ...domains]);
}

export async function countForms(store: Store, filter: FormFilter): Promise<number> {
  const { count } = await filtered(store, filter)
    .select((eb) => eb.fn.countAll().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** How many of any kind. */
export async function countFormsOfTenant(store: Store, tenant: string): Promise<number> {
  const { count } = await store.read
    .selectFrom('forms')
    .select((eb) => eb.fn.countAll().as('count'))
    .where('tenant', '=', tenant)
    .executeTakeFirstOrThrow();
  return Number(count);
}
