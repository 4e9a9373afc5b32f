/** What visitors sent, accepted or kept as spam, and how often each form was used. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { SubmissionRow } from './tables.ts';

/** The statement that keeps a submission. */
export const insertSubmission = define<SubmissionRow>()((db, value) =>
  db.insertInto('submissions').values({
    id: value('id'),
    tenant: value('tenant'),
    form: value('form'),
    domain: value('domain'),
    revision: value('revision'),
    fields: value('fields'),
    control: value('control'),
    ip: value('ip'),
    user_agent: value('user_agent'),
    referer: value('referer'),
    status: value('status'),
    spam_score: value('spam_score'),
    spam_reasons: value('spam_reasons'),
    created_at: value('created_at'),
  }),
);

/** The statement that counts one more accepted submission of the form. */
export const countSubmission = define<{ form: string }>()((db, value) =>
  db
    .insertInto('form_counters')
    .values({ form: value('form'), submissions: 1 })
    .onConflict((conflict) =>
      conflict.column('form').doUpdateSet((eb) => ({ submissions: eb('form_counters.submissions', '+', 1) })),
    ),
);

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('submissions').selectAll().where('id', '=', value('id')),
);
const counter = define<{ form: string }>()((db, value) =>
  db.selectFrom('form_counters').select('submissions').where('form', '=', value('form')),
);

/** The submission with this id, or undefined. */
export async function findSubmission(store: Store, id: string): Promise<SubmissionRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

/** How many submissions of the form were ever accepted. */
export async function submissionsOf(store: Store, form: string): Promise<number> {
  const [row] = await store.select(counter({ form }));
  return row?.submissions ?? 0;
}
