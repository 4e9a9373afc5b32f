/** What became of mail that was asked for: its recipients one by one, and all of it in a word. */
import { attemptsOfMessage } from '../store/attempts.ts';
import { deliveriesOfMessages, HELD } from '../store/deliveries.ts';
import { complaintsOf } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import type { AttemptRow, DeliveryRow, DeliveryState, MessageRow } from '../store/tables.ts';
import { readEmail, type KeptEmail } from './email.ts';

/** `scheduled`: not due yet. `complained`: a recipient called it spam. Else the state that is farthest from a good end. */
export const STATUSES = [
  'scheduled',
  'queued',
  'sending',
  'deferred',
  'complained',
  'bounced',
  'expired',
  'suppressed',
  'cancelled',
  'captured',
  'delivered',
] as const;

export type Status = (typeof STATUSES)[number];

export interface SentMessage {
  readonly message: MessageRow;
  readonly email: KeptEmail;
  readonly deliveries: readonly DeliveryRow[];
  readonly status: Status;
}

export interface SentInFull extends SentMessage {
  readonly attempts: ReadonlyMap<string, readonly AttemptRow[]>;
}

/** These messages, each with its deliveries, in the same order. */
export async function sentMessages(store: Store, messages: readonly MessageRow[], now: number): Promise<SentMessage[]> {
  const ids = messages.map(({ id }) => id);
  const [deliveries, complained] = await Promise.all([deliveriesOfMessages(store, ids), complaintsOf(store, ids)]);
  const byMessage = Map.groupBy(deliveries, ({ message }) => message);
  return messages.map((message) => {
    const own = byMessage.get(message.id) ?? [];
    const status = complained.has(message.id) ? 'complained' : statusOf(own, now);
    return { message, email: readEmail(message.source), deliveries: own, status };
  });
}

/** One message with every attempt, by delivery. */
export async function sentInFull(store: Store, message: MessageRow, now: number): Promise<SentInFull | undefined> {
  // In this order: a delivery that is seen to have ended has its last attempt.
  const [sent] = await sentMessages(store, [message], now);
  const attempts = await attemptsOfMessage(store, message.id);
  return sent && { ...sent, attempts: Map.groupBy(attempts, ({ delivery }) => delivery) };
}

function statusOf(deliveries: readonly DeliveryRow[], now: number): Status {
  const states = new Set<DeliveryState>(deliveries.map(({ state }) => state));
  if (deliveries.length > 0 && deliveries.every((row) => isScheduled(row, now))) return 'scheduled';
  return STATUSES.find((status) => status !== 'scheduled' && status !== 'complained' && states.has(status)) ?? 'queued';
}

function isScheduled({ state, attempts, next_attempt_at: due }: DeliveryRow, now: number): boolean {
  return state === 'queued' && attempts === 0 && due !== null && due > now && due < HELD;
}
