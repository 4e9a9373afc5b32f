/**
 * Deliveries: one row per recipient, `queued → sending → delivered | deferred → … | bounced | expired | cancelled |
 * suppressed | captured`. What ends a try names the try that it ends (owner and number), so that a lease which was lost meanwhile
 * changes nothing. Claims are in claims.ts.
 */
import { sql, type Expression, type ExpressionBuilder, type Kysely, type SqlBool, type UpdateObject } from 'kysely';
import { listed } from './rows.ts';
import { define, type Dialect, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { DeliveryRow, DeliveryState, Tables, AttemptRow } from './tables.ts';

/**
 * The condition of the partial indexes, written as they have it: SQLite uses them only for the same words.
 * Rows of this kind have no lease, and a next attempt unless they are parked until their recipient agrees.
 */
export const waiting = sql<boolean>`state in ('queued', 'deferred')`;

/** As `waiting`, for the index by state. */
export const unsettled = sql<boolean>`deliveries.state <> 'delivered'`;

/** The time of the next attempt of a delivery that the operator holds: never. Nothing of that kind is due, or expires. */
export const HELD = Date.UTC(9999, 0);

/** The reply of a delivery that waits because its tenant is suspended. */
export const SUSPENDED = '451 4.7.1 the account is suspended: its mail waits';

export type SettledState = Extract<DeliveryState, 'delivered' | 'bounced' | 'expired' | 'suppressed' | 'captured'>;

/** The statement that enqueues a delivery, due at once. */
export const insertDelivery = define<
  Pick<DeliveryRow, 'id' | 'message' | 'tenant' | 'recipient' | 'destination' | 'created_at' | 'expires_at'> & {
    due: number;
  }
>()((db, value) =>
  db.insertInto('deliveries').values({
    id: value('id'),
    message: value('message'),
    tenant: value('tenant'),
    recipient: value('recipient'),
    destination: value('destination'),
    state: 'queued',
    attempts: 0,
    next_attempt_at: value('due'),
    lease_owner: null,
    lease_until: null,
    begun: 0,
    last_reply: null,
    created_at: value('created_at'),
    expires_at: value('expires_at'),
    settled_at: null,
    counted_at: null,
  }),
);

/** Which try a statement ends. */
interface Try {
  id: string;
  owner: string;
  attempts: number;
}

/** The update that ends this try of this owner; it touches one row, or none where the lease is gone. */
function endTry(db: Kysely<Tables>, value: Placeholders<Try>) {
  return db
    .updateTable('deliveries')
    .set({ lease_owner: null, lease_until: null })
    .where('id', '=', value('id'))
    .where('state', '=', 'sending')
    .where('lease_owner', '=', value('owner'))
    .where('attempts', '=', value('attempts'));
}

/** What makes a claim as if it had never been: the try does not count. */
export function unclaimed(
  eb: ExpressionBuilder<Tables, 'deliveries'>,
): Pick<UpdateObject<Tables, 'deliveries'>, 'state' | 'attempts'> {
  return {
    state: eb
      .case()
      .when('attempts', '=', 1)
      .then('queued' as const)
      .else('deferred' as const)
      .end(),
    attempts: eb('attempts', '-', 1),
  };
}

/** The statement that ends a try and the delivery with it. */
export const settleDelivery = define<Try & { state: SettledState; reply: string; at: number }>()((db, value) =>
  endTry(db, value).set({
    state: value('state'),
    next_attempt_at: null,
    last_reply: value('reply'),
    settled_at: value('at'),
  }),
);

/** The statement that ends a try with another one to come. */
export const deferDelivery = define<Try & { reply: string; due: number }>()((db, value) =>
  endTry(db, value).set({ state: 'deferred', next_attempt_at: value('due'), last_reply: value('reply') }),
);

/** The statement that gives a claim back. */
export const giveBack = define<Try & { due: number }>()((db, value) =>
  endTry(db, value).set((eb) => ({ ...unclaimed(eb), next_attempt_at: value('due') })),
);

/** The statement that gives a claim back for a reason that the delivery then shows. */
export const putOff = define<Try & { due: number; reply: string }>()((db, value) =>
  endTry(db, value).set((eb) => ({
    ...unclaimed(eb),
    state: 'deferred',
    next_attempt_at: value('due'),
    last_reply: value('reply'),
  })),
);

/** The statement that gives a claim back until the recipient agrees: there is no next try before `releaseParked` (store/consents). */
export const parkDelivery = define<Try & { reply: string; expires_at: number }>()((db, value) =>
  endTry(db, value).set((eb) => ({
    ...unclaimed(eb),
    next_attempt_at: null,
    last_reply: value('reply'),
    expires_at: value('expires_at'),
  })),
);

/**
 * The statement that gives a claim back until `due`, when it counts against its tenant's plan. The wait takes nothing from
 * the time that it is tried for.
 */
export const waitForPlan = define<Try & { due: number; reply: string; wait: number }>()((db, value) =>
  endTry(db, value).set((eb) => ({
    ...unclaimed(eb),
    state: 'deferred',
    next_attempt_at: value('due'),
    counted_at: value('due'),
    expires_at: eb('expires_at', '+', value('wait')),
    last_reply: value('reply'),
  })),
);

/** The statement that notes that these deliveries (a JSON array of ids) count against their tenants' plans from now on. */
export const markCounted = define<{ ids: string; at: number }>()((db, value, dialect) =>
  db
    .updateTable('deliveries')
    .set({ counted_at: value('at') })
    .where('id', 'in', listed(value('ids'), dialect)),
);

const waitingFor = define<{ tenant: string; now: number }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .select(['id', 'destination'])
    .where(waiting)
    .where('counted_at', '>', value('now'))
    .where((eb) => eb.or([eb('tenant', '=', value('tenant')), eb(eb.val(value('tenant')), '=', sql.lit(''))])),
);

/** What waits for room in the plan of the tenant, or (empty) of any. */
export function deliveriesWaitingForPlan(
  store: Store,
  tenant: string,
  now: number,
): Promise<Pick<DeliveryRow, 'id' | 'destination'>[]> {
  return store.select(waitingFor({ tenant, now }));
}

/** The update of those of these deliveries (a JSON array of ids) that wait. */
function waitingAmong(db: Kysely<Tables>, ids: string, dialect: Dialect) {
  return db.updateTable('deliveries').where('id', 'in', listed(ids, dialect)).where(waiting);
}

/** The statement that lets those that wait ask for room in the plan now. */
export const recountDeliveries = define<{ ids: string; now: number }>()((db, value, dialect) =>
  waitingAmong(db, value('ids'), dialect).set({ next_attempt_at: value('now'), counted_at: null }),
);

const overdueBetween = define<{ state: DeliveryState; after: string; until: string; now: number }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .innerJoin('destinations', 'destinations.name', 'deliveries.destination')
    .selectAll('deliveries')
    .where('deliveries.state', '=', value('state'))
    .where(unsettled)
    .where('deliveries.id', '>', value('after'))
    .where('deliveries.id', '<=', value('until'))
    .where('deliveries.expires_at', '<=', value('now'))
    // What the operator holds waits for the operator.
    .where('destinations.held', '=', 0)
    .where((eb) =>
      eb.or([eb('deliveries.next_attempt_at', 'is', null), eb('deliveries.next_attempt_at', '<', sql.lit(HELD))]),
    )
    // A try that is due is made, also after a long sleep of the machine.
    .where((eb) =>
      eb.or([
        eb('deliveries.next_attempt_at', '>', value('now')),
        eb('deliveries.next_attempt_at', 'is', null),
        eb('destinations.next_due_at', '>', value('now')),
        eb('destinations.next_due_at', 'is', null),
      ]),
    ),
);

/** After every id. */
const LAST = '~';

export interface Walked {
  /** Deliveries whose time is over and that are not about to be tried. */
  readonly overdue: readonly DeliveryRow[];
  /** Where to go on; empty at the end. */
  readonly next: string;
}

/**
 * Walks a stretch of what waits in this state, in order of age. There is no index by time of expiry: it would cost every
 * message, and nothing hurries here.
 */
export async function walkWaiting(
  store: Store,
  state: 'queued' | 'deferred',
  { after, limit, now }: { after: string; limit: number; now: number },
): Promise<Walked> {
  const next = await endOfStretch(store, { state }, { after, limit });
  const overdue = await store.select(overdueBetween({ state, after, until: next === '' ? LAST : next, now }));
  return { overdue, next };
}

/** The statement that ends a waiting delivery; touches no row where it is no longer waiting. */
export const endWaiting = define<{ id: string; state: 'expired' | 'cancelled'; reply: string; at: number }>()(
  (db, value) =>
    db
      .updateTable('deliveries')
      .set({ state: value('state'), next_attempt_at: null, last_reply: value('reply'), settled_at: value('at') })
      .where('id', '=', value('id'))
      .where(waiting),
);

/** The statement that makes a delivery bounced which had arrived, as it seemed; touches no row where it had not. */
export const bounceDelivery = define<{ id: string; reply: string; at: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set({ state: 'bounced', last_reply: value('reply'), settled_at: value('at') })
    .where('id', '=', value('id'))
    .where('state', '=', 'delivered'),
);

/** The statement that makes a waiting delivery due; touches no row where it is no longer waiting. */
export const makeDue = define<{ id: string; due: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set({ next_attempt_at: value('due') })
    .where('id', '=', value('id'))
    .where(waiting),
);

/** The same of many (a JSON array of ids), but for those that are held or parked. */
export const makeDueAmong = define<{ ids: string; due: number }>()((db, value, dialect) =>
  waitingAmong(db, value('ids'), dialect)
    .set({ next_attempt_at: value('due') })
    .where('next_attempt_at', '<', sql.lit(HELD)),
);

/** The statement that holds waiting deliveries, also those that are parked: an answer of their recipient sends nothing then. */
export const holdAmong = define<{ ids: string }>()((db, value, dialect) =>
  waitingAmong(db, value('ids'), dialect)
    .set({ next_attempt_at: sql.lit(HELD) })
    .where((eb) => eb.or([eb('next_attempt_at', 'is', null), eb('next_attempt_at', '<', sql.lit(HELD))])),
);

/** The statement that makes those due that are held. */
export const releaseAmong = define<{ ids: string; due: number }>()((db, value, dialect) =>
  waitingAmong(db, value('ids'), dialect)
    .set({ next_attempt_at: value('due') })
    .where('next_attempt_at', '=', sql.lit(HELD)),
);

/** The statement that cancels waiting deliveries. */
export const cancelAmong = define<{ ids: string; reply: string; at: number }>()((db, value, dialect) =>
  waitingAmong(db, value('ids'), dialect).set({
    state: 'cancelled',
    next_attempt_at: null,
    last_reply: value('reply'),
    settled_at: value('at'),
  }),
);

/** The statement that changes when a message that was not tried yet is sent first; touches no delivery that was. */
export const reschedule = define<{ message: string; due: number; expires_at: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set({ next_attempt_at: value('due'), expires_at: value('expires_at') })
    .where('message', '=', value('message'))
    .where('attempts', '=', 0)
    .where('next_attempt_at', '<', sql.lit(HELD))
    .where(waiting),
);

const byMessages = define<{ messages: string }>()((db, value, dialect) =>
  db
    .selectFrom('deliveries')
    .selectAll()
    .where('message', 'in', listed(value('messages'), dialect))
    .orderBy('id'),
);

/** The deliveries of these messages, in the order of their recipients. */
export function deliveriesOfMessages(store: Store, messages: readonly string[]): Promise<DeliveryRow[]> {
  return store.select(byMessages({ messages: JSON.stringify(messages) }));
}

/** A message's deliveries, in the order of its recipients. */
export function deliveriesOfMessage(store: Store, message: string): Promise<DeliveryRow[]> {
  return deliveriesOfMessages(store, [message]);
}

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('deliveries').selectAll().where('id', '=', value('id')),
);

/** The delivery with this id, or undefined. */
export async function findDelivery(store: Store, id: string): Promise<DeliveryRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

/** Which deliveries; all where nothing is named. */
export interface DeliveryFilter {
  readonly state?: DeliveryState | undefined;
  /** The recipients' domain. */
  readonly destination?: string | undefined;
  readonly tenant?: string | undefined;
  /** The domain that their mail is from. */
  readonly sender?: string | undefined;
  /** Only those enqueued before, ms. */
  readonly createdBefore?: number | undefined;
  /** Only those whose last reply is this. */
  readonly reply?: string | undefined;
}

type Condition = Expression<SqlBool>;

function matches(eb: ExpressionBuilder<Tables, 'deliveries'>, filter: DeliveryFilter): Condition {
  const { state, destination, tenant, sender, createdBefore, reply } = filter;
  const all: Condition[] = [];
  if (state !== undefined) all.push(eb('deliveries.state', '=', state));
  if (state !== undefined && state !== 'delivered') all.push(unsettled);
  if (destination !== undefined) all.push(eb('deliveries.destination', '=', destination));
  if (tenant !== undefined) all.push(eb('deliveries.tenant', '=', tenant));
  if (createdBefore !== undefined) all.push(eb('deliveries.created_at', '<', createdBefore));
  if (reply !== undefined) all.push(eb('deliveries.last_reply', '=', reply));
  if (sender !== undefined) {
    const message = eb.selectFrom('messages').select('messages.id').where('messages.domain', '=', sender);
    all.push(eb.exists(message.whereRef('messages.id', '=', 'deliveries.message')));
  }
  return eb.and(all);
}

export interface DeliveryPageFilter extends DeliveryFilter {
  /** Only those enqueued before this one. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Deliveries, newest first. */
export function selectDeliveries(
  store: Store,
  { before, limit, ...filter }: DeliveryPageFilter,
): Promise<DeliveryRow[]> {
  let query = store.read.selectFrom('deliveries').selectAll();
  query = query.where((eb) => matches(eb, filter));
  if (before !== undefined) query = query.where('id', '<', before);
  return query.orderBy('id', 'desc').limit(limit).execute();
}

export interface Stretch {
  readonly rows: readonly Pick<DeliveryRow, 'id' | 'destination' | 'next_attempt_at'>[];
  /** Where to go on; empty at the end. */
  readonly next: string;
}

interface Bounds {
  readonly after: string;
  readonly limit: number;
}

/** Those of the next `limit` deliveries in the filter's state that it lets through, oldest first: however many there are, one call is short. */
export async function stretchOf(store: Store, filter: DeliveryFilter, { after, limit }: Bounds): Promise<Stretch> {
  const next = await endOfStretch(store, filter, { after, limit });
  const rows = await store.read
    .selectFrom('deliveries')
    .select(['id', 'destination', 'next_attempt_at'])
    .where((eb) => matches(eb, filter))
    .where('id', '>', after)
    .where('id', '<=', next === '' ? LAST : next)
    .orderBy('id')
    .execute();
  return { rows, next };
}

/** The same where only their number matters. */
export async function countStretch(
  store: Store,
  filter: DeliveryFilter,
  { after, limit }: Bounds,
): Promise<{ readonly count: number; readonly next: string }> {
  const next = await endOfStretch(store, filter, { after, limit });
  const { count } = await store.read
    .selectFrom('deliveries')
    .select((eb) => eb.fn.countAll().as('count'))
    .where((eb) => matches(eb, filter))
    .where('id', '>', after)
    .where('id', '<=', next === '' ? LAST : next)
    .executeTakeFirstOrThrow();
  return { count: Number(count), next };
}

/** The last of the next `limit` deliveries in this state, or in any; empty where there are fewer. */
async function endOfStretch(
  store: Store,
  { state }: Pick<DeliveryFilter, 'state'>,
  { after, limit }: Bounds,
): Promise<string> {
  const [end] = await store.read
    .selectFrom('deliveries')
    .select('id')
    .where((eb) => matches(eb, { state }))
    .where('id', '>', after)
    .orderBy('id')
    .limit(1)
    .offset(limit - 1)
    .execute();
  return end?.id ?? '';
}

// Every try to deliver, one row each: when, where, over which TLS, and what the other side said.

/** The statement that records an attempt. */
export const insertAttempt = define<AttemptRow>()((db, value) =>
  db
    .insertInto('attempts')
    .values({
      delivery: value('delivery'),
      number: value('number'),
      at: value('at'),
      host: value('host'),
      address: value('address'),
      tls: value('tls'),
      outcome: value('outcome'),
      reply: value('reply'),
    })
    // One that was taken back as interrupted after all ended: the first word stands.
    .onConflict((conflict) => conflict.doNothing()),
);

const ofMessage = define<{ message: string }>()((db, value) =>
  db
    .selectFrom('attempts')
    .innerJoin('deliveries', 'deliveries.id', 'attempts.delivery')
    .selectAll('attempts')
    .where('deliveries.message', '=', value('message'))
    .orderBy('attempts.delivery')
    .orderBy('attempts.number'),
);

/** Of a recipient, or of all of a destination. */
export type RecentAttempt = AttemptRow & { readonly recipient: string; readonly message: string };

/** So many deliveries are looked through at most for those of one address: a table of millions is not. */
const NEWEST = 20_000;

const recent = define<{ recipient: string; destination: string; limit: number }>()((db, value) =>
  db
    .selectFrom((eb) =>
      eb
        .selectFrom('deliveries')
        .select(['id', 'message', 'recipient', 'destination'])
        .orderBy('id', 'desc')
        .limit(NEWEST)
        .as('newest'),
    )
    .innerJoin('attempts', 'attempts.delivery', 'newest.id')
    .selectAll('attempts')
    .select(['newest.recipient', 'newest.message'])
    .where((eb) =>
      eb.or([
        eb(eb.fn<string>('lower', ['newest.recipient']), '=', value('recipient')),
        eb('newest.destination', '=', value('destination')),
      ]),
    )
    .orderBy('attempts.at', 'desc')
    .orderBy('attempts.number', 'desc')
    .limit(value('limit')),
);

/** The last attempts to deliver to this address, among the newest 20,000 deliveries; newest first. */
export function recentAttemptsTo(store: Store, recipient: string, limit: number): Promise<RecentAttempt[]> {
  return store.select(recent({ recipient: recipient.toLowerCase(), destination: '', limit }));
}

/** The same to whatever address of the destination. */
export function recentAttemptsAt(store: Store, destination: string, limit: number): Promise<RecentAttempt[]> {
  return store.select(recent({ recipient: '', destination, limit }));
}

/** All attempts of a message, by delivery and number. */
export function attemptsOfMessage(store: Store, message: string): Promise<AttemptRow[]> {
  return store.select(ofMessage({ message }));
}
