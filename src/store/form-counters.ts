/** Since when each form is known and how many submissions it accepted, whatever is kept of them. */
import { listed } from './listed.ts';
import { environmentOf, testPartitionOf } from '../lib/ids.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { FormCounterRow } from './tables.ts';

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
