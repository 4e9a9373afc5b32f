/** What belongs together: looked up for whoever traces one thing, by indexes that are there for other reasons. */
import { firstId, timeOfId } from '../lib/ids.ts';
import { listed } from './listed.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { EventRow, MessageRow } from './tables.ts';

/** A request is over after this long at most, and what it caused is told, ms. */
const REQUEST_MS = 600_000;
/** So much of that is looked through at once: a busy server has thousands of events in a second. */
const SPAN_MS = 10_000;

const eventOf = define<{ id: string }>()((db, value) =>
  db.selectFrom('events').selectAll().where('id', '=', value('id')),
);
const eventsIn = define<{ request: string; first: string; last: string }>()((db, value) =>
  db
    .selectFrom('events')
    .selectAll()
    .where('id', '>=', value('first'))
    .where('id', '<', value('last'))
    .where('request', '=', value('request'))
    .orderBy('id'),
);
const eventsAt = define<{ tenant: string; at: number; submission: string }>()((db, value) =>
  db
    .selectFrom('events')
    .selectAll()
    .where('tenant', '=', value('tenant'))
    .where('created_at', '=', value('at'))
    .where('submission', '=', value('submission')),
);
const eventsOf = define<{ messages: string }>()((db, value, dialect) =>
  db
    .selectFrom('events')
    .selectAll()
    .where('message', 'in', listed(value('messages'), dialect))
    .where('message', 'is not', null)
    .orderBy('id'),
);
const messagesOf = define<{ submission: string }>()((db, value) =>
  db.selectFrom('messages').selectAll().where('submission', '=', value('submission')).orderBy('id'),
);
/** The event with this id, or undefined. */
export async function findEvent(store: Store, id: string): Promise<EventRow | undefined> {
  const [row] = await store.select(eventOf({ id }));
  return row;
}

/** The events of what a request (`req_…`) caused while it ran, oldest first. */
export async function eventsOfRequest(store: Store, request: string): Promise<EventRow[]> {
  const begin = timeOfId(request);
  for (let at = begin; at < begin + REQUEST_MS; at += SPAN_MS) {
    const span = { first: firstId('evt', at), last: firstId('evt', at + SPAN_MS) };
    const events = await store.select(eventsIn({ request, ...span }));
    // All that it caused was committed together.
    if (events.length > 0) return events;
  }
  return [];
}

/** The events that a submission was accepted with. */
export function eventsOfSubmission(
  store: Store,
  { id, tenant, created_at: at }: { readonly id: string; readonly tenant: string; readonly created_at: number },
): Promise<EventRow[]> {
  return store.select(eventsAt({ tenant, at, submission: id }));
}

/** All events of these messages, oldest first. */
export function eventsOfMessages(store: Store, messages: readonly string[]): Promise<EventRow[]> {
  return store.select(eventsOf({ messages: JSON.stringify(messages) }));
}

/** The messages that a submission caused. */
export function messagesOfSubmission(store: Store, submission: string): Promise<MessageRow[]> {
  return store.select(messagesOf({ submission }));
}
