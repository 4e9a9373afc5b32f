/** Ends deliveries, as a worker would. */
import { sql } from 'kysely';
import type { Store } from '../../src/store/store.ts';
import { query } from '../../src/store/statement.ts';
import type { DeliveryState } from '../../src/store/tables.ts';

interface End {
  state: DeliveryState;
  due: number | null;
  at: number | null;
}

const endOne = query<End & { delivery: string }>(
  (value) => sql`update deliveries
    set state = ${value('state')}, next_attempt_at = ${value('due')}, settled_at = ${value('at')}
    where id = ${value('delivery')}`,
);
const endAll = query<End & { message: string }>(
  (value) => sql`update deliveries
    set state = ${value('state')}, next_attempt_at = ${value('due')}, settled_at = ${value('at')}
    where message = ${value('message')}`,
);

interface Settling {
  readonly message: string;
  /** One of its deliveries; default: each. */
  readonly delivery?: string | undefined;
  readonly state: DeliveryState;
  readonly at: number;
}

/** Brings deliveries of a message into this state. */
export async function settle(store: Store, { message, delivery, state, at }: Settling): Promise<void> {
  const isOpen = ['queued', 'sending', 'deferred'].includes(state);
  const end = { state, due: isOpen ? at : null, at: isOpen ? null : at };
  await store.write([delivery === undefined ? endAll({ message, ...end }) : endOne({ delivery, ...end })]);
}
