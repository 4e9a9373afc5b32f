/** Ends every delivery, as a worker would. */
import type { Store } from '../../src/store/store.ts';
import { define } from '../../src/store/statement.ts';

const settle = define<{ at: number }>()((db, value) =>
  db.updateTable('deliveries').set({ state: 'delivered', next_attempt_at: null, settled_at: value('at') }),
);

export async function settleAll(store: Store): Promise<void> {
  await store.write([settle({ at: Date.now() })]);
}
