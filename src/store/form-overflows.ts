/** Forms that had more posts in an hour than they take, until their owners have heard of it. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { FormOverflowRow } from './tables-accounts.ts';

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
