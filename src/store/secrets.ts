/** Secrets that the daemon makes for itself, such as the key of its return paths; the file that holds them has mode 0600. */
import { randomBytes } from 'node:crypto';
import { define } from './statement.ts';
import type { Store } from './store.ts';

const insert = define<{ name: string; value: string; created_at: number }>()((db, value) =>
  db
    .insertInto('secrets')
    .values({ name: value('name'), value: value('value'), created_at: value('created_at') })
    .onConflict((conflict) => conflict.doNothing()),
);
const byName = define<{ name: string }>()((db, value) =>
  db.selectFrom('secrets').select('value').where('name', '=', value('name')),
);

/** The secret of this name, 32 bytes, made at its first use; several daemons on one database share it. */
export async function obtainSecret(store: Store, name: string, now: number): Promise<Buffer> {
  const [known] = await store.select(byName({ name }));
  if (known !== undefined) return Buffer.from(known.value, 'base64');
  await store.write([insert({ name, value: randomBytes(32).toString('base64'), created_at: now })]);
  return obtainSecret(store, name, now);
}
