/** Forms and collections that the API made, and what is counted of every form, whatever is kept of its submissions. */
import { sql, type RawBuilder } from 'kysely';
import {
  countOf,
  deleteAmong,
  deleteFrom,
  finder,
  insertInto,
  listed,
  lister,
  newestFirst,
  query,
  reader,
  update,
  type Statement,
} from './statement.ts';
import type { Store } from './store.ts';
import type { CollectionRow, FormOverflowRow, FormRow } from './tables.ts';

/** The statement that makes the form. */
export const insertForm = insertInto('forms');

/** The statement that changes what the form says. */
export const updateForm = update('forms', ['name', 'config'], ['id']);

/** The statement that takes the form out of service for good. */
export const deleteForm = deleteFrom('forms', 'id');

const formById = finder('forms', 'id');

/** The form with this id, or undefined. */
export async function findForm(store: Store, id: string): Promise<FormRow | undefined> {
  // Whatever is in an address comes here; PostgreSQL takes no NUL.
  return /^frm_[0-9a-z]{1,26}$/.test(id) ? formById(store, id) : undefined;
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
  filter: FormFilter & { readonly before?: string | undefined; readonly limit: number },
): Promise<FormRow[]> {
  return newestFirst(filtered(store, filter).selectAll(), filter);
}

function filtered(store: Store, { tenants, kind, domains }: FormFilter) {
  const all = store.read
    .selectFrom('forms')
    .where('tenant', 'in', [...tenants])
    .where('kind', '=', kind);
  return domains === undefined ? all : all.where('domain', 'in', ['', ...domains]);
}

export function countForms(store: Store, filter: FormFilter): Promise<number> {
  return countOf(filtered(store, filter));
}

/** How many of any kind. */
export function countFormsOfTenant(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('forms').where('tenant', '=', tenant));
}

/** The statement that makes the collection; it touches no row where the name is taken. */
export const insertCollection = insertInto('collections', sql`on conflict do nothing`);

/** The statement that takes the collection out of service for good. */
export const deleteCollection = deleteFrom('collections', 'name');

const collectionByName = finder('collections', 'name');

/** The collection of this name, or undefined. */
export async function findCollectionRow(store: Store, name: string): Promise<CollectionRow | undefined> {
  // As above.
  return /^[A-Za-z0-9_-]{1,64}$/.test(name) ? collectionByName(store, name) : undefined;
}

/** All that the tenant made, by name. */
export const collectionsOfTenant = lister('collections', ['tenant'], sql`order by name`);

/** The statement that begins to count for a form; one that is known stays as it is. */
export const noteForm = query<{ form: string; at: number }>(
  (value) => sql`insert into form_counters (form, submissions, created_at) values (${value('form')}, 0, ${value('at')})
    on conflict do nothing`,
);

/** How many submissions of a form were accepted: before there were several rows for it, and since. */
export function countedOf(form: RawBuilder<unknown>): RawBuilder<number> {
  return sql<number>`cast(
    coalesce((select counter.submissions from form_counters as counter where counter.form = ${form}), 0)
    + coalesce((select sum(form_counts.submissions) from form_counts where form_counts.form = ${form}), 0) as bigint)`;
}

/** What is known of a form. */
export interface FormCounter {
  readonly form: string;
  /** When it was first known, ms; null until it is noted. */
  readonly created_at: number | null;
  /** Accepted. */
  readonly submissions: number;
}

const countersOf = reader(
  (forms: readonly string[]) => sql<FormCounter>`
    select form, max(created_at) as created_at, cast(sum(submissions) as bigint) as submissions from (
      select form, created_at, submissions from form_counters where form in ${listed(forms)}
      union all
      select form, cast(null as bigint), submissions from form_counts where form in ${listed(forms)}) as counted
    group by form order by form`,
);

const forgetCounters = deleteAmong('form_counters', 'form');
const forgetCounts = deleteAmong('form_counts', 'form');

/** The statements that forget these forms. */
export function forgetForms(forms: readonly string[]): Statement[] {
  return [forgetCounters(forms), forgetCounts(forms)];
}

/** What is known of each of these forms, by `counterOf`. */
export async function formCounters(store: Store, forms: readonly string[]): Promise<Map<string, FormCounter>> {
  if (forms.length === 0) return new Map();
  const rows = await countersOf(store, forms);
  return new Map(rows.map((row) => [row.form, { ...row, submissions: Math.max(0, row.submissions) }]));
}

/** Begins to count for those of these forms that are new. */
export async function noteForms(store: Store, forms: readonly string[], at: number): Promise<void> {
  const known = await formCounters(store, forms);
  const unit = forms
    .filter((form) => (known.get(form)?.created_at ?? null) === null)
    .map((form) => noteForm({ form, at }));
  if (unit.length > 0) await store.write(unit);
}

/** The statement that counts one more post that the form kept back; of the first one the owner hears at `mail_at`. */
export const noteOverflow = query<Omit<FormOverflowRow, 'count'>>(
  (value) => sql`insert into form_overflows (form, tenant, name, count, mail_at)
    values (${value('form')}, ${value('tenant')}, ${value('name')}, 1, ${value('mail_at')})
    on conflict (form) do update set count = form_overflows.count + 1, name = excluded.name`,
);

/** Those whose owners are to hear of it now, or that had none more for an hour. */
export const dueOverflows = reader(
  (now: number, limit: number) =>
    sql<FormOverflowRow>`select * from form_overflows where mail_at <= ${now} order by mail_at limit ${limit}`,
);

/** The statement that begins the next hour; it touches no row where the count is another one by now. */
export const restartOverflow = update('form_overflows', ['mail_at', sql`count = 0`], ['form', 'count']);

/** The statement that forgets a form that had none more. */
export const forgetOverflow = deleteFrom('form_overflows', 'form', sql`count = 0`);
