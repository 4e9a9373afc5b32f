/** What happened, for the operator, webhooks and analytics: one row per event, written in the unit that makes it true. */
import type { PublicEvent } from '../lib/event-types.ts';
import { newId, firstId, timeOfId } from '../lib/ids.ts';
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { EventRow, MessageRow } from './tables.ts';

/** The public ones, which webhooks know, and those of keys and accounts, which only GET /events shows. */
export type EventType =
  | PublicEvent
  | 'domain.dkim_next'
  | 'domain.dkim_active'
  | 'domain.dkim_retired'
  | 'auth.failed'
  | 'key.created'
  | 'key.revoked'
  | 'tenant.created'
  | 'tenant.changed'
  | 'tenant.confirmed';

export interface NewEvent {
  readonly type: EventType;
  readonly tenant: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly submission?: string;
  /** Of the submission; looked up where it is not told. */
  readonly form?: string | undefined;
  readonly message?: string;
  readonly domain?: string;
  /** `req_…`: the request that caused it, where one did just now. */
  readonly request?: string | undefined;
}

const insert = define<EventRow>()((db, value) =>
  db.insertInto('events').values({
    id: value('id'),
    tenant: value('tenant'),
    type: value('type'),
    data: value('data'),
    submission: value('submission'),
    message: value('message'),
    domain: value('domain'),
    form: value('form'),
    request: value('request'),
    created_at: value('created_at'),
  }),
);
const insertWithForm = define<Omit<EventRow, 'form' | 'submission'> & { submission: string }>()((db, value) =>
  db.insertInto('events').values({
    id: value('id'),
    tenant: value('tenant'),
    type: value('type'),
    data: value('data'),
    submission: value('submission'),
    message: value('message'),
    domain: value('domain'),
    form: db.selectFrom('submissions').select('form').where('id', '=', value('submission')),
    request: value('request'),
    created_at: value('created_at'),
  }),
);

/** The statement that forgets the oldest events before this id, `most` at a time. */
export const forgetEvents = define<{ before: string; most: number }>()((db, value) =>
  db
    .deleteFrom('events')
    .where('id', 'in', (eb) =>
      eb.selectFrom('events').select('id').where('id', '<', value('before')).orderBy('id').limit(value('most')),
    ),
);

/** The statement that records the event. */
export function recordEvent(event: NewEvent): Statement {
  const { type, tenant, at, data, submission, form, message, domain, request } = event;
  const row = {
    id: newId('evt', at),
    tenant,
    type,
    data: JSON.stringify(data),
    message: message ?? null,
    domain: domain ?? null,
    request: request ?? null,
    created_at: at,
  };
  return submission === undefined || form !== undefined
    ? insert({ ...row, submission: submission ?? null, form: form ?? null })
    : insertWithForm({ ...row, submission });
}

const complaints = define<{ messages: string }>()((db, value, dialect) =>
  db
    .selectFrom('events')
    .select('message')
    .where('message', 'in', listed(value('messages'), dialect))
    .where('message', 'is not', null)
    .where('type', '=', 'email.complained'),
);

/** Those of these messages that a recipient called spam. */
export async function complaintsOf(store: Store, messages: readonly string[]): Promise<Set<string | null>> {
  const rows = await store.select(complaints({ messages: JSON.stringify(messages) }));
  return new Set(rows.map(({ message }) => message));
}

/** When the newest event happened, ms. */
export async function newestEventAt(store: Store): Promise<number | undefined> {
  const newest = await store.read
    .selectFrom('events')
    .select('created_at')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return newest?.created_at;
}

// What belongs together: looked up for whoever traces one thing, by indexes that are there for other reasons.

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
