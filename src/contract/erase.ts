/** Erasing a person from everything that is kept. */
import { z } from 'zod';
import { route } from './route.ts';
import { mailAddress } from './values.ts';

/** What an erasure does not reach, for whoever asked for it. */
export const NOT_ERASED: readonly string[] = [
  'mail that was delivered, and what webhooks were told: ask their recipients',
  'backups: they end after the time that the operator keeps them',
  'log files: they end after the time that the operator keeps them',
  'submissions that name the address in the midst of a text: they are listed, and `postern submissions delete` removes them',
  'project files and forms that name the address: take it out there',
  'limits and answers under an Idempotency-Key: they end within 24 hours',
];

const body = {
  address: mailAddress.describe('The person. Other spellings of the same mailbox are found, too.'),
  dry_run: z.boolean().default(false).describe('Only count.'),
  cursor: z
    .string()
    .regex(/^(?:submissions|messages|inbound|rest)\.(?:[a-z]{3}_[0-9a-z]{26})?$/, 'must be a next_cursor')
    .optional()
    .describe('`next_cursor` of the answer before.'),
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
    log_entries: count.describe('Entries of the log of incoming mail.'),
    consents: count.describe('Confirmations as a recipient, and times of acknowledgments.'),
    suppressions: count.describe('Entries of the suppression list.'),
  }),
  kept_as_hash: count.describe(
    'Entries that only forbid mail to the address: a hash of it stays, so that none is sent.',
  ),
  in_progress: count.describe('What is being sent just now: repeat the request later.'),
  configured: count.describe(
    'Mail to the address as the recipient of a form or of a forwarding rule. These records are kept until they expire.',
  ),
  mentions: z.array(z.string()).describe('Submissions that name the address within a text, which stay.'),
  not_erased: z.array(z.string()).describe('What this does not reach.'),
  next_cursor: z.string().nullable().describe('Repeat the request with it as `cursor`; null when all is done.'),
});

const DESCRIPTION =
  'Everything is looked through, a part at a time: repeat the request with `next_cursor` as `cursor` until that is null, and add the numbers up. Repeating a request does no harm. `dry_run` first shows what there is.';

export const erasure = {
  erase: route('POST /erase', {
    permission: 'forms.write',
    domains: 'refuse',
    tag: 'Erasure',
    summary: 'Erases a person, by email address, from the data of the account.',
    description: `${DESCRIPTION} The key needs \`email.send\`, too.`,
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
