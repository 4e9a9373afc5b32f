/** What happened, for the operator, webhooks and analytics: one row per event, written in the unit that makes it true. */
import type { PublicEvent } from '../lib/event-types.ts';
import { newId } from '../lib/ids.ts';
import { listed } from './listed.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';

/** The public ones, which webhooks know, and those of accounts, which only GET /events shows. */
export type EventType =
  PublicEvent | 'key.created' | 'key.revoked' | 'tenant.created' | 'tenant.changed' | 'tenant.confirmed';

export interface NewEvent {
  readonly type: EventType;
  readonly tenant: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly submission?: string;
  readonly message?: string;
  readonly domain?: string;
}

const insert = define<{
  id: string;
  tenant: string;
  type: string;
  data: string;
  submission: string | null;
  message: string | null;
  domain: string | null;
  /** The submission again; empty for none. */
  of: string;
  created_at: number;
}>()((db, value) =>
  db.insertInto('events').values({
    id: value('id'),
    tenant: value('tenant'),
    type: value('type'),
    data: value('data'),
    submission: value('submission'),
    message: value('message'),
    domain: value('domain'),
    form: db.selectFrom('submissions').select('form').where('id', '=', value('of')),
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
  return insert({
    id: newId('evt', event.at),
    tenant: event.tenant,
    type: event.type,
    data: JSON.stringify(event.data),
    submission: event.submission ?? null,
    message: event.message ?? null,
    domain: event.domain ?? null,
    of: event.submission ?? '',
    created_at: event.at,
  });
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
