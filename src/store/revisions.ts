/** Revisions of projects: the YAML and its files as they were accepted, kept because what came in under one is rendered under it. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { RevisionRow } from './tables.ts';

/** A revision with its files by name. */
export type Revision = Omit<RevisionRow, 'files'> & { readonly files: Readonly<Record<string, string>> };

/** The operator's tenant, which owns the projects of files. */
export const OPERATOR = 'ten_operator';

const insertTenant = define<{ id: string; name: string; email: string; plan: string; created_at: number }>()(
  (db, value) =>
    db
      .insertInto('tenants')
      .values({
        id: value('id'),
        name: value('name'),
        email: value('email'),
        plan: value('plan'),
        requests_per_hour: null,
        suspended: 0,
        trusted: 1,
        confirmed_at: value('created_at'),
        created_at: value('created_at'),
      })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ email: value('email') })),
);
const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('config_revisions').selectAll().where('id', '=', value('id')),
);

const ofProject = define<{ tenant: string; slug: string }>()((db, value) =>
  db
    .selectFrom('config_revisions')
    .select(['id', 'created_at'])
    .where('tenant', '=', value('tenant'))
    .where('slug', '=', value('slug'))
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(100),
);

/** Makes the operator's tenant, or notes that the operator's address changed. */
export async function saveOperator(store: Store, email: string, now: number): Promise<void> {
  await store.write([insertTenant({ id: OPERATOR, name: 'Operator', email, plan: 'enterprise', created_at: now })]);
}

/** The revision with this id, or undefined. */
export async function findRevision(store: Store, id: string): Promise<Revision | undefined> {
  const [row] = await store.select(byId({ id }));
  return row && withFiles(row);
}

/** The revision of this project with this id, or undefined. */
export async function findRevisionOf(
  store: Store,
  { tenant, slug }: { readonly tenant: string; readonly slug: string },
  id: string,
): Promise<Revision | undefined> {
  const revision = await findRevision(store, id);
  return revision?.tenant === tenant && revision.slug === slug ? revision : undefined;
}

/** Up to 100 revisions of a project, the latest accepted first. */
export function revisionsOf(
  store: Store,
  { tenant, slug }: { readonly tenant: string; readonly slug: string },
): Promise<Pick<RevisionRow, 'id' | 'created_at'>[]> {
  return store.select(ofProject({ tenant, slug }));
}

function withFiles(row: RevisionRow): Revision {
  return { ...row, files: JSON.parse(row.files) as Record<string, string> };
}
