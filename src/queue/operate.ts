/**
 * What the operator does with the queue: look, try now, cancel, hold a destination and release it. It works on the rows
 * alone, in whatever thread or daemon; afterwards somebody should wake the worker. A delivery that is being tried just
 * then is left to its try.
 */
import { setImmediate } from 'node:timers/promises';
import { clearFailures, heldDestinations, recomputeDueAmong, RELAY, setHeld } from '../store/destinations.ts';
import {
  attemptsOfMessage,
  cancelAmong,
  countStretch,
  deliveriesOfMessage,
  endWaiting,
  findDelivery,
  findMessage,
  HELD,
  holdAmong,
  makeDue,
  makeDueAmong,
  releaseAmong,
  requeueDelivery,
  selectDeliveries,
  stretchOf,
  SUSPENDED,
  type DeliveryFilter,
  type DeliveryPageFilter,
} from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../store/tables.ts';

export type Operated =
  /** Ids of the deliveries that it was done to, and which of their destinations are held. */
  | { readonly kind: 'done'; readonly deliveries: readonly string[]; readonly held: readonly string[] }
  /** Nothing of it waits: each delivery is over or being tried. */
  | { readonly kind: 'not-waiting'; readonly states: readonly DeliveryRow['state'][] }
  | { readonly kind: 'unknown' };

const CANCELLED = 'cancelled by the operator';

/** One page of deliveries, newest first, at most `limit` of them; `next` is `before` of the next page, null after the last. */
export async function listDeliveries(
  store: Store,
  filter: DeliveryPageFilter,
): Promise<{ deliveries: DeliveryRow[]; next: string | null }> {
  const rows = await selectDeliveries(store, { ...filter, limit: filter.limit + 1 });
  const deliveries = rows.slice(0, filter.limit);
  return { deliveries, next: rows.length > filter.limit ? (deliveries.at(-1)?.id ?? null) : null };
}

/** The message with this id, or that of the delivery with this id, with every delivery and attempt. */
export async function showMessage(
  store: Store,
  id: string,
): Promise<{ message: MessageRow; deliveries: (DeliveryRow & { tries: AttemptRow[] })[] } | undefined> {
  const messageId = isDelivery(id) ? (await findDelivery(store, id))?.message : id;
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

/** Makes what waits of a message or delivery due now, and ends the pause of its destination and of the smarthost. A hold stays. */
export function retryNow(store: Store, id: string, now: number): Promise<Operated> {
  return operate(store, id, {
    act: (row) => makeDue({ id: row, due: now }),
    more: (names) => clearFailures({ names: [...names, RELAY] }),
  });
}

/** Ends what waits of a message or delivery for good. */
export function cancel(store: Store, id: string, now: number): Promise<Operated> {
  return operate(store, id, { act: (row) => endWaiting({ id: row, state: 'cancelled', reply: CANCELLED, at: now }) });
}

/** The same at the word of whoever sent it. */
export function withdraw(store: Store, id: string, now: number): Promise<Operated> {
  const reply = 'cancelled by the sender';
  return operate(store, id, { act: (row) => endWaiting({ id: row, state: 'cancelled', reply, at: now }) });
}

/** States that a delivery begins anew from. */
const FAILED: ReadonlySet<DeliveryRow['state']> = new Set(['bounced', 'expired', 'cancelled', 'suppressed']);

/** The deliveries of a message that have failed. */
export async function failedDeliveries(store: Store, message: string): Promise<DeliveryRow[]> {
  return (await deliveriesOfMessage(store, message)).filter(({ state }) => FAILED.has(state));
}

/**
 * The unit that queues failed deliveries of a message again; it is unmet where one of them is not failed any more.
 */
export function requeue(
  rows: readonly DeliveryRow[],
  { created_at, expires_at }: Pick<MessageRow, 'created_at' | 'expires_at'>,
  now: number,
): Statement[] {
  const again = { due: now, expires_at: now + expires_at - created_at };
  return [...rows.map(({ id }) => requeueDelivery({ id, ...again }, 1)), recomputeDueAmong({ names: namesOf(rows) })];
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
  const names = [destination];
  await store.write([setHeld({ name: destination, held: 0 }), clearFailures({ names }), recomputeDueAmong({ names })]);
}

/** `resume`: as `retry`, but pauses of destinations stay. */
type AnyAction = 'retry' | 'cancel' | 'hold' | 'release' | 'resume';

/** So many deliveries are changed in one commit, */
const STRETCH = 500;
/** and counted in one turn. */
const COUNTED = 2000;

interface Acting {
  /** Which waiting deliveries it concerns, by the time of their next try. */
  readonly concerns: (next: number | null) => boolean;
  /** What it does to them. */
  readonly act: (ids: readonly string[], now: number) => Statement;
}

const MAKE_DUE: Acting = {
  concerns: (next) => next !== null && next < HELD,
  act: (ids, due) => makeDueAmong({ ids, due }),
};

const ACTIONS: Readonly<Record<AnyAction, Acting>> = {
  retry: MAKE_DUE,
  resume: MAKE_DUE,
  cancel: { concerns: () => true, act: (ids, at) => cancelAmong({ ids, at, reply: CANCELLED }) },
  hold: { concerns: (next) => next !== HELD, act: (ids) => holdAmong({ ids }) },
  release: { concerns: (next) => next === HELD, act: (ids, due) => releaseAmong({ ids, due }) },
};

/**
 * Does it to all that waits and that the filter lets through, some hundred at a time in a few statements, so that nobody
 * else waits for it. Answers how many that were. What is retried ends the pause of its destination; what is held neither
 * leaves nor expires until it is released. A dry run only counts.
 */
export async function actOnMany(
  store: Store,
  action: AnyAction,
  { filter, now, dryRun = false }: { filter: DeliveryFilter; now: number; dryRun?: boolean },
): Promise<number> {
  const { concerns, act } = ACTIONS[action];
  let count = 0;
  for (const state of ['queued', 'deferred'] as const) {
    if (filter.state !== undefined && filter.state !== state) continue;
    let after = '';
    do {
      const { rows, next } = await stretchOf(store, { ...filter, state }, { after, limit: STRETCH });
      after = next;
      const concerned = rows.filter(({ next_attempt_at: at }) => concerns(at));
      if (dryRun) count += concerned.length;
      else if (concerned.length > 0) {
        const names = namesOf(concerned);
        const [result] = await store.write([
          act(
            concerned.map(({ id }) => id),
            now,
          ),
          ...(action === 'retry' ? [clearFailures({ names: [...names, RELAY] })] : []),
          recomputeDueAmong({ names }),
        ]);
        count += result?.changes ?? 0;
      }
      // Reading is done in this thread: others have their turn.
      await setImmediate();
    } while (after !== '');
  }
  return count;
}

/** How many deliveries the filter lets through, up to `most`. */
export async function countDeliveries(store: Store, filter: DeliveryFilter, most = Infinity): Promise<number> {
  let count = 0;
  let after = '';
  do {
    const stretch = await countStretch(store, filter, { after, limit: COUNTED });
    count += stretch.count;
    after = stretch.next;
    await setImmediate();
  } while (after !== '' && count < most);
  return Math.min(count, most);
}

/** Makes due what was put off because the tenant was suspended. */
export async function resume(store: Store, tenant: string, now: number): Promise<void> {
  await actOnMany(store, 'resume', { filter: { tenant, reply: SUSPENDED }, now });
}

async function operate(
  store: Store,
  id: string,
  does: {
    readonly act: (delivery: string) => Statement;
    readonly more?: (destinations: readonly string[]) => Statement;
  },
): Promise<Operated> {
  const one = isDelivery(id) ? await findDelivery(store, id) : undefined;
  const rows = one === undefined ? await deliveriesOfMessage(store, id) : [one];
  if (rows.length === 0) return { kind: 'unknown' };
  const waiting = rows.filter(({ state }) => state === 'queued' || state === 'deferred');
  const names = namesOf(waiting);
  const more = does.more === undefined ? [] : [does.more(names)];
  const unit = [...waiting.map((row) => does.act(row.id)), ...more, recomputeDueAmong({ names })];
  const results = waiting.length === 0 ? [] : await store.write(unit);
  const deliveries = waiting.flatMap((row, i) => (results[i]?.changes === 1 ? [row.id] : []));
  if (deliveries.length > 0) return { kind: 'done', deliveries, held: await heldDestinations(store, names) };
  return { kind: 'not-waiting', states: rows.map(({ state }) => state) };
}

/** Of mail, or of a webhook. */
function isDelivery(id: string): boolean {
  return id.startsWith('dlv_') || id.startsWith('whd_');
}

function namesOf(rows: readonly Pick<DeliveryRow, 'destination'>[]): string[] {
  return [...new Set(rows.map(({ destination }) => destination))].sort();
}
