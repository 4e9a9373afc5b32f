/** Forms of the configuration are counted from the moment that they are known. */
import type { Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { counterOf, noteForms } from '../store/form-counters.ts';
import type { Store } from '../store/store.ts';

/** Begins to count for what is new in the configuration. */
export async function adoptForms(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  { domains, collections }: Snapshot,
): Promise<void> {
  const places = [...domains.values(), ...collections.values()];
  const counted = places.flatMap(({ forms }) => [...forms.values()].map(counterOf));
  await noteForms(store, counted, clock.now());
}
