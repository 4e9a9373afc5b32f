/** Collections that the API made. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { CollectionRow } from './tables-accounts.ts';

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
