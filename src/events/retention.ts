/** Forgets events that are older than the configuration keeps them; they are counted first, and their counts stay. */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { firstId } from '../lib/ids.ts';
import { forgetEvents } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import { hourOf, type EventCounts } from './counts.ts';

export interface ForgetOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly counts: Pick<EventCounts, 'rollUp'>;
  readonly config: () => { readonly retention: Pick<ServerConfig['retention'], 'events'> };
}

/** So many go in one commit, so that what is accepted meanwhile waits for milliseconds. */
const BATCH = 1000;

/** Forgets whole hours of events, whatever many there are. */
export async function forgetOldEvents({ store, clock, counts, config }: ForgetOptions): Promise<void> {
  await counts.rollUp();
  const before = firstId('evt', hourOf(clock.now() - config().retention.events));
  for (let gone = BATCH; gone === BATCH;) {
    const [{ changes }] = await store.write([forgetEvents({ before, most: BATCH })]);
    gone = changes;
  }
}
