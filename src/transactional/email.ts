/** What is kept of a mail that a program asks for until it is sent, and what became of it. */
import { z } from 'zod';
import { kept as shown, status } from '../contract/email.ts';
import { attemptsOfMessage, deliveriesOfMessages, HELD } from '../store/messages.ts';
import { complaintsOf } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import type { DeliveryRow, DeliveryState, MessageRow } from '../store/tables.ts';

const mailbox = z.object({ name: z.string().optional(), address: z.string() });
const kept = z.object({
  from: mailbox,
  to: z.array(mailbox),
  cc: z.array(mailbox),
  bcc: z.array(mailbox),
  reply_to: z.array(mailbox),
  subject: z.string(),
  /** Null once what it said is kept no longer. */
  text: z.string().nullable(),
  html: z.string().optional(),
  headers: z.array(z.tuple([z.string(), z.string()])),
  ...shown,
  send_at: z.int().optional(),
  /** Of mail that came as it is to be sent (SMTP submission): where its bytes are (`inb_…`). */
  raw: z.string().optional(),
  /** The Message-ID that it came with. */
  message_id: z.string().optional(),
});

/** `source` of a message of the kind `transactional`: rendered already, so that a template that fails is told at once. */
export type KeptEmail = z.output<typeof kept>;

export function readEmail(json: string): KeptEmail {
  return kept.parse(JSON.parse(json));
}

/** The same without what the mail said: how long that is kept is the operator's to say. */
export function withoutWords(json: string): string {
  const { html: _, ...email } = readEmail(json);
  return JSON.stringify({ ...email, text: null } satisfies KeptEmail);
}

export interface Fault {
  readonly kind: 'fault';
  readonly code:
    | 'VALIDATION_FAILED'
    | 'DOMAIN_NOT_VERIFIED'
    | 'AUTH_DOMAIN_NOT_ALLOWED'
    | 'TEMPLATE_NOT_FOUND'
    | 'NOT_FOUND'
    | 'BODY_TOO_LARGE';
  /** Of the value that is wrong, where it is one: `from`, `headers.X-Id`. */
  readonly path?: string;
  /** Where there is a path, what follows it in a sentence without a full stop; else a sentence. */
  readonly message: string;
}

/** A value that is wrong. */
export function faultAt(path: string, message: string): Fault {
  return { kind: 'fault', code: 'VALIDATION_FAILED', path, message };
}

/** Anything else. */
export function fault(code: Exclude<Fault['code'], 'VALIDATION_FAILED'>, message: string): Fault {
  return { kind: 'fault', code, message };
}

export type Status = z.output<typeof status>;

export interface SentMessage {
  readonly message: MessageRow;
  readonly email: KeptEmail;
  readonly deliveries: readonly DeliveryRow[];
  readonly status: Status;
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
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- what it shows beside the message is one map
export async function sentInFull(store: Store, message: MessageRow, now: number) {
  // In this order: a delivery that is seen to have ended has its last attempt.
  const [sent] = await sentMessages(store, [message], now);
  const attempts = await attemptsOfMessage(store, message.id);
  return sent && { ...sent, attempts: Map.groupBy(attempts, ({ delivery }) => delivery) };
}

/** The worst status of these deliveries of a message. */
export function statusOf(deliveries: readonly DeliveryRow[], now: number): Status {
  const states = new Set<DeliveryState>(deliveries.map(({ state }) => state));
  if (deliveries.length > 0 && deliveries.every((row) => isScheduled(row, now))) return 'scheduled';
  return status.options.find((one) => one !== 'scheduled' && one !== 'complained' && states.has(one)) ?? 'queued';
}

function isScheduled({ state, attempts, next_attempt_at: due }: DeliveryRow, now: number): boolean {
  return state === 'queued' && attempts === 0 && due !== null && due > now && due < HELD;
}
