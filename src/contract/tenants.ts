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
  requests_per_hour: limit.nullable().optional().describe('Replaces the limit of the plan; null: the plan’s again.'),
  messages_per_hour: limit.nullable().optional().describe('The same for recipients that mail is sent to.'),
  messages_per_day: limit.nullable().optional().describe('The same, in 24 hours.'),
};
const limits = {
  requests_per_hour: z.int().nullable().describe('Replaces the limit of the plan; null: the plan’s.'),
  messages_per_hour: z.int().nullable().describe('The same for recipients that mail is sent to.'),
  messages_per_day: z.int().nullable().describe('The same, in 24 hours.'),
};

const tenant = z.object({
  id: z.string(),
  name: z.string(),
  email: z.string(),
  plan: z.string(),
  ...limits,
  suspended: z.boolean(),
  trusted: z.boolean().describe('true: its recipients need not agree to get its mail; the operator answers for it.'),
  confirmed_at: optionalTime.describe('Until then its keys do not work.'),
  deleting: z
    .enum(['deliver', 'cancel'])
    .nullable()
    .describe('The account is being deleted, and its queued mail is delivered or cancelled first. Otherwise null.'),
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
  key: z.string().describe('The value of its first API key, a full one. It is shown here and never again.'),
});

const accountName = label.describe('Of the person or organisation.');
const accountEmail = mailAddress.describe('Gets alerts, and the mail of forms without a recipient.');
const planName = z.string().describe('A name under `plans` of server.yml.');

export const usage = z.object({
  requests: z.int().describe('Requests with a key.'),
  errors: z.int().describe('Answers of 400 and more except 429.'),
  rate_limited: z.int().describe('Answers of 429.'),
  messages: z
    .int()
    .describe(
      'Recipients that count against the plan, including those that wait for it; the operator’s own account has none.',
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
  price: z.number().describe('Of a month.'),
});

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

export const accounts = {
  signup: route('POST /signup', {
    permission: 'none',
    domains: 'free',
    tag: 'Accounts',
    summary: 'Creates an account and its first API key, whose value is shown once.',
    description:
      'Needs no key. Possible if the operator allows it (`server.signup: open`); the key works once the link that is mailed to `email` is confirmed. A mailbox has one account. Over the Unix socket it is always possible, and the key works at once.',
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
    summary: 'Shows an account and what it has.',
    answer: shownTenant,
  }),
  remove: route('DELETE /admin/tenants/:id', {
    ...ADMIN,
    summary: 'Deletes an account and all of its data, and shows it as it was.',
    description:
      'Its keys are revoked and its projects, domains and webhooks end at once; the domains are free for other accounts. Queued mail is delivered or cancelled first, as `queued` says; then submissions, messages, events and everything else of the account are deleted in the background. `GET /admin/tenants/{id}` answers 404 when that is done. It cannot be undone.',
    query: z.strictObject({
      queued: z.enum(['deliver', 'cancel']).describe('What becomes of mail that is queued.'),
    }),
    answer: shownTenant,
    errors: ['CONFLICT'],
  }),
  change: route('PATCH /admin/tenants/:id', {
    ...ADMIN,
    summary: 'Changes the plan or the limits of an account, suspends it, or trusts it.',
    description:
      'While an account is suspended its keys are refused, its forms accept nothing, and none of its mail and webhooks are sent; what is queued waits until it expires. `POST /admin/queue/actions` cancels all of it. What is not named stays as it is.',
    body: z.strictObject({
      plan: planName.optional(),
      ...newLimits,
      suspended: z.boolean().optional().describe('true: nothing is accepted from it or for it.'),
      trusted: z
        .boolean()
        .optional()
        .describe('true: its recipients need not agree to get its mail; mail that waited for that is sent.'),
    }),
    answer: tenant,
    errors: ['CONFLICT'],
  }),
  usage: route('GET /admin/usage', {
    ...ADMIN,
    summary: 'Counts requests, submissions and mail, in total and by account.',
    description: `Whole UTC days, at most ${MAX_USAGE_DAYS}. Accounts without any use are left out.`,
    query: z.strictObject({
      from: since.optional().describe(`First day. Default: ${DEFAULT_USAGE_DAYS} days in all.`),
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
      'The amount is the price of the present plan for the whole month, whatever the use. Accounts that were created later and the operator’s own are left out.',
    query: z.strictObject({
      month: z
        .string()
        .regex(/^2\d{3}-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-01')
        .optional()
        .describe('Such as 2026-01 (UTC). Default: the present month.'),
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
    description: 'What is not named stays as it is. The new limits hold from the next request on.',
    body: z.strictObject({ tenant: z.string().describe('Its id.'), plan: planName.optional(), ...newLimits }),
    answer: z.object({
      tenant: z.string(),
      plan: z.string(),
      ...limits,
      amount: z.number().describe('The price of a month from now on.'),
      currency: z.string(),
    }),
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
};

export type TenantUsage = z.output<typeof usage>;
