/** Erasing a person from everything that is kept. */
import { z } from 'zod';
import { route } from './route.ts';
import { mailAddress } from './values.ts';

/** What an erasure does not reach, for the person who asked for it. */
export const NOT_ERASED: readonly string[] = [
  'delivered mail, and events sent to webhooks: ask their recipients',
  'backups: they are deleted after the operator’s retention period',
  'log files: they are deleted after the operator’s retention period',
  'submissions that mention the address in a text: they are listed, and `postern submissions delete` deletes them',
  'project files and forms that name the address: remove it there',
  'rate limits and answers stored for an Idempotency-Key: they expire within 24 hours',
];

const body = {
  address: mailAddress.describe('The person’s email address. Other spellings of the same mailbox are found as well.'),
  dry_run: z.boolean().default(false).describe('Count without erasing.'),
  cursor: z
    .string()
    .regex(/^(?:submissions|messages|inbound|rest)\.(?:[a-z]{3}_[0-9a-z]{26})?$/, 'must be a next_cursor')
    .optional()
    .describe('The `next_cursor` of the previous answer.'),
};

const count = z.int();

const answer = z.object({
  address: z.string(),
  dry_run: z.boolean(),
  erased: z.object({
    submissions: count.describe('Submissions with the address in a field.'),
    files: count,
    messages: count.describe('Mail to the address or about those submissions, with its queue entries and events.'),
    inbound: count.describe('Copies of mail from the address.'),
    log_entries: count.describe('Entries in the log of incoming mail.'),
    consents: count.describe('Confirmations as a recipient, and times of acknowledgments.'),
    suppressions: count.describe('Entries on the suppression list.'),
  }),
  kept_as_hash: count.describe(
    'Entries that only block mail to the address: a hash of it is kept, so that none is sent.',
  ),
  in_progress: count.describe('What is being sent now: repeat the request later.'),
  configured: count.describe(
    'Mail to the address as the recipient of a form or forwarding rule. These records are kept until they expire.',
  ),
  mentions: z.array(z.string()).describe('Submissions that mention the address in a text. They are not erased.'),
  not_erased: z.array(z.string()).describe('What an erasure does not cover.'),
  next_cursor: z.string().nullable().describe('Repeat the request with it as `cursor`; null: everything is done.'),
});

const DESCRIPTION =
  'The data is searched in parts: repeat the request with `next_cursor` as `cursor` until it is null, and add up the numbers. Repeating a request is safe. `dry_run` only shows what would be erased.';

export const erasure = {
  erase: route('POST /erase', {
    permission: 'forms.write',
    domains: 'refuse',
    tag: 'Erasure',
    summary: 'Erases a person, by email address, from the data of the account.',
    description: `${DESCRIPTION} The key also needs \`email.send\`.`,
    body: z.strictObject(body),
    answer,
  }),
  eraseAll: route('POST /admin/erase', {
    permission: 'admin',
    domains: 'refuse',
    tag: 'Erasure',
    summary: 'Erases a person, by email address, from the data of all accounts of the server.',
    description: DESCRIPTION,
    body: z.strictObject(body),
    answer,
  }),
};
