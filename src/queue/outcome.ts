/** What the end of a try means for a delivery: the rows that say so, in one unit, and the line in the log. */
import { isoTime } from '../lib/clock.ts';
import type { Fields } from '../lib/log.ts';
import { bounceMeaning, type Asked, type BounceClass, type BounceMeaning } from '../mail/bounce-class.ts';
import {
  insertAttempt,
  deferDelivery,
  endWaiting,
  giveBack,
  parkDelivery,
  putOff,
  settleDelivery,
  waitForPlan,
  type SettledState,
} from '../store/deliveries.ts';
import type { ClaimedRow } from '../store/leases.ts';
import { recordEvent, type EventType } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import { suppress } from '../store/suppressions.ts';
import type { AttemptRow, DeliveryRow, MessageRow, SuppressionRow } from '../store/tables.ts';
import { isWebhook, type FailedRecipient, type Peer } from './transport.ts';

export interface Ending {
  /** `told` goes into the event that tells of a failure. */
  readonly unit: (told: Fields) => readonly Statement[];
  /** It will never arrive. */
  readonly failure?: { readonly message: MessageRow; readonly recipient: FailedRecipient } | undefined;
  /** For the log, once the unit is on the disk. */
  readonly event: string;
  readonly fields: Fields;
}

/** A claimed delivery, whose message may be gone meanwhile. */
export interface Tried {
  readonly row: ClaimedRow;
  readonly owner: string;
  readonly message: MessageRow | undefined;
  readonly now: number;
}

interface Words extends Peer {
  readonly reply: string;
  readonly after?: Asked | undefined;
  readonly complained?: true;
}

const EVENTS: Readonly<Record<SettledState, EventType>> = {
  delivered: 'email.delivered',
  bounced: 'email.bounced',
  expired: 'email.bounced',
  suppressed: 'email.suppressed',
  captured: 'email.delivered',
};

/** The delivery is over. */
export function settled(
  tried: Tried,
  state: 'delivered' | 'bounced' | 'suppressed' | 'captured',
  words: Words,
): Ending {
  const { row, owner, now } = tried;
  const { id, attempts } = row;
  const meaning = meaningOf(words);
  const reason = reasonToSuppress(tried, words, state === 'bounced' && meaning.suppress);
  return {
    unit: (told) => [
      settleDelivery({ id, owner, attempts, state, reply: words.reply, at: now }, 1),
      // A suppressed recipient was never tried.
      ...(state === 'suppressed' ? [] : [attempt(tried, state, words)]),
      ...eventOf(tried, EVENTS[state], {
        state,
        ...said(words),
        ...(state === 'bounced' && { class: meaning.class }),
        attempt: attempts,
        ...told,
      }),
      ...(words.complained === true ? eventOf(tried, 'email.complained', {}) : []),
      ...(reason === undefined
        ? []
        : [suppress({ tenant: row.tenant, address: row.recipient, reason, created_at: now })]),
    ],
    failure: state === 'bounced' || state === 'suppressed' ? failureOf(tried, words, meaning.class) : undefined,
    event: `delivery.${state}`,
    fields: lineOf(tried, words),
  };
}

/** The delivery is tried again when `due`. */
export function deferred(tried: Tried, due: number, words: Words): Ending {
  const { row, owner } = tried;
  const { id, attempts } = row;
  return {
    unit: () => [
      deferDelivery({ id, owner, attempts, reply: words.reply, due }, 1),
      attempt(tried, 'deferred', words),
      ...eventOf(tried, 'email.deferred', {
        ...said(words),
        class: meaningOf(words).class,
        attempt: attempts,
        next_attempt_at: isoTime(due),
      }),
    ],
    event: 'delivery.deferred',
    fields: { ...lineOf(tried, words), next_attempt_at: isoTime(due) },
  };
}

/** The delivery was claimed and not tried: its tenant has sent as much as it may until `due`. */
export function waitsForPlan(tried: Tried, due: number, reply: string): Ending {
  const { row, owner, now } = tried;
  const { id, attempts } = row;
  const words = { reply, host: null, address: null, tls: null };
  return {
    unit: () => [
      waitForPlan({ id, owner, attempts, due, reply, wait: Math.max(0, due - now) }, 1),
      ...eventOf(tried, 'email.deferred', { ...said(words), attempt: 0, next_attempt_at: isoTime(due) }),
    ],
    event: 'delivery.deferred',
    fields: { ...lineOf(tried, words), next_attempt_at: isoTime(due) },
  };
}

/** The daemon stopped in the middle, and the message may have arrived: the try counts, the next comes when its claim said. */
export function interrupted(tried: Tried, due: number, words: Words): Ending {
  const { row, owner } = tried;
  const { id, attempts } = row;
  return {
    unit: () => [
      deferDelivery({ id, owner, attempts, reply: words.reply, due }, 1),
      attempt(tried, 'interrupted', words),
    ],
    event: 'delivery.interrupted',
    fields: lineOf(tried, words),
  };
}

/** The delivery was claimed and must wait, for a reason that it shows; the try does not count. */
export function waits({ row, owner }: Tried, due: number, reply: string): Ending {
  const { id, attempts, message, recipient } = row;
  return {
    unit: () => [putOff({ id, owner, attempts, due, reply }, 1)],
    event: 'delivery.waits',
    fields: { message, delivery: id, recipient, reply, next_attempt_at: isoTime(due) },
  };
}

/** The delivery was claimed and not tried. */
export function untried({ row, owner, now }: Tried): Ending {
  const { id, attempts, message, recipient } = row;
  return {
    unit: () => [giveBack({ id, owner, attempts, due: now }, 1)],
    event: 'delivery.returned',
    fields: { message, delivery: id, recipient },
  };
}

/** The delivery was claimed and not tried: it waits until its recipient agrees, for so long at most. */
export function parked({ row, owner }: Tried, { reply, expires_at }: { reply: string; expires_at: number }): Ending {
  const { id, attempts, message, recipient } = row;
  return {
    unit: () => [parkDelivery({ id, owner, attempts, reply, expires_at }, 1)],
    event: 'delivery.parked',
    fields: { message, delivery: id, recipient, reply },
  };
}

/** The delivery waited as long as it may. */
export function expired(row: DeliveryRow, message: MessageRow | undefined, now: number): Ending {
  const reply = `550 4.4.7 given up after ${row.attempts} tries${row.last_reply === null ? '' : `; the last: ${row.last_reply}`}`;
  const { id, attempts } = row;
  const host = { host: null, address: null, tls: null };
  // Why it could not be delivered all the time, and no word on the address: it was never refused for good.
  const last = bounceMeaning({ words: row.last_reply ?? '' });
  return {
    unit: (told) => [
      endWaiting({ id, state: 'expired', reply, at: now }, 1),
      insertAttempt({ delivery: id, number: attempts + 1, at: now, ...host, outcome: 'expired', reply }),
      ...eventOf({ row, message, now }, EVENTS.expired, {
        state: 'expired',
        reply,
        class: last.class,
        attempt: attempts,
        ...host,
        ...told,
      }),
    ],
    failure: failureOf({ row, message }, { reply, ...host }, last.class),
    event: 'delivery.expired',
    fields: { message: row.message, delivery: id, recipient: row.recipient, reply, attempts },
  };
}

/**
 * A complaint, or word that there is no such mailbox: but for mail to an owner, whose leads must not end at a slip of
 * their own server, and for the tests of a tenant, which must not stop its mail.
 */
function reasonToSuppress(
  { message }: Tried,
  { complained }: Words,
  isGone: boolean,
): SuppressionRow['reason'] | undefined {
  if (complained === true) return 'complaint';
  if (!isGone || message?.environment !== 'live') return undefined;
  return message.kind === 'transactional' || message.kind === 'acknowledgment' ? 'bounce' : undefined;
}

function failureOf(
  { row, message }: { row: About; message: MessageRow | undefined },
  { reply, host }: Words,
  why: BounceClass,
): Ending['failure'] {
  if (message === undefined || isWebhook(row.destination)) return undefined;
  return { message, recipient: { address: row.recipient, reply, host, class: why } };
}

function meaningOf({ reply, after }: Words): BounceMeaning {
  return bounceMeaning({ words: reply, after });
}

function said({ reply, host, address, tls }: Words): Fields {
  return { reply, host, address, tls };
}

function attempt({ row, now }: Tried, outcome: Exclude<AttemptRow['outcome'], 'expired'>, words: Words) {
  const { host, address, tls, reply } = words;
  return insertAttempt({ delivery: row.id, number: row.attempts, at: now, host, address, tls, outcome, reply });
}

type About = Pick<ClaimedRow, 'id' | 'tenant' | 'recipient' | 'message' | 'destination'>;

/** What becomes of a webhook delivery is no event: webhooks would be told of it. */
function eventOf(
  { row, message, now }: { row: About; message: MessageRow | undefined; now: number },
  type: EventType,
  more: Fields,
): Statement[] {
  if (isWebhook(row.destination)) return [];
  const event = recordEvent({
    type,
    tenant: row.tenant,
    at: now,
    data: {
      delivery: row.id,
      recipient: row.recipient,
      ...more,
      ...(message?.environment === 'test' && { environment: 'test' }),
    },
    message: row.message,
    ...(message === undefined ? {} : { domain: message.domain }),
    ...(message === undefined || message.submission === null ? {} : { submission: message.submission }),
  });
  return [event];
}

function lineOf({ row }: Tried, { host, address, tls, reply }: Words): Fields {
  const { id, message, recipient, destination, attempts } = row;
  const whom = isWebhook(destination) ? { destination } : {};
  return { message, delivery: id, recipient, ...whom, attempt: attempts, host, address, tls, reply };
}
