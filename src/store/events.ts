/** What happened, for the operator, webhooks and analytics: one row per event, written in the unit that makes it true. */
import { sql } from 'kysely';
import type { PublicEvent } from '../lib/event-types.ts';
import { firstId, newId, timeOfId } from '../lib/ids.ts';
import { finder, insertInto, listed, lister, query, reader, type Placeholders, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import { fallbackOf } from './form-options.ts';
import type { EventRow, SubmissionRow } from './tables.ts';

/** The public ones, which webhooks know, and those of keys and accounts, which only GET /events shows. */
export type EventType =
  | PublicEvent
  | 'submission.pending'
  | 'domain.dkim_next'
  | 'domain.dkim_active'
  | 'domain.dkim_retired'
  | 'auth.failed'
  | 'auth.signed_in'
  | 'auth.totp_enabled'
  | 'auth.totp_disabled'
  | 'key.created'
  | 'key.revoked'
  | 'tenant.created'
  | 'tenant.changed'
  | 'tenant.confirmed'
  | 'tenant.deleting'
  | 'tenant.deleted'
  | 'queue.changed';

export interface NewEvent {
  readonly type: EventType;
  readonly tenant: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly submission?: string | null;
  /** Of the submission; looked up where it is not told. */
  readonly form?: string | undefined;
  readonly message?: string;
  readonly domain?: string | null;
  /** `req_…`: the request that caused it, where one did just now. */
  readonly request?: string | undefined;
}

const insert = insertInto('events');
const insertWithForm = query<Omit<EventRow, 'form'>>((value) => insertOfSubmission(value), {
  columns: {
    id: 'text',
    tenant: 'text',
    type: 'text',
    data: 'text',
    submission: 'text',
    message: 'text',
    domain: 'text',
    request: 'text',
    created_at: 'bigint',
  },
  touches: 'each',
  build: (rows, value) => insertOfSubmission(value, sql`from ${rows}`),
});

/** The form is that of the submission. */
function insertOfSubmission(value: Placeholders<Omit<EventRow, 'form'>>, from = sql``) {
  return sql<never>`insert into events (id, tenant, type, data, submission, message, domain, form, request, created_at)
    select ${value('id')}, ${value('tenant')}, ${value('type')}, ${value('data')}, ${value('submission')},
      ${value('message')}, ${value('domain')}, (select form from submissions where submissions.id = ${value('submission')}),
      ${value('request')}, cast(${value('created_at')} as bigint) ${from}`;
}

/** The statement that forgets the oldest events before this id, `most` at a time. */
export const forgetEvents = query<{ before: string; most: number }>(
  (value) => sql`delete from events where id < ${value('before')} and id in (
    select id from events where id < ${value('before')} order by id limit ${value('most')})`,
);

/** The statement that records the event. */
export function recordEvent(event: NewEvent): Statement {
  const { type, tenant, at, data, submission = null, form, message = null, domain = null, request = null } = event;
  const row = { id: newId('evt', at), tenant, type, data: JSON.stringify(data), submission, message, domain, request };
  return submission === null || form !== undefined
    ? insert({ ...row, form: form ?? null, created_at: at })
    : insertWithForm({ ...row, created_at: at });
}

/** What concerns a message comes after it; clocks of two daemons may be so far apart, ms. */
const SKEW_MS = 600_000;

/** What no event of these messages has a lower id than: older days are not looked at. */
function firstOf(messages: readonly string[]): string {
  const [first] = messages.toSorted();
  return first === undefined ? '' : firstId('evt', timeOfId(first) - SKEW_MS);
}

const complaints = reader(
  (messages: readonly string[], first: string) => sql<Pick<EventRow, 'message'>>`select message from events
    where message in ${listed(messages)} and message is not null and id >= ${first} and type = 'email.complained'`,
);

/** Those of these messages that a recipient called spam. */
export async function complaintsOf(store: Store, messages: readonly string[]): Promise<Set<string | null>> {
  return new Set((await complaints(store, messages, firstOf(messages))).map(({ message }) => message));
}

/** When the newest event happened, ms. */
export async function newestEventAt(store: Store): Promise<number | undefined> {
  const newest = store.read.selectFrom('events').select('created_at').orderBy('id', 'desc').limit(1);
  return (await newest.executeTakeFirst())?.created_at;
}

/** The event with this id, or undefined. */
export const findEvent = finder('events', 'id');

/** The tenant's event with this id, or undefined. */
export const findEventOf = finder('events', 'tenant', 'id');

/** A request is over after this long at most, and what it caused is told, ms. */
const REQUEST_MS = 600_000;
/** So much of that is looked through at once: a busy server has thousands of events in a second. */
const SPAN_MS = 10_000;

const eventsIn = reader(
  (request: string, first: string, last: string) => sql<EventRow>`select * from events
    where id >= ${first} and id < ${last} and request = ${request} order by id`,
);

/** The events of what a request (`req_…`) caused while it ran, oldest first. */
export async function eventsOfRequest(store: Store, request: string): Promise<EventRow[]> {
  const begin = timeOfId(request);
  for (let at = begin; at < begin + REQUEST_MS; at += SPAN_MS) {
    const events = await eventsIn(store, request, firstId('evt', at), firstId('evt', at + SPAN_MS));
    // All that it caused was committed together.
    if (events.length > 0) return events;
  }
  return [];
}

type EventsSince = { tenant: string; since: number; after: string; limit: number };

const idsSince = query<EventsSince & { first: string }, Pick<EventRow, 'id' | 'created_at'>>(
  (value) => sql`select id, created_at from events
    where tenant = ${value('tenant')} and created_at >= ${value('since')} and id >= ${value('first')}
      and (created_at > ${value('since')} or id > ${value('after')})
    order by created_at, id limit ${value('limit')}`,
);

/** Up to `limit` events of the tenant from `since` (ms) on, oldest first; of that very moment only those with ids after `after`. */
export function eventIdsSince(store: Store, wanted: EventsSince): Promise<Pick<EventRow, 'id' | 'created_at'>[]> {
  return store.select(idsSince({ ...wanted, first: firstId('evt', wanted.since) }));
}

const among = reader(
  (ids: readonly string[], first: string, last: string) => sql<EventRow>`select * from events
    where id in ${listed(ids)} and id >= ${first} and id <= ${last} order by id`,
);

/** The events with these ids, oldest first. */
export function eventsAmong(store: Store, ids: readonly string[]): Promise<EventRow[]> {
  const sorted = ids.toSorted();
  return among(store, ids, sorted[0] ?? '', sorted.at(-1) ?? '');
}

const eventsAt = query<{ tenant: string; at: number; submission: string; first: string; end: string }, EventRow>(
  (value) => sql`select * from events
    where tenant = ${value('tenant')} and created_at = ${value('at')} and submission = ${value('submission')}
      and id >= ${value('first')} and id < ${value('end')}`,
);

/** The events of a submission: when it came, was accepted later, and went to the fallback. */
export async function eventsOfSubmission(
  store: Store,
  { id, tenant, created_at, accepted_at }: Pick<SubmissionRow, 'id' | 'tenant' | 'created_at' | 'accepted_at'>,
): Promise<EventRow[]> {
  const used = (await fallbackOf(store, id))?.used_at;
  const moments = new Set([created_at, accepted_at ?? created_at, used ?? created_at]);
  const events = await Promise.all(
    Array.from(moments, (at) => {
      const bounds = { first: firstId('evt', at), end: firstId('evt', at + 1) };
      return store.select(eventsAt({ tenant, at, submission: id, ...bounds }));
    }),
  );
  return events.flat();
}

const ofMessages = reader(
  (messages: readonly string[], first: string) => sql<EventRow>`select * from events
    where message in ${listed(messages)} and message is not null and id >= ${first} order by id`,
);

/** All events of these messages, oldest first. */
export function eventsOfMessages(store: Store, messages: readonly string[]): Promise<EventRow[]> {
  return ofMessages(store, messages, firstOf(messages));
}

/** The messages that a submission caused. */
export const messagesOfSubmission = lister('messages', ['submission'], sql`order by id`);
