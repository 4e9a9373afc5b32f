/** Accounts: sign-up, and how the operator manages, counts and bills them. */
import { z } from 'zod';
import { numbers } from './analytics.ts';
import { route } from './route.ts';
import { cursor, label, limit, listing, mailAddress, optionalTime, page, since, time, until } from './values.ts';

/** Days that `GET /admin/usage` shows by default and at most. */
export const DEFAULT_USAGE_DAYS = 30;
export const MAX_USAGE_DAYS = 750;

const DEFAULT_PLAN = 'free';

const newLimits = {
  requests_per_hour: limit
    .nullable()
    .optional()
    .describe('Replaces the plan’s limit; null: restores the plan’s limit.'),
  messages_per_hour: limit.nullable().optional().describe('The same for mail, counted per recipient.'),
  messages_per_day: limit.nullable().optional().describe('The same for 24 hours.'),
};
const limits = {
  requests_per_hour: z.int().nullable().describe('Replaces the plan’s limit; null: the plan’s limit applies.'),
  messages_per_hour: z.int().nullable().describe('The same for mail, counted per recipient.'),
  messages_per_day: z.int().nullable().describe('The same for 24 hours.'),
};

const tenant = z.object({
  id: z.string(),
  name: z.string(),
  email: z.string(),
  plan: z.string(),
  ...limits,
  suspended: z.boolean(),
  trusted: z
    .boolean()
    .describe('true: recipients do not have to confirm before they get its mail; the operator is responsible for it.'),
  confirmed_at: optionalTime.describe('When it was confirmed. Until then its keys do not work.'),
  deleting: z
    .enum(['deliver', 'cancel'])
    .nullable()
    .describe('The account is being deleted; its queued mail is delivered or cancelled first. Otherwise null.'),
  created_at: time,
});

/** What goes with an account. */
const shownTenant = tenant.extend({
  objects: z.object({
    projects: z.int(),
    domains: z.int(),
    forms: z.int(),
    collections: z.int(),
    keys: z.int(),
    webhooks: z.int(),
  }),
  domains: z.array(z.object({ domain: z.string(), project: z.string(), status: z.string() })),
  submissions: z.int(),
  queued: z.int().describe('Deliveries that are not finished.'),
});

const newAccount = z.object({
  tenant,
  key: z
    .string()
    .describe('The value of its first API key, with all permissions except `admin`. It is shown only once.'),
});

const accountName = label.describe('Name of the person or organization.');
const accountEmail = mailAddress.describe('Gets alerts, and the mail of forms without a recipient.');
const planName = z.string().describe('A name under `plans` of server.yml.');

export const usage = z.object({
  requests: z.int().describe('Requests with a key.'),
  errors: z.int().describe('Answers with status 400 or higher, except 429.'),
  rate_limited: z.int().describe('Answers with status 429.'),
  messages: z
    .int()
    .describe(
      'Recipients that count against the plan, including those that wait because of its limits; 0 for the operator’s account, which has no plan.',
    ),
  ...numbers.shape,
});

const plan = z.object({
  requests_per_hour: z.int().nullable(),
  requests_per_minute: z.int().nullable(),
  messages_per_hour: z.int().nullable(),
  messages_per_day: z.int().nullable(),
  objects: z.object({
    projects: z.int().nullable(),
    domains: z.int().nullable(),
    forms: z.int().nullable(),
    collections: z.int().nullable(),
    keys: z.int().nullable(),
    webhooks: z.int().nullable(),
  }),
  price: z.number().describe('Per month.'),
});

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

export const accounts = {
  signup: route('POST /signup', {
    permission: 'none',
    domains: 'free',
    tag: 'Accounts',
    summary: 'Creates an account and its first API key, whose value is shown once.',
    description:
      'Needs no key. Possible if the operator allows it (`server.signup: open`); the key works after the link mailed to `email` is confirmed. Each mailbox can have one account. Over the Unix socket it is always possible, and the key works at once.',
    body: z.strictObject({ name: accountName, email: accountEmail }),
    answer: newAccount,
    errors: ['SIGNUP_CLOSED'],
  }),
};

export const tenants = {
  list: route('GET /admin/tenants', {
    ...ADMIN,
    summary: 'Lists the accounts: the operator’s, then the others, newest first.',
    // The operator's account has an id of its own form.
    query: z.strictObject({ ...listing('ten'), cursor: cursor(/^ten_([0-9a-z]{26}|operator)$/) }),
    answer: page({ tenants: z.array(tenant) }),
  }),
  create: route('POST /admin/tenants', {
    ...ADMIN,
    summary: 'Creates an account and its first API key, whose value is shown once.',
    description: 'The key works at once, and the account is `trusted`.',
    body: z.strictObject({ name: accountName, email: accountEmail, plan: planName.default(DEFAULT_PLAN) }),
    answer: newAccount,
  }),
  show: route('GET /admin/tenants/:id', {
    ...ADMIN,
    summary: 'Shows an account, with its domains and the number of its objects.',
    answer: shownTenant,
  }),
  remove: route('DELETE /admin/tenants/:id', {
    ...ADMIN,
    summary: 'Deletes an account and all of its data, and shows it as it was.',
    description:
      'Its keys are revoked and its projects, domains and webhooks stop working at once; other accounts can then use the domains. Queued mail is delivered or cancelled first, as `queued` says; then submissions, messages, events and everything else of the account are deleted in the background. `GET /admin/tenants/{id}` answers 404 when that is done. This cannot be undone.',
    query: z.strictObject({
      queued: z.enum(['deliver', 'cancel']).describe('What to do with queued mail.'),
    }),
    answer: shownTenant,
    errors: ['CONFLICT'],
  }),
  change: route('PATCH /admin/tenants/:id', {
    ...ADMIN,
    summary: 'Changes the plan or the limits of an account, suspends it, or trusts it.',
    description:
      'While an account is suspended, its keys are rejected, its forms accept nothing, and its mail and webhook deliveries are not sent; what is queued waits until it expires. `POST /admin/queue/actions` can cancel it. Omitted settings do not change.',
    body: z.strictObject({
      plan: planName.optional(),
      ...newLimits,
      suspended: z.boolean().optional().describe('true: nothing is accepted from or for the account.'),
      trusted: z
        .boolean()
        .optional()
        .describe(
          'true: recipients do not have to confirm before they get its mail; mail waiting for confirmation is sent.',
        ),
    }),
    answer: tenant,
    errors: ['CONFLICT'],
  }),
  usage: route('GET /admin/usage', {
    ...ADMIN,
    summary: 'Counts requests, submissions and mail, in total and per account.',
    description: `Whole UTC days, at most ${MAX_USAGE_DAYS}. Accounts without any use are not listed.`,
    query: z.strictObject({
      from: since.optional().describe(`First day. Default: ${DEFAULT_USAGE_DAYS} days in total.`),
      to: until.optional().describe('Last day. Default: today.'),
    }),
    answer: z.object({
      from: time,
      to: time.describe('End of the last day.'),
      totals: usage,
      tenants: z.array(z.object({ tenant: z.string(), name: z.string(), plan: z.string(), ...usage.shape })),
    }),
  }),
  billing: route('GET /admin/billing', {
    ...ADMIN,
    summary: 'Shows what each account used in a month, and the price of its plan.',
    description:
      'The amount is the price of the current plan for the whole month, regardless of use. Accounts created after that month and the operator’s account are not listed.',
    query: z.strictObject({
      month: z
        .string()
        .regex(/^2\d{3}-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-01')
        .optional()
        .describe('Such as 2026-01 (UTC). Default: the current month.'),
    }),
    answer: z.object({
      month: z.string(),
      plans: z.record(z.string(), plan).describe('The plans of server.yml.'),
      lines: z.array(
        z.object({
          tenant: z.string(),
          plan: z.string(),
          usage,
          amount: z.number(),
          currency: z.string().describe('ISO 4217.'),
        }),
      ),
    }),
  }),
  setPlan: route('POST /admin/billing', {
    ...ADMIN,
    summary: 'Changes the plan of an account.',
    description: 'Omitted settings do not change. The new limits apply from the next request on.',
    body: z.strictObject({ tenant: z.string().describe('Its ID.'), plan: planName.optional(), ...newLimits }),
    answer: z.object({
      tenant: z.string(),
      plan: z.string(),
      ...limits,
      amount: z.number().describe('The price per month from now on.'),
      currency: z.string(),
    }),
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
};

export type TenantUsage = z.output<typeof usage>;
