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
  domain: z.string().describe('The form’s domain; for other forms the name that their mail is sent from.'),
  fields: z
    .record(z.string(), z.union([z.string(), z.array(z.string())]))
    .describe('As they were sent; a repeated field is a list.'),
  files: z.array(
    z.object({
      id: z.string(),
      field: z.string(),
      filename: z.string(),
      content_type: z.string().describe('What the content shows, or else what the sender named.'),
      size: z.int().describe('Bytes.'),
    }),
  ),
  stored: z
    .enum(['all', 'metadata'])
    .describe('metadata: its fields and files were deleted once its mail was delivered.'),
  ip: z.string().describe('As the form stores it: an address, its network, a hash, or empty.'),
  user_agent: z.string(),
  referer: z.string(),
  status: z
    .enum(['accepted', 'spam', 'pending'])
    .describe('pending: its visitor has not confirmed it yet (`double_opt_in`).'),
  spam: z.object({
    score: z.int(),
    reasons: z.array(z.object({ name: z.string(), score: z.int(), detail: z.string() })),
  }),
  read: z.boolean().describe('Somebody has read it: `POST /submissions/actions` notes that.'),
  created_at: time,
  messages: z.array(z.string()).describe('Ids of its notifications.'),
  deliveries: z
    .array(
      z.object({ message: z.string(), recipient: z.string(), state: z.string(), recipient_status: recipientStatus }),
    )
    .describe('Its notifications by recipient; while a `recipient_status` is pending, its mail waits.'),
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
        reply: z.string().describe('The reply of the other server, or our own reason.'),
      }),
    )
    .describe('To deliver its mail, the newest 100, oldest first.'),
});

const conditions = {
  status: z.enum(['accepted', 'spam', 'pending']).optional().describe('Only those with this status.'),
  q: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe(
      'Only those with these words in names or values of their fields; the last one may be the beginning of a word.',
    ),
  from: since.optional().describe('Only those since this date or time.'),
  to: until.optional().describe('Only those until this date (that whole day) or time.'),
};

/** Of lists of any number of submissions. */
const inboxConditions = {
  form: z.string().min(1).max(400).optional().describe('Only those of the form with this id.'),
  domain: domainName.optional().describe('Only those of forms of this domain.'),
  ...conditions,
  unread: flag.describe('Only those that nobody has read.'),
  files: flag.describe('Only those with files.'),
};

const ACTIONS = ['read', 'unread', 'spam', 'ham', 'resend', 'delete'] as const;
const MAX_ACTED_ON = 200;

const READ = { permission: 'forms.read', domains: 'narrow', tag: 'Submissions' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;
const SEARCH = `\`q\` finds submissions with all of its words in names or values of their fields, without regard to case and accents; the last word may be the beginning of one. What comes in is found at once. Where \`q\` is used with \`status\`, \`unread\` or \`files\`, a page looks at the next ${MAX_SEARCHED} submissions with the words: it may hold few or none although there is a \`next_cursor\`. \`count\` is that among the newest ${MAX_SEARCHED} with the words.`;

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
    summary: 'Counts submissions of all forms: unread ones, spam, and those that are pending.',
    description: `No figure goes beyond ${MAX_COUNT}, and that of a form not beyond 1000: they mean so many or more.`,
    answer: z.object({
      all: z.int().describe('Of whatever status.'),
      unread: z.int().describe('Accepted, and nobody has read them.'),
      spam: z.int(),
      pending: z.int(),
      by_form: z
        .array(z.object({ form: z.string(), unread: z.int() }))
        .describe('Forms with unread submissions, 200 at most, that with the newest first.'),
    }),
  }),
  act: route('POST /submissions/actions', {
    ...WRITE,
    summary: 'Does the same to many submissions: marks them as read or as spam, releases, resends or deletes them.',
    description:
      'Each succeeds or fails by itself, as its own route would, and `results` says how, in the order of `ids`.',
    body: z.strictObject({
      action: z.enum(ACTIONS),
      ids: z.array(z.string().max(100)).min(1).max(MAX_ACTED_ON),
    }),
    answer: z.object({
      results: z.array(
        z.object({
          id: z.string(),
          done: z.boolean(),
          code: z.string().nullable().describe('Why not: an error code.'),
          error: z.string().nullable().describe('The same in words.'),
        }),
      ),
    }),
  }),
  export: route('GET /forms/*form/submissions/export', {
    ...READ,
    summary: 'Downloads all submissions of a form, newest first.',
    description: 'In CSV each field is a column, after those of the submission itself; files are listed by name.',
    query: z.strictObject({ format: z.enum(['csv', 'json']).default('csv').describe('Of the file.'), ...conditions }),
    answer: z.object({ submissions: z.array(submission) }),
    alsoAnswers: 'text/csv',
    errors: ['FORM_NOT_FOUND'],
  }),
  list: route('GET /forms/*form/submissions', {
    ...READ,
    summary: 'Lists the submissions of a form, newest first; also those of a deleted form.',
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
    summary: 'Shows a submission, with each attempt to deliver its mail.',
    answer: shownSubmission,
  }),
  file: route('GET /submissions/:id/files/:file', {
    ...READ,
    summary: 'Downloads a file of a submission as plain bytes, because a stranger sent it.',
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
    summary: 'Sends the notification of a submission again, as a new message to the present recipients of the form.',
    description: '403 `RECIPIENT_NOT_CONFIRMED` while none of them has agreed to get it.',
    answer: submission,
    errors: ['CONFLICT', 'RECIPIENT_NOT_CONFIRMED'],
  }),
  remove: route('DELETE /submissions/:id', {
    ...WRITE,
    summary: 'Deletes a submission with its files and the bodies of its mail, and shows it for the last time.',
    description: 'Refused while mail about it is being delivered. The form’s count stays.',
    answer: submission,
    errors: ['CONFLICT'],
  }),
};

/** What a script gets from a form's address. */
export const acceptedSubmission = z.object({
  success: z.literal(true),
  ok: z.literal(true),
  message: z.string(),
  id: z.string().describe('Of the submission: `sub_…`.'),
  next: z.string().describe('Where a browser would go next.'),
});
