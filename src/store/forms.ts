/** Forms that the API made: those by themselves, and instant forms. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { FormRow, CollectionRow, FormCounterRow, FormOverflowRow } from './tables.ts';
import { listed } from './rows.ts';
import { environmentOf, testPartitionOf } from '../lib/ids.ts';

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

// Collections that the API made.

/** The statement that makes the collection; it touches no row where the name is taken. */
export const insertCollection = define<CollectionRow>()((db, value) =>
  db
    .insertInto('collections')
    .values({
      name: value('name'),
      tenant: value('tenant'),
      config: value('config'),
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.doNothing()),
);

/** The statement that takes the collection out of service for good. */
export const deleteCollection = define<{ name: string }>()((db, value) =>
  db.deleteFrom('collections').where('name', '=', value('name')),
);

const byName = define<{ name: string }>()((db, value) =>
  db.selectFrom('collections').selectAll().where('name', '=', value('name')),
);
const ofTenant = define<{ tenant: string }>()((db, value) =>
  db.selectFrom('collections').selectAll().where('tenant', '=', value('tenant')).orderBy('name'),
);

/** The collection of this name, or undefined. */
export async function findCollectionRow(store: Store, name: string): Promise<CollectionRow | undefined> {
  // Whatever stands in an address comes here; PostgreSQL takes no NUL.
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) return undefined;
  const [row] = await store.select(byName({ name }));
  return row;
}

/** All that the tenant made, by name. */
export function collectionsOfTenant(store: Store, tenant: string): Promise<CollectionRow[]> {
  return store.select(ofTenant({ tenant }));
}

// Since when each form is known and how many submissions it accepted, whatever is kept of them.

const insertOne = define<{ form: string; at: number }>()((db, value) =>
  db
    .insertInto('form_counters')
    .values({ form: value('form'), submissions: 0, created_at: value('at') })
    .onConflict((conflict) => conflict.doNothing()),
);
const byForms = define<{ forms: string }>()((db, value, dialect) =>
  db
    .selectFrom('form_counters')
    .selectAll()
    .where('form', 'in', listed(value('forms'), dialect)),
);
const remove = define<{ forms: string }>()((db, value, dialect) =>
  db.deleteFrom('form_counters').where('form', 'in', listed(value('forms'), dialect)),
);

/** What a form is counted under: submissions of test keys, to whatever form, are counted apart. */
export function counterOf({ tenant, id }: CountedForm): string {
  return environmentOf(tenant) === 'test' ? testPartitionOf(id) : id;
}

interface CountedForm {
  readonly tenant: string;
  readonly id: string;
}

/** The statement that begins to count for a form; one that is known stays as it is. */
export const noteForm = insertOne;

/** The statement that forgets these forms (a JSON list of ids). */
export const forgetForms = remove;

/** What is known of each of these forms, by `counterOf`. */
export async function formCounters(store: Store, forms: readonly string[]): Promise<Map<string, FormCounterRow>> {
  if (forms.length === 0) return new Map();
  const rows = await store.select(byForms({ forms: JSON.stringify(forms) }));
  return new Map(rows.map((row) => [row.form, row]));
}

/** Begins to count for those of these forms that are new. */
export async function noteForms(store: Store, forms: readonly string[], at: number): Promise<void> {
  const known = await formCounters(store, forms);
  const unit = forms.filter((form) => !known.has(form)).map((form) => noteForm({ form, at }));
  if (unit.length > 0) await store.write(unit);
}

// Forms that had more posts in an hour than they take, until their owners have heard of it.

/** The statement that counts one more post that the form kept back; of the first one the owner hears at `mail_at`. */
export const noteOverflow = define<Omit<FormOverflowRow, 'count'>>()((db, value) =>
  db
    .insertInto('form_overflows')
    .values({
      form: value('form'),
      tenant: value('tenant'),
      name: value('name'),
      count: 1,
      mail_at: value('mail_at'),
    })
    .onConflict((conflict) =>
      conflict.column('form').doUpdateSet((eb) => ({ count: eb('form_overflows.count', '+', 1), name: value('name') })),
    ),
);

const due = define<{ now: number; limit: number }>()((db, value) =>
  db
    .selectFrom('form_overflows')
    .selectAll()
    .where('mail_at', '<=', value('now'))
    .orderBy('mail_at')
    .limit(value('limit')),
);

/** Those whose owners are to hear of it now, or that had none more for an hour. */
export function dueOverflows(store: Store, now: number, limit: number): Promise<FormOverflowRow[]> {
  return store.select(due({ now, limit }));
}

/** The statement that begins the next hour; it touches no row where the count is another one by now. */
export const restartOverflow = define<{ form: string; count: number; mail_at: number }>()((db, value) =>
  db
    .updateTable('form_overflows')
    .set({ count: 0, mail_at: value('mail_at') })
    .where('form', '=', value('form'))
    .where('count', '=', value('count')),
);

/** The statement that forgets a form that had none more. */
export const forgetOverflow = define<{ form: string }>()((db, value) =>
  db.deleteFrom('form_overflows').where('form', '=', value('form')).where('count', '=', 0),
);
