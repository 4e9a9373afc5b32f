/** Values that several resources have in common: names, addresses, times, pages of lists. */
import { z } from 'zod';
import { parseAddress, parseDomain } from '../lib/addresses.ts';
import type { IdKind } from '../lib/ids.ts';

const DAY_MS = 86_400_000;
const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;
const MAX_REQUESTS = 1_000_000_000;

/** A name that a person gives: one line. */
export const label = z
  .string()
  .trim()
  .regex(/^\P{Cc}{1,200}$/u, 'must be one line of 1 to 200 characters');

export const environment = z
  .enum(['live', 'test'])
  .describe('`test`: created with a test key. Live keys do not see it, and its mail is captured.');

/** The state of a delivery. */
export const deliveryState = z.enum([
  'queued',
  'sending',
  'deferred',
  'delivered',
  'bounced',
  'expired',
  'cancelled',
  'suppressed',
  'captured',
]);

export const source = z.enum(['file', 'push', 'api']);

/** A text as `parse` reads it. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the schema that it builds is its type
export function parsed<Value>(parse: (text: string) => Value | undefined, message: string) {
  return z.string().transform((text, context): Value => {
    const value = parse(text);
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });
}

/** An email address in its normal form. */
export const mailAddress = parsed(
  (text) => parseAddress(text.trim())?.address,
  'must be an email address such as you@example.com',
);

/** A domain name: lower case, A-labels. */
export const domainName = parsed((text) => parseDomain(text.trim()), 'must be a domain name such as example.com');

/** The key of a form or collection. */
export const identifier = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/,
    'must be at most 64 letters, digits, - and _, beginning with a letter or digit',
  );

export const slug = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be 1 to 63 lowercase letters, digits and hyphens, such as my-site');

export const duration = z.string().regex(/^[1-9]\d{0,5}[smhd]$/, 'must be a duration such as 30s, 5m, 2h or 7d');

/** A number of requests or messages that somebody may set. */
export const limit = z
  .int('must be a whole number')
  .min(1, 'must be 1 or more')
  .max(MAX_REQUESTS, `must be ${MAX_REQUESTS} or less`);

export const time = z.iso.datetime();

export const optionalTime = time.nullable();

const moment = (() => {
  const error = 'must be a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z';
  return z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], { error })
    .refine((text) => /^2\d{3}-/.test(text), error);
})();

/** The first moment of a span, ms. */
export const since = moment.transform((text) => Date.parse(text));

/** The moment behind its last; a date alone is the whole day. */
export const until = moment.transform((text) => Date.parse(text) + (text.length === 'YYYY-MM-DD'.length ? DAY_MS : 0));

/** `true` or `false` in a query. */
export const flag = z.enum(['true', 'false']).default('false');

/** `limit` of a list. */
export const pageSize = z.coerce
  .number()
  .int()
  .min(1)
  .max(MAX_PAGE)
  .default(DEFAULT_PAGE)
  .describe('Number of entries per page.');

const CURSOR = 'The `next_cursor` of the previous page.';

/** `limit` and `cursor` of a list whose pages begin behind an object of this kind: spread into `z.strictObject`. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the schema that it builds is its type
export function listing(kind: IdKind) {
  return { limit: pageSize, cursor: cursor(new RegExp(`^${kind}_[0-9a-z]{26}$`)) };
}

/** The same for a list that is in the order of names. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the schema that it builds is its type
export function listingByName() {
  return { limit: pageSize, cursor: z.string().max(700).describe(CURSOR).optional() };
}

/** A cursor of this form. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the schema that it builds is its type
export function cursor(pattern: RegExp) {
  return z.string().regex(pattern, 'must be the next_cursor of an answer').describe(CURSOR).optional();
}

/** Long lists are not counted further. */
export const MAX_COUNT = 10_000;

/** The answer of a list that may be very long: `{ <plural>: [...], count, count_is_more, next_cursor }`. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the schema that it builds is its type
export function longPage<Items extends z.ZodRawShape>(items: Items) {
  return page(items).extend({
    count: z.int().describe(`Total number on all pages, up to ${MAX_COUNT}.`),
    count_is_more: z.boolean().describe('There are more than `count`.'),
  });
}

/** The answer of a list: `{ <plural>: [...], count, next_cursor }`. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the schema that it builds is its type
export function page<Items extends z.ZodRawShape>(items: Items) {
  return z.object({
    ...items,
    count: z.int().describe('Total number on all pages.'),
    next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page.'),
  });
}
