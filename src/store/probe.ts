/** Whether the database takes writes: a real commit that changes nothing. */
import { OPERATOR } from './revisions.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';

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
