/**
 * What came back to our return paths and was not read yet. Reading is begun by a claim that says when it is begun again:
 * a crash in the middle repeats it, and what crashes whoever reads it is soon left alone.
 */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { BounceRow } from './tables-inbound.ts';

/** The statement that keeps one to be read, for the unit that takes it. */
export const insertBounce = define<BounceRow>()((db, value) =>
  db.insertInto('bounces').values({
    inbound: value('inbound'),
    message: value('message'),
    head: value('head'),
    tries: value('tries'),
    due: value('due'),
    created_at: value('created_at'),
  }),
);

const due = define<{ now: number; most: number }>()((db, value) =>
  db
    .selectFrom('bounces')
    .select(['inbound', 'message', 'tries'])
    .where('due', '<=', value('now'))
    .orderBy('due')
    .limit(value('most')),
);
const claim = define<{ inbound: string; message: string; tries: number; until: number }>()((db, value) =>
  db
    .updateTable('bounces')
    .set((eb) => ({ tries: eb('tries', '+', 1), due: value('until') }))
    .where('inbound', '=', value('inbound'))
    .where('message', '=', value('message'))
    .where('tries', '=', value('tries'))
    .returningAll(),
);

/** Claims the one that waits longest; until `until` (ms) nobody else reads it. Undefined where none is due. */
export async function claimBounce(
  store: Store,
  { now, until }: { readonly now: number; readonly until: number },
): Promise<BounceRow | undefined> {
  for (const next of await store.select(due({ now, most: 10 }))) {
    const [{ rows }] = await store.write([claim({ ...next, until })]);
    if (rows[0] !== undefined) return rows[0];
  }
  return undefined;
}

/** The statement that forgets one; `expect` says whether it was still there. */
export const deleteBounce = define<{ inbound: string; message: string }>()((db, value) =>
  db.deleteFrom('bounces').where('inbound', '=', value('inbound')).where('message', '=', value('message')),
);

/** The statement that leaves one for later, as if it had not been read. */
export const postponeBounce = define<{ inbound: string; message: string; due: number }>()((db, value) =>
  db
    .updateTable('bounces')
    .set({ due: value('due'), tries: 0 })
    .where('inbound', '=', value('inbound'))
    .where('message', '=', value('message')),
);
