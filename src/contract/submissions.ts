/** Submissions of forms: listed, exported, released, resent, deleted; and the answer that a form's address gives. */
import { z } from 'zod';
import { recipientStatus } from './forms.ts';
import { route } from './route.ts';
import { domainName, environment, flag, listing, longPage, MAX_COUNT, since, time, until } from './values.ts';

/** Submissions with the words that one page of a search looks at. */
const MAX_SEARCHED = 1000;

const submission = z.object({
  id: z.string(),
  form: z.string(),
  environment,
  domain: z.string().describe('The form’s domain; for other forms, the host name that their mail is sent from.'),
  fields: z
    .record(z.string(), z.union([z.string(), z.array(z.string())]))
    .describe('As sent; a repeated field is a list.'),
  files: z.array(
    z.object({
      id: z.string(),
      field: z.string(),
      filename: z.string(),
      content_type: z.string().describe('Detected from the content, otherwise as the sender declared it.'),
      size: z.int().describe('Bytes.'),
    }),
  ),
  stored: z
    .enum(['all', 'metadata'])
    .describe('metadata: its fields and files were deleted after its mail was delivered.'),
  ip: z.string().describe('As the form stores it: an IP address, its network, a hash, or empty.'),
  user_agent: z.string(),
  referer: z.string(),
  status: z
    .enum(['accepted', 'spam', 'pending'])
    .describe('pending: the visitor has not confirmed it yet (`double_opt_in`).'),
  spam: z.object({
    score: z.int(),
    reasons: z.array(z.object({ name: z.string(), score: z.int(), detail: z.string() })),
  }),
  read: z.boolean().describe('Whether it is marked as read, with `POST /submissions/actions`.'),
  created_at: time,
  messages: z.array(z.string()).describe('IDs of its notifications.'),
  deliveries: z
    .array(
      z.object({ message: z.string(), recipient: z.string(), state: z.string(), recipient_status: recipientStatus }),
    )
    .describe('Its notifications by recipient; mail to a recipient whose `recipient_status` is pending waits.'),
});

const shownSubmission = submission.extend({
  attempts: z
    .array(
      z.object({
        message: z.string(),
        recipient: z.string(),
        at: time,
        host: z.string().nullable().describe('The MX host.'),
        tls: z.string().nullable().describe('TLS version; null for clear text.'),
        outcome: z.string(),
        reply: z.string().describe('The reply of the other server, or this server’s reason.'),
      }),
    )
    .describe('The newest 100 attempts to deliver its mail, oldest first.'),
});

const conditions = {
  status: z.enum(['accepted', 'spam', 'pending']).optional().describe('Only submissions with this status.'),
  q: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe(
      'Only submissions with these words in field names or values; the last one may be the beginning of a word.',
    ),
  from: since.optional().describe('Only submissions since this date or time.'),
  to: until.optional().describe('Only submissions until this date (that whole day) or time.'),
};

/** Of lists of any number of submissions. */
const inboxConditions = {
  form: z.string().min(1).max(400).optional().describe('Only submissions of the form with this ID.'),
  domain: domainName.optional().describe('Only submissions of this domain’s forms.'),
  ...conditions,
  unread: flag.describe('Only unread submissions.'),
  files: flag.describe('Only submissions with files.'),
};

const ACTIONS = ['read', 'unread', 'spam', 'ham', 'resend', 'delete'] as const;
const MAX_ACTED_ON = 200;

const READ = { permission: 'forms.read', domains: 'narrow', tag: 'Submissions' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;
const SEARCH = `\`q\` finds submissions that contain all of its words in field names or values, ignoring case and accents; the last word may be the beginning of one. New submissions are found at once. If \`q\` is used with \`status\`, \`unread\` or \`files\`, each page searches the next ${MAX_SEARCHED} submissions with the words: it may have few entries or none even if there is a \`next_cursor\`, and \`count\` covers only the newest ${MAX_SEARCHED} with the words.`;

export const submissions = {
  inbox: route('GET /submissions', {
    ...READ,
    summary: 'Lists the submissions of all forms, newest first.',
    description: SEARCH,
    query: z.strictObject({ ...listing('sub'), ...inboxConditions }),
    answer: longPage({ submissions: z.array(submission) }),
    errors: ['FORM_NOT_FOUND'],
  }),
  counts: route('GET /submissions/counts', {
    ...READ,
    summary: 'Counts the submissions of all forms: total, unread, spam and pending.',
    description: `Counts stop at ${MAX_COUNT}, and at 1000 for each form: these values mean that many or more.`,
    answer: z.object({
      all: z.int().describe('Submissions of any status.'),
      unread: z.int().describe('Accepted, but not read yet.'),
      spam: z.int(),
      pending: z.int(),
      by_form: z
        .array(z.object({ form: z.string(), unread: z.int() }))
        .describe('Forms with unread submissions, at most 200, the form with the newest one first.'),
    }),
  }),
  act: route('POST /submissions/actions', {
    ...WRITE,
    summary: 'Changes many submissions at once: marks them as read, unread or spam, releases, resends or deletes them.',
    description: 'Each one succeeds or fails on its own, as with its own route. `results` is in the order of `ids`.',
    body: z.strictObject({
      action: z.enum(ACTIONS),
      ids: z.array(z.string().max(100)).min(1).max(MAX_ACTED_ON),
    }),
    answer: z.object({
      results: z.array(
        z.object({
          id: z.string(),
          done: z.boolean(),
          code: z.string().nullable().describe('If not done, the error code.'),
          error: z.string().nullable().describe('If not done, the reason in words.'),
        }),
      ),
    }),
  }),
  export: route('GET /forms/*form/submissions/export', {
    ...READ,
    summary: 'Downloads all submissions of a form, newest first.',
    description:
      'In CSV, the columns of the submission come first, followed by one column per field; files are listed by name.',
    query: z.strictObject({
      format: z.enum(['csv', 'json']).default('csv').describe('Format of the file.'),
      ...conditions,
    }),
    answer: z.object({ submissions: z.array(submission) }),
    alsoAnswers: 'text/csv',
    errors: ['FORM_NOT_FOUND'],
  }),
  list: route('GET /forms/*form/submissions', {
    ...READ,
    summary: 'Lists the submissions of a form, even a deleted one, newest first.',
    description: `Slashes in the form’s id may be written as they are or as \`%2F\`. ${SEARCH}`,
    query: z.strictObject({ ...listing('sub'), ...conditions }),
    answer: longPage({ submissions: z.array(submission) }),
    errors: ['FORM_NOT_FOUND'],
  }),
  listInstant: route('GET /instant/submissions', {
    ...READ,
    domains: 'refuse',
    summary: 'Lists the submissions of all instant forms, newest first.',
    description: SEARCH,
    query: z.strictObject({ ...listing('sub'), ...conditions }),
    answer: longPage({ submissions: z.array(submission) }),
  }),
  show: route('GET /submissions/:id', {
    ...READ,
    summary: 'Shows a submission and the attempts to deliver its mail.',
    answer: shownSubmission,
  }),
  file: route('GET /submissions/:id/files/:file', {
    ...READ,
    summary: 'Downloads a file of a submission, always as plain bytes because strangers can send anything.',
    answer: z.string(),
    alsoAnswers: 'application/octet-stream',
  }),
  spam: route('POST /submissions/:id/spam', {
    ...WRITE,
    summary: 'Marks a submission as spam: it no longer counts, and its queued mail is cancelled.',
    answer: submission,
    errors: ['CONFLICT'],
  }),
  ham: route('POST /submissions/:id/ham', {
    ...WRITE,
    summary: 'Releases a submission that is spam or pending: it counts, and its notification is sent.',
    description: 'Repeating it changes nothing. The visitor gets no late acknowledgment.',
    answer: submission,
    errors: ['CONFLICT', 'RECIPIENT_NOT_CONFIRMED'],
  }),
  resend: route('POST /submissions/:id/resend', {
    ...WRITE,
    summary: 'Sends the notification of a submission again, as a new message to the form’s current recipients.',
    description: '403 `RECIPIENT_NOT_CONFIRMED` if none of them has agreed to receive it.',
    answer: submission,
    errors: ['CONFLICT', 'RECIPIENT_NOT_CONFIRMED'],
  }),
  remove: route('DELETE /submissions/:id', {
    ...WRITE,
    summary: 'Deletes a submission with its files and the bodies of its mail, and shows it one last time.',
    description: 'Refused while mail about it is being delivered. The form’s count does not change.',
    answer: submission,
    errors: ['CONFLICT'],
  }),
};

/** What a script gets from a form's address. */
export const acceptedSubmission = z.object({
  success: z.literal(true),
  ok: z.literal(true),
  message: z.string(),
  id: z.string().describe('ID of the submission (`sub_…`).'),
  next: z.string().describe('Where a browser would go next.'),
});
