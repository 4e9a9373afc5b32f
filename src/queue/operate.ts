/**
 * What the operator does with the queue: look, try now, cancel, hold a destination and release it. It works on the rows
 * alone, in whatever thread or daemon; afterwards somebody should wake the worker. A delivery that is being tried just
 * then is left to its try.
 */
import { attemptsOfMessage } from '../store/attempts.ts';
import {
  deliveriesOfMessage,
  endWaiting,
  findDelivery,
  makeDue,
  selectDeliveries,
  type DeliveryFilter,
} from '../store/deliveries.ts';
import { clearFailures, heldDestinations, recomputeDue, setHeld } from '../store/destinations.ts';
import { findMessage } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../store/tables.ts';

export interface DeliveryPage {
  /** Newest first. */
  readonly deliveries: readonly DeliveryRow[];
  /** `before` of the next page; null after the last. */
  readonly next: string | null;
}

export interface ShownMessage {
  readonly message: MessageRow;
  readonly deliveries: readonly (DeliveryRow & { readonly tries: readonly AttemptRow[] })[];
}

export type Operated =
  /** Ids of the deliveries that it was done to, and which of their destinations are held. */
  | { readonly kind: 'done'; readonly deliveries: readonly string[]; readonly held: readonly string[] }
  /** Nothing of it waits: each delivery is over or being tried. */
  | { readonly kind: 'not-waiting'; readonly states: readonly DeliveryRow['state'][] }
  | { readonly kind: 'unknown' };

/** One page of deliveries, at most `limit` of them. */
export async function listDeliveries(store: Store, filter: DeliveryFilter): Promise<DeliveryPage> {
  const rows = await selectDeliveries(store, { ...filter, limit: filter.limit + 1 });
  const deliveries = rows.slice(0, filter.limit);
  return { deliveries, next: rows.length > filter.limit ? (deliveries.at(-1)?.id ?? null) : null };
}

/** The message with this id, or that of the delivery with this id, with every delivery and attempt. */
export async function showMessage(store: Store, id: string): Promise<ShownMessage | undefined> {
  const messageId = id.startsWith('dlv_') ? (await findDelivery(store, id))?.message : id;
  const message = messageId === undefined ? undefined : await findMessage(store, messageId);
  if (message === undefined) return undefined;
  // In this order: a delivery that is seen to have ended has its last attempt.
  const deliveries = await deliveriesOfMessage(store, message.id);
  const attempts = await attemptsOfMessage(store, message.id);
  const byDelivery = Map.groupBy(attempts, ({ delivery }) => delivery);
  return { message, deliveries: deliveries.map((row) => ({ ...row, tries: byDelivery.get(row.id) ?? [] })) };
}

/** Which of their destinations the operator holds. */
export function heldAmong(store: Store, rows: readonly DeliveryRow[]): Promise<string[]> {
  return heldDestinations(store, namesOf(rows));
}

/** Makes what waits of a message or delivery due now, and ends the pause of its destination. A hold stays. */
export function retryNow(store: Store, id: string, now: number): Promise<Operated> {
  return operate(store, id, (rows) => {
    const names = namesOf(rows);
    return store.write([
      ...rows.map((row) => makeDue({ id: row.id, due: now })),
      ...names.map((name) => clearFailures({ name })),
      ...names.map((name) => recomputeDue({ name })),
    ]);
  });
}

/** Ends what waits of a message or delivery for good. */
export function cancel(store: Store, id: string, now: number): Promise<Operated> {
  return end(store, id, { reply: 'cancelled by the operator', at: now });
}

/** The same at the word of whoever sent it. */
export function withdraw(store: Store, message: string, now: number): Promise<Operated> {
  return end(store, message, { reply: 'cancelled by the sender', at: now });
}

function end(store: Store, id: string, word: { readonly reply: string; readonly at: number }): Promise<Operated> {
  return operate(store, id, (rows) => {
    return store.write([
      ...rows.map((row) => endWaiting({ id: row.id, state: 'cancelled', ...word })),
      ...namesOf(rows).map((name) => recomputeDue({ name })),
    ]);
  });
}

/**
 * Lets nothing more of the destination (a domain name) be claimed until it is released; what is claimed already, a few
 * moments' worth, still goes. Nothing of it expires meanwhile.
 */
export async function hold(store: Store, destination: string): Promise<void> {
  await store.write([setHeld({ name: destination, held: 1 })]);
}

/** Ends the hold of a destination, and its pause. */
export async function release(store: Store, destination: string): Promise<void> {
  const name = { name: destination };
  await store.write([setHeld({ ...name, held: 0 }), clearFailures(name), recomputeDue(name)]);
}

async function operate(
  store: Store,
  id: string,
  change: (rows: readonly DeliveryRow[]) => Promise<readonly { readonly changes: number }[]>,
): Promise<Operated> {
  const one = id.startsWith('dlv_') ? await findDelivery(store, id) : undefined;
  const rows = one === undefined ? await deliveriesOfMessage(store, id) : [one];
  if (rows.length === 0) return { kind: 'unknown' };
  const waiting = rows.filter(({ state }) => state === 'queued' || state === 'deferred');
  const results = waiting.length === 0 ? [] : await change(waiting);
  const deliveries = waiting.flatMap((row, i) => (results[i]?.changes === 1 ? [row.id] : []));
  if (deliveries.length > 0) return { kind: 'done', deliveries, held: await heldAmong(store, waiting) };
  return { kind: 'not-waiting', states: rows.map(({ state }) => state) };
}

function namesOf(rows: readonly DeliveryRow[]): string[] {
  return [...new Set(rows.map(({ destination }) => destination))].sort();
}
