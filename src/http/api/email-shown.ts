/** A mail that was asked for, as the API shows it: in our words, and in those of Resend's clients. */
import { z } from 'zod';
import { formatMailbox } from '../../lib/addresses.ts';
import { isoTime } from '../../lib/clock.ts';
import { HELD } from '../../store/deliveries.ts';
import type { AttemptRow, DeliveryRow } from '../../store/tables.ts';
import { messageIdOf, STATUSES, type SentInFull, type SentMessage, type Status } from '../../transactional/email.ts';

const time = z.iso.datetime();
const tags = z.array(z.object({ name: z.string(), value: z.string() }));
const summary = {
  id: z.string(),
  message_id: z.string().describe('The Message-ID header.'),
  environment: z.enum(['live', 'test']),
  status: z.enum(STATUSES).describe('Of the recipient that is farthest from a good end.'),
  from: z.string(),
  to: z.array(z.string()),
  cc: z.array(z.string()),
  bcc: z.array(z.string()),
  reply_to: z.array(z.string()),
  subject: z.string(),
  tags,
  created_at: time,
  send_at: time.nullable().describe('When it was to be sent; null: at once.'),
};

export const emailSummary = z.object(summary);

export const emailShown = z.object({
  ...summary,
  text: z.string().nullable().describe('null once it is kept no longer (`retention.message_bodies` of the server).'),
  html: z.string().nullable(),
  headers: z.record(z.string(), z.string()).describe('Those beside what every mail has.'),
  attachments: z.array(z.object({ filename: z.string(), content_type: z.string(), size: z.int() })),
  recipients: z.array(
    z.object({
      address: z.string(),
      state: z.enum(STATUSES),
      next_attempt_at: time.nullable(),
      reply: z.string().nullable().describe('The last words of the other side, or ours.'),
      attempts: z.array(
        z.object({
          at: time,
          host: z.string().nullable().describe('The MX host.'),
          address: z.string().nullable(),
          tls: z.string().nullable().describe('TLS version; null for clear text.'),
          outcome: z.string(),
          reply: z.string(),
        }),
      ),
    }),
  ),
});

/** As lists have it. */
export function shownSummary({ message, email, status }: SentMessage): z.input<typeof emailSummary> {
  return {
    id: message.id,
    message_id: email.message_id ?? messageIdOf(message.id, message.domain),
    environment: message.environment,
    status,
    from: formatMailbox(email.from),
    to: email.to.map(formatMailbox),
    cc: email.cc.map(formatMailbox),
    bcc: email.bcc.map(formatMailbox),
    reply_to: email.reply_to.map(formatMailbox),
    subject: email.subject,
    tags: email.tags,
    created_at: isoTime(message.created_at),
    send_at: email.send_at === undefined ? null : isoTime(email.send_at),
  };
}

export function shownEmail(sent: SentInFull): z.input<typeof emailShown> {
  const { email, deliveries, attempts } = sent;
  return {
    ...shownSummary(sent),
    text: email.text,
    html: email.html ?? null,
    headers: Object.fromEntries(email.headers),
    attachments: email.attachments,
    recipients: deliveries.map((row) => shownRecipient(row, attempts.get(row.id) ?? [])),
  };
}

function shownRecipient(
  { recipient, state, next_attempt_at: due, last_reply }: DeliveryRow,
  tries: readonly AttemptRow[],
) {
  return {
    address: recipient,
    state,
    next_attempt_at: due === null || due === HELD ? null : isoTime(due),
    reply: last_reply,
    attempts: tries.map(({ at, host, address, tls, outcome, reply }) => {
      return { at: isoTime(at), host, address, tls, outcome, reply };
    }),
  };
}

const LAST_EVENT = {
  scheduled: 'scheduled',
  queued: 'queued',
  sending: 'sent',
  deferred: 'delivery_delayed',
  complained: 'complained',
  bounced: 'bounced',
  expired: 'bounced',
  suppressed: 'suppressed',
  cancelled: 'canceled',
  captured: 'delivered',
  delivered: 'delivered',
} as const satisfies Readonly<Record<Status, string>>;

const resendEmail = {
  id: z.string(),
  message_id: z.string(),
  from: z.string(),
  to: z.array(z.string()),
  cc: z.array(z.string()).nullable(),
  bcc: z.array(z.string()).nullable(),
  reply_to: z.array(z.string()).nullable(),
  subject: z.string(),
  last_event: z.enum(Object.values(LAST_EVENT)),
  created_at: time,
  scheduled_at: time.nullable(),
};

export const resendListed = z.object(resendEmail);

export const resendShown = z.object({
  object: z.literal('email'),
  ...resendEmail,
  text: z.string().nullable(),
  html: z.string().nullable(),
  tags,
});

export function listedForResend(sent: SentMessage): z.input<typeof resendListed> {
  const { id, message_id, from, to, cc, bcc, reply_to, subject, created_at, send_at } = shownSummary(sent);
  const last_event = LAST_EVENT[sent.status];
  const others = { cc: orNull(cc), bcc: orNull(bcc), reply_to: orNull(reply_to) };
  return { id, message_id, from, to, ...others, subject, last_event, created_at, scheduled_at: send_at };
}

export function shownForResend(sent: SentMessage): z.input<typeof resendShown> {
  const { text, html = null, tags: words } = sent.email;
  return { object: 'email', ...listedForResend(sent), text, html, tags: words };
}

function orNull(list: string[]): string[] | null {
  return list.length === 0 ? null : list;
}
