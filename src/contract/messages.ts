/** Mail of an account, of every kind: notifications, forwarded mail, what programs send; with all that happened to it. */
import { z } from 'zod';
import { status } from './email.ts';
import { timeline } from './queue.ts';
import { route } from './route.ts';
import {
  deliveryState,
  domainName,
  environment,
  listing,
  mailAddress,
  optionalTime,
  page,
  since,
  time,
  until,
} from './values.ts';

const kind = z.enum(['notification', 'acknowledgment', 'confirmation', 'transactional', 'forward', 'reply', 'dsn']);
/** Recipients that a list shows of one message. */
export const MAX_LISTED_RECIPIENTS = 10;

const recipient = z.object({
  address: z.string(),
  state: deliveryState,
  next_attempt_at: optionalTime,
  reply: z.string().nullable().describe('The last reply of the other server, or this server’s reason.'),
});

const summary = z.object({
  id: z.string(),
  kind: kind.describe(
    '`transactional`: sent through the API or SMTP submission. `confirmation`: has the link that confirms a submission. `reply`: sent through the relay address of a form. `dsn`: tells a sender that forwarding failed.',
  ),
  environment,
  domain: z.string().describe('The domain that signs it.'),
  form: z.string().nullable().describe('The form that it is about.'),
  submission: z.string().nullable(),
  subject: z
    .string()
    .nullable()
    .describe('null if it is only known when the message is first sent, as for mail about a submission.'),
  status: status.describe('The worst status of its recipients.'),
  recipients: z.array(recipient).describe(`The first recipients, at most ${MAX_LISTED_RECIPIENTS}.`),
  recipient_count: z.int(),
  size: z.int().describe('Size of the finished message in bytes; 0 before it is finished.'),
  created_at: time,
});

const attempt = z.object({
  number: z.int(),
  at: time,
  outcome: z.enum(['delivered', 'deferred', 'bounced', 'expired', 'interrupted', 'captured']),
  reply: z.string(),
  host: z.string().nullable().describe('The MX host.'),
  address: z.string().nullable(),
  tls: z.string().nullable().describe('TLS version; null for clear text.'),
  tls_policy: z
    .string()
    .nullable()
    .describe('The policy of the recipient’s domain that applied: `dane`, `mta-sts enforce` or `mta-sts testing`.'),
  tls_result: z.string().nullable().describe('Result of the policy: `success`, or a failure type from RFC 8460.'),
  dialogue: z
    .array(z.object({ side: z.enum(['client', 'server', 'note']), text: z.string() }))
    .describe('The SMTP dialogue, without the message and credentials. The middle of a long one is left out.'),
});

const message = summary.extend({
  message_id: z.string().describe('The Message-ID header.'),
  expires_at: time.describe('When delivery attempts end.'),
  content: z
    .enum(['finished', 'requested', 'received', 'none'])
    .describe(
      'What `GET /messages/{id}/content` shows. `finished`: the message as sent. `requested`: what the API request contained. `received`: a forwarded message as it arrived. `none`: nothing, because it is not created yet, is no longer kept, or has a link that acts for its recipient.',
    ),
  recipients: z.array(recipient.extend({ id: z.string(), attempts: z.array(attempt) })),
  timeline,
});

const content = z.object({
  id: z.string(),
  content: z.enum(['finished', 'requested', 'received']).describe('As in `GET /messages/{id}`.'),
  headers: z.array(z.object({ name: z.string(), value: z.string() })).describe('Decoded, in their original order.'),
  text: z.string().nullable(),
  html_url: z
    .string()
    .nullable()
    .describe('URL on this server that shows the HTML part for 10 minutes; null if there is none.'),
  attachments: z.array(z.object({ filename: z.string(), content_type: z.string(), size: z.int() })),
  truncated: z.boolean().describe('Whether this is only the beginning of a long message.'),
});

const READ = { permission: 'forms.read', domains: 'narrow', tag: 'Messages' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;

export const messages = {
  list: route('GET /messages', {
    ...READ,
    summary: 'Lists mail of every kind, newest first.',
    description:
      'Mail that was sent through the API or SMTP submission is shown only to keys that also have `email.send`. Each page searches a limited number of messages: with filters, it may have few entries or none even if there is a `next_cursor`. If `count_is_more` is true, there may be more than `count`; otherwise `count` is exact.',
    query: z.strictObject({
      ...listing('msg'),
      kind: kind.optional().describe('Only mail of this kind.'),
      state: deliveryState.optional().describe('Only mail with a recipient in this state.'),
      recipient: mailAddress.optional().describe('Only mail to this address.'),
      domain: domainName.optional().describe('Only mail of this domain.'),
      form: z.string().max(350).optional().describe('Only mail about submissions of the form with this ID.'),
      submission: z
        .string()
        .regex(/^sub_[0-9a-z]{26}$/, 'must be the ID of a submission')
        .optional()
        .describe('Only mail about this submission.'),
      q: z
        .string()
        .trim()
        .min(1)
        .max(200)
        .optional()
        .describe('Only mail with this text in its subject or in a recipient’s address.'),
      from: since.optional().describe('Only mail since this date or time.'),
      to: until.optional().describe('Only mail until this date (that whole day) or time.'),
    }),
    answer: page({ messages: z.array(summary), count_is_more: z.boolean() }),
  }),
  show: route('GET /messages/:id', {
    ...READ,
    summary: 'Shows a message, its timeline, and each delivery attempt with its SMTP dialogue.',
    answer: message,
  }),
  content: route('GET /messages/:id/content', {
    ...READ,
    summary: 'Shows the headers and text of a message while they are kept.',
    answer: content,
  }),
  html: route('GET /messages/:id/html', {
    permission: 'none',
    domains: 'free',
    tag: 'Messages',
    summary: 'Shows the HTML part of a message, for a sandboxed frame.',
    description:
      'The URL comes from `GET /messages/{id}/content`, because a frame cannot send a key. Its `Content-Security-Policy` is a sandbox: nothing in it runs, and nothing is loaded. Images in the message itself are shown.',
    query: z.strictObject({ token: z.string().max(100).default('').describe('Part of the URL.') }),
    answer: z.string(),
    alsoAnswers: 'text/html',
  }),
  resend: route('POST /messages/:id/resend', {
    ...WRITE,
    summary: 'Queues a message again for the recipients it did not reach.',
    description:
      'These are the bounced, expired and cancelled recipients. They count against the plan again. For recipients it did reach, use `POST /submissions/{id}/resend` or send a new message.',
    answer: message,
    errors: ['CONFLICT'],
  }),
  cancel: route('POST /messages/:id/cancel', {
    ...WRITE,
    summary: 'Cancels the undelivered recipients of a message.',
    answer: message,
    errors: ['CONFLICT'],
  }),
};
