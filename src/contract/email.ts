/** Mail that programs send, in this API's format and in Resend's, and the suppression list. */
import { z } from 'zod';
import { parseMailbox } from '../lib/addresses.ts';
import { route } from './route.ts';
import { environment, listing, listingByName, mailAddress, optionalTime, page, parsed, time } from './values.ts';

const MAX_EMAILS = 100;
const MAX_ATTACHMENTS = 100;
const MAX_TAGS = 50;
const MAX_DATA_BYTES = 1 << 20;
const MAX_PART_LENGTH = 2 << 20;

const ADDRESS = 'must be one email address, such as ana@example.com or Ana <ana@example.com>';
const ADDRESSES = `${ADDRESS}, or a list of them`;

const mailbox = parsed(parseMailbox, ADDRESS);
const someone = z.union([mailbox, z.array(mailbox).min(1)], { error: ADDRESSES }).transform((one) => [one].flat());
const anyone = z.union([mailbox, z.array(mailbox)], { error: ADDRESSES }).transform((one) => [one].flat());

const content = parsed((text) => {
  const bytes = Buffer.from(text, 'base64');
  // Every character was read; otherwise the text may contain white space.
  const isWhole = text.length % 4 === 0 && bytes.length === Buffer.byteLength(text, 'base64');
  return isWhole || isBase64(text) ? bytes : undefined;
}, 'must be base64');

/** Each step is linear in the text. */
function isBase64(text: string): boolean {
  const padding = text.indexOf('=');
  if (/[^A-Za-z0-9+/=\s]/.test(text)) return false;
  return padding === -1 || /^={1,2}$/.test(text.slice(padding).replaceAll(/\s/g, ''));
}

const attachment = z.strictObject({
  filename: z.string().max(1000).optional().describe('The name that the recipient sees.'),
  content: content.describe('The file, in base64.'),
  content_type: z.string().max(200).optional().describe('type/subtype. Default: derived from the file name extension.'),
});
const bodyPart = z.string().max(MAX_PART_LENGTH, 'must be at most 2,097,152 characters');
const word = z.string().regex(/^[A-Za-z0-9_-]{1,256}$/, 'must be 1 to 256 letters, digits, _ and -');
const sendTime = z.iso
  .datetime({ offset: true, error: 'must be a time such as 2026-01-31T09:00:00Z' })
  .transform((text) => Date.parse(text));

const common = {
  to: someone.describe('Recipients.'),
  cc: anyone.default([]).describe('Recipients that are visible to all others.'),
  bcc: anyone.default([]).describe('Recipients that are hidden from all others.'),
  reply_to: anyone.default([]).describe('Addresses that replies go to.'),
  text: bodyPart.optional().describe('The text part, at most 2,097,152 characters. Default: derived from `html`.'),
  html: bodyPart.optional().describe('The HTML part, at most 2,097,152 characters.'),
  attachments: z.array(attachment).max(MAX_ATTACHMENTS).default([]).describe('Files.'),
  headers: z
    .record(z.string(), z.string())
    .default({})
    .describe('Additional headers: X-…, List-…, In-Reply-To, References, Feedback-ID, Precedence and the like.'),
  tags: z
    .array(z.strictObject({ name: word, value: word }))
    .max(MAX_TAGS)
    .default([])
    .describe('Your own labels, shown with the message.'),
  subject: z.string().max(998).describe('One line; replaces the subject of the template.').optional(),
};
const template = z
  .string()
  .min(1)
  .max(200)
  .describe('Name of a template, or project/name if several projects have one with this name.');
/** It came as JSON, so that its values need no check. */
const data = z
  .looseObject({})
  .refine((members) => JSON.stringify(members).length <= MAX_DATA_BYTES, 'must be at most 1 MiB');

export const newEmail = z.strictObject({
  ...common,
  from: mailbox
    .optional()
    .describe(
      'Sender, at a verified domain. Default: settings.from of the project, else noreply@ the first verified domain.',
    ),
  template: template.optional(),
  data: data.default({}).describe('Variables of the template, also available as `data`; at most 1 MiB of JSON.'),
  project: z.string().min(1).max(100).optional().describe('Slug of the project that has the template.'),
  send_at: sendTime.optional().describe('When to send it, within 30 days. Default: at once.'),
  unsubscribe: z
    .boolean()
    .default(false)
    .describe('Adds an unsubscribe link (RFC 8058) that stops all mail from the account. Needs exactly one recipient.'),
});

export const newResendEmail = z.strictObject({
  ...common,
  from: mailbox.optional().describe('Sender, at a verified domain. Required unless a template is used.'),
  scheduled_at: sendTime.optional().describe('When to send it, within 30 days. Default: at once.'),
  template: z
    .strictObject({
      id: template,
      variables: data.optional().describe('Variables of the template, at most 1 MiB of JSON.'),
    })
    .optional()
    .describe('A template of a project.'),
});

/** As it was asked for; every address has been read. */
export type NewEmail = z.output<typeof newEmail>;

/**
 * States of a message and its recipients, the worst first. `scheduled`: not due yet. `complained`: a recipient reported it as spam.
 */
export const status = z.enum([
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
]);

const tags = z.array(z.object({ name: z.string(), value: z.string() }));
const files = z.array(z.object({ filename: z.string(), content_type: z.string(), size: z.int() }));

/** What is kept of a message as it is shown. */
export const kept = { tags, attachments: files };

const emailSummary = z.object({
  id: z.string(),
  message_id: z.string().describe('The Message-ID header.'),
  environment,
  status: status.describe('The worst status of its recipients.'),
  from: z.string(),
  to: z.array(z.string()),
  cc: z.array(z.string()),
  bcc: z.array(z.string()),
  reply_to: z.array(z.string()),
  subject: z.string(),
  tags,
  created_at: time,
  send_at: optionalTime.describe('Time it is scheduled for; null: at once.'),
});

const email = emailSummary.extend({
  text: z.string().nullable().describe('null once it is no longer kept (`retention.message_bodies` of the server).'),
  html: z.string().nullable(),
  headers: z.record(z.string(), z.string()).describe('Headers in addition to those of every message.'),
  attachments: files,
  recipients: z.array(
    z.object({
      address: z.string(),
      state: status,
      next_attempt_at: optionalTime,
      reply: z.string().nullable().describe('The last reply of the other server, or this server’s reason.'),
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

const acceptedEmail = z.object({
  id: z.string(),
  status: z.literal('queued'),
  to: z.array(z.string()),
  message_id: z.string().describe('The Message-ID header.'),
});

const EMAIL = { permission: 'email.send', domains: 'narrow', tag: 'Email' } as const;
const SEND = {
  maxBody: 'limits.body',
  idempotent: true,
  errors: ['DOMAIN_NOT_VERIFIED', 'TEMPLATE_NOT_FOUND', 'RECIPIENT_NOT_CONFIRMED', 'NOT_FOUND', 'PLAN_LIMIT'],
} as const;

export const emails = {
  send: route('POST /email/send', {
    ...EMAIL,
    ...SEND,
    summary: 'Sends a message, with a template or your own text.',
    description: 'Mail sent with a test key is not delivered. It is captured; `GET /email/{id}` shows it.',
    body: newEmail,
    answer: acceptedEmail,
  }),
  sendBatch: route('POST /email/batch', {
    ...EMAIL,
    ...SEND,
    summary: 'Sends up to 100 messages: all or none.',
    body: z.union([
      z.array(newEmail).min(1).max(MAX_EMAILS),
      z.strictObject({
        emails: z.array(newEmail).min(1).max(MAX_EMAILS).describe('The messages: all or none are sent.'),
      }),
    ]),
    answer: z.object({ emails: z.array(acceptedEmail), count: z.int() }),
  }),
  list: route('GET /email', {
    ...EMAIL,
    summary: 'Lists the messages that were sent through the API, newest first.',
    query: z.strictObject(listing('msg')),
    answer: page({ emails: z.array(emailSummary) }),
  }),
  show: route('GET /email/:id', {
    ...EMAIL,
    summary: 'Shows a message, the state of each recipient and every delivery attempt.',
    answer: email,
  }),
  source: route('GET /email/:id/source', {
    ...EMAIL,
    summary: 'Shows the finished, signed message while it is kept.',
    description:
      'It is kept for all mail of test keys, including form mail, and for other mail while it is being retried. Mail not sent through the API or SMTP submission also needs `forms.read`.',
    answer: z.object({ id: z.string(), size: z.int(), source: z.string() }),
  }),
  cancel: route('POST /email/:id/cancel', {
    ...EMAIL,
    summary: 'Cancels the undelivered recipients of a message, scheduled or deferred.',
    answer: email,
    errors: ['CONFLICT'],
  }),
};

/** Events of a message, with Resend's names. */
const lastEvent = z.enum([
  'scheduled',
  'queued',
  'sent',
  'delivery_delayed',
  'complained',
  'bounced',
  'suppressed',
  'canceled',
  'delivered',
]);

const resendSummary = z.object({
  id: z.string(),
  message_id: z.string(),
  from: z.string(),
  to: z.array(z.string()),
  cc: z.array(z.string()).nullable(),
  bcc: z.array(z.string()).nullable(),
  reply_to: z.array(z.string()).nullable(),
  subject: z.string(),
  last_event: lastEvent,
  created_at: time,
  scheduled_at: optionalTime,
});

const resendEmail = z.object({
  object: z.literal('email'),
  ...resendSummary.shape,
  text: z.string().nullable(),
  html: z.string().nullable(),
  tags,
});

const resendId = z.string().regex(/^msg_[0-9a-z]{26}$/, 'must be the ID of a message');
const resendDone = z.object({ object: z.literal('email'), id: z.string() });

const RESEND = { permission: 'email.send', domains: 'narrow', tag: 'Email (Resend)', resend: true } as const;

export const resendEmails = {
  send: route('POST /emails', {
    ...RESEND,
    ...SEND,
    summary: 'Sends a message.',
    body: newResendEmail,
    answer: z.object({ id: z.string() }),
  }),
  sendBatch: route('POST /emails/batch', {
    ...RESEND,
    ...SEND,
    summary: 'Sends up to 100 messages: all or none, or with `x-batch-validation: permissive` only the valid ones.',
    body: z.array(newResendEmail).min(1).max(MAX_EMAILS),
    answer: z.object({
      data: z.array(z.object({ id: z.string() })),
      errors: z
        .array(z.object({ index: z.int(), message: z.string() }))
        .optional()
        .describe('Messages that were not sent, in permissive mode.'),
    }),
  }),
  list: route('GET /emails', {
    ...RESEND,
    summary: 'Lists the messages that were sent through the API, newest first.',
    query: z.strictObject({
      limit: z.coerce.number().int().min(1).max(100).default(20).describe('Number of entries per page.'),
      after: resendId.optional().describe('Only messages older than this one.'),
      before: resendId.optional().describe('Only messages newer than this one.'),
    }),
    answer: z.object({ object: z.literal('list'), has_more: z.boolean(), data: z.array(resendSummary) }),
  }),
  show: route('GET /emails/:id', { ...RESEND, summary: 'Shows a message.', answer: resendEmail }),
  reschedule: route('PATCH /emails/:id', {
    ...RESEND,
    summary: 'Changes the time of a scheduled message.',
    body: z.strictObject({ scheduled_at: sendTime.describe('When to send it, within 30 days.') }),
    answer: resendDone,
    errors: ['CONFLICT'],
  }),
  cancel: route('POST /emails/:id/cancel', {
    ...RESEND,
    summary: 'Cancels the undelivered recipients of a message.',
    answer: resendDone,
    errors: ['CONFLICT'],
  }),
};

const suppressionReason = z.enum(['bounce', 'complaint', 'unsubscribe', 'manual']);
const suppressedForm = z
  .string()
  .max(350)
  .default('')
  .describe('ID of a form: the entry that stops only the notifications of this form.');
const suppression = z.object({
  address: z.string(),
  form: z
    .string()
    .nullable()
    .describe('The form whose notifications the address no longer gets; null: all mail except notifications.'),
  reason: suppressionReason,
  created_at: time,
});

const SUPPRESSIONS = { permission: 'email.send', domains: 'refuse', tag: 'Suppressions' } as const;

export const suppressions = {
  list: route('GET /suppressions', {
    ...SUPPRESSIONS,
    summary: 'Lists the suppressed addresses in alphabetical order.',
    query: z.strictObject(listingByName()),
    answer: page({ suppressions: z.array(suppression) }),
  }),
  create: route('POST /suppressions', {
    ...SUPPRESSIONS,
    summary: 'Adds an address to the suppression list. An existing entry keeps its reason.',
    description:
      'With `form`, the address no longer gets notifications of this form, as when a recipient uses the link at the end of a notification.',
    body: z.strictObject({
      address: mailAddress.describe('Case is ignored.'),
      form: suppressedForm,
      reason: suppressionReason.default('manual').describe('Reason for the entry.'),
    }),
    answer: suppression,
  }),
  remove: route('DELETE /suppressions/:address', {
    ...SUPPRESSIONS,
    summary: 'Removes an address from the suppression list.',
    query: z.strictObject({ form: suppressedForm }),
    answer: suppression,
  }),
};
