/** Bodies that ask for mail, ours and those that Resend's clients send. */
import { z } from 'zod';
import { parseMailbox, type Mailbox } from '../../lib/addresses.ts';
import type { NewEmail } from '../../transactional/email.ts';

const ADDRESS = 'must be one mail address, such as ana@example.com or Ana <ana@example.com>';
const ADDRESSES = `${ADDRESS}, or a list of such`;
const MOST_EMAILS = 100;
const MOST_ATTACHMENTS = 100;
const MOST_TAGS = 50;
/** Characters, of JSON. */
const MAX_DATA = 1 << 20;
const MAX_BODY_PART = 2 << 20;

const mailbox = z.string().transform((text, context): Mailbox => {
  const parsed = parseMailbox(text);
  if (parsed !== undefined) return parsed;
  context.addIssue({ code: 'custom', message: ADDRESS });
  return z.NEVER;
});
const someone = z.union([mailbox, z.array(mailbox).min(1)], { error: ADDRESSES }).transform((one) => [one].flat());
const anyone = z.union([mailbox, z.array(mailbox)], { error: ADDRESSES }).transform((one) => [one].flat());

const content = z.string().transform((text, context): Buffer => {
  const bytes = Buffer.from(text, 'base64');
  // Nothing was passed over; else white space may stand in it.
  const isWhole = text.length % 4 === 0 && bytes.length === Buffer.byteLength(text, 'base64');
  if (isWhole || isBase64(text)) return bytes;
  context.addIssue({ code: 'custom', message: 'must be base64' });
  return z.NEVER;
});

/** Each step is linear in the text. */
function isBase64(text: string): boolean {
  const padding = text.indexOf('=');
  if (/[^A-Za-z0-9+/=\s]/.test(text)) return false;
  return padding === -1 || /^={1,2}$/.test(text.slice(padding).replaceAll(/\s/g, ''));
}
const attachment = z.strictObject({
  filename: z.string().max(1000).optional().describe('Name that the recipient sees.'),
  content: content.describe('The file, in base64.'),
  content_type: z.string().max(200).optional().describe('type/subtype; by the end of the name unless told.'),
});
const bodyPart = z.string().max(MAX_BODY_PART, 'must have 2,097,152 characters at most');
const word = z.string().regex(/^[A-Za-z0-9_-]{1,256}$/, 'must be 1 to 256 letters, digits, _ and -');
const time = z.iso
  .datetime({ offset: true, error: 'must be a time such as 2026-01-31T09:00:00Z' })
  .transform((text) => Date.parse(text));

const shared = {
  to: someone.describe('Recipients.'),
  cc: anyone.optional().describe('Recipients whom all others see.'),
  bcc: anyone.optional().describe('Recipients whom nobody sees.'),
  reply_to: anyone.optional().describe('Where answers go.'),
  text: bodyPart.optional().describe('The text part; made from html where that stands alone. 2 Mi characters at most.'),
  html: bodyPart.optional().describe('The HTML part, 2 Mi characters at most.'),
  attachments: z.array(attachment).max(MOST_ATTACHMENTS).optional().describe('Files.'),
  headers: z
    .record(z.string(), z.string())
    .optional()
    .describe('More headers: X-…, List-…, In-Reply-To, References, Feedback-ID, Precedence and the like.'),
  tags: z
    .array(z.strictObject({ name: word, value: word }))
    .max(MOST_TAGS)
    .optional()
    .describe('Words of your own, shown with the mail.'),
};
const line = z.string().max(998).describe('One line; goes before the subject of the template.');
const template = z
  .string()
  .min(1)
  .max(200)
  .describe('Name of a template of the project, or project/name where several have one of this name.');
/** It came as JSON: what is in it needs no look. */
const data = z.looseObject({}).refine((members) => JSON.stringify(members).length <= MAX_DATA, 'must be 1 MiB at most');

/** `POST /email/send` */
export const emailBody = z.strictObject({
  ...shared,
  from: mailbox
    .optional()
    .describe(
      'Sender, at a verified domain. Unless told: settings.from of the project, else noreply@ the first verified domain.',
    ),
  subject: line.optional(),
  template: template.optional(),
  data: data
    .optional()
    .describe('Variables of the template, which has all of them as data, too; 1 MiB of JSON at most.'),
  project: z.string().min(1).max(100).optional().describe('Slug of the project that has the template.'),
  send_at: time.optional().describe('When to send it, within 30 days; at once unless told.'),
  unsubscribe: z
    .boolean()
    .optional()
    .describe(
      'Adds a link (RFC 8058) by which the recipient, of whom there is one then, ends all mail of the account.',
    ),
});

/** `POST /email/batch` */
export const emailsBody = z.union([
  z.array(emailBody).min(1).max(MOST_EMAILS),
  z.strictObject({ emails: z.array(emailBody).min(1).max(MOST_EMAILS).describe('Mails, all of which go or none.') }),
]);

/** `POST /emails`, as Resend's clients send it. */
export const resendBody = z.strictObject({
  ...shared,
  from: mailbox.optional().describe('Sender, at a verified domain. Required but for a template of a project.'),
  subject: line.optional(),
  scheduled_at: time.optional().describe('When to send it, within 30 days; at once unless told.'),
  template: z
    .strictObject({
      id: template,
      variables: data.optional().describe('Variables of the template, 1 MiB of JSON at most.'),
    })
    .optional()
    .describe('A template of a project.'),
});

/** `POST /emails/batch` */
export const resendBatchBody = z.array(resendBody).min(1).max(MOST_EMAILS);

/** `PATCH /emails/{id}` */
export const rescheduleBody = z.strictObject({ scheduled_at: time.describe('When to send it, within 30 days.') });

type Shared = Pick<z.output<typeof emailBody>, keyof typeof shared | 'from' | 'subject'>;

function commonOf(body: Shared): Omit<NewEmail, 'data' | 'unsubscribe'> {
  const { cc = [], bcc = [], reply_to: replyTo = [], attachments = [], headers = {}, tags = [], ...rest } = body;
  const { from, to, subject, text, html } = rest;
  return {
    from,
    to,
    cc,
    bcc,
    replyTo,
    subject,
    text,
    html,
    headers,
    tags,
    attachments: attachments.map(({ filename = '', content_type: contentType, content: bytes }) => ({
      filename,
      contentType,
      content: bytes,
    })),
  };
}

export function newEmail(body: z.output<typeof emailBody>): NewEmail {
  const { template: name, project, data: variables = {}, send_at: sendAt, unsubscribe = false } = body;
  return { ...commonOf(body), template: name, project, data: variables, sendAt, unsubscribe };
}

export function newResendEmail(body: z.output<typeof resendBody>): NewEmail {
  const { template: named, scheduled_at: sendAt } = body;
  return { ...commonOf(body), template: named?.id, data: named?.variables ?? {}, sendAt, unsubscribe: false };
}
