/** Accounts in bodies and answers: what the routes of keys, tenants and sign-up have in common. */
import { z } from 'zod';
import { normalNetwork } from '../../dns/networks.ts';
import { PERMISSIONS } from '../../lib/permission-names.ts';
import { restrictionsOf, type Restrictions } from '../../accounts/principal.ts';
import { parseAddress, parseDomain } from '../../lib/addresses.ts';
import { isoTime } from '../../lib/clock.ts';
import type { ApiKeyRow, TenantRow } from '../../store/tables-accounts.ts';

const MOST_ENTRIES = 100;
const MOST_REQUESTS = 1_000_000_000;

/** A name that a person gives: one line. */
export const label = z
  .string()
  .trim()
  .regex(/^\P{Cc}{1,200}$/u, 'must be one line of 1 to 200 characters');

/** Where a thing belongs. */
export const environment = z
  .enum(['live', 'test'])
  .describe('`test`: a test key made it, live keys do not see it, and its mail is captured.');

/** A mail address in its normal form. */
export const mailAddress = z
  .string()
  .transform((text) => parseAddress(text.trim())?.address ?? '')
  .refine((address) => address !== '', 'must be a mail address such as you@example.com');

const network = z
  .string()
  .transform((text) => normalNetwork(text.trim()) ?? '')
  .refine((text) => text !== '', 'must be an IP address or network such as 192.0.2.10 or 2001:db8::/32');

const domain = z
  .string()
  .transform((text) => parseDomain(text.trim()) ?? '')
  .refine((name) => name !== '', 'must be a domain name such as example.com');

const count = z
  .int('must be a whole number')
  .min(1, 'must be 1 or more')
  .max(MOST_REQUESTS, `must be ${MOST_REQUESTS} or less`);

const limit = count.nullable();

/** What may be set of an account in place of its plan's. */
export const accountLimits = {
  requests_per_hour: limit.optional().describe('In place of the plan’s; null: the plan’s again.'),
  messages_per_hour: limit.optional().describe('The same: recipients that mail is sent to.'),
  messages_per_day: limit.optional().describe('The same, in 24 hours.'),
};

/** The same as it is shown. */
export const shownLimits = {
  requests_per_hour: z.int().nullable().describe('In place of the plan’s; null: the plan’s.'),
  messages_per_hour: z.int().nullable().describe('The same: recipients that mail is sent to.'),
  messages_per_day: z.int().nullable().describe('The same, in 24 hours.'),
};

/** `restrictions` of a new key. */
export const wantedRestrictions = z.strictObject({
  ip_whitelist: list(network).optional().describe('Addresses and networks (CIDR), IPv4 or IPv6, that may use the key.'),
  domain_restrictions: list(domain).optional().describe('Domains that the key may be used for.'),
  rate_limit: count.optional().describe('Requests per hour.'),
  burst_limit: count.optional().describe('Requests per minute.'),
  expires_at: z.iso
    .datetime({ offset: true, error: 'must be a time such as 2030-01-01T00:00:00Z' })
    .optional()
    .describe('When the key ends, ISO 8601.'),
});

/** Empty would be read as "all" by one and as "none" by the other. */
function list<Item extends z.ZodType>(item: Item) {
  return z
    .array(item)
    .min(1, 'must name at least one; leave it out for no such restriction')
    .max(MOST_ENTRIES, `must name ${MOST_ENTRIES} at most`);
}

const time = z.iso.datetime();

const restrictions = z.object({
  ip_whitelist: z.array(z.string()).optional(),
  domain_restrictions: z.array(z.string()).optional(),
  rate_limit: z.int().optional(),
  burst_limit: z.int().optional(),
  expires_at: time.optional(),
});

export const keyShape = z.object({
  id: z.string(),
  name: z.string(),
  prefix: z.string().describe('How the value begins.'),
  last4: z.string().describe('How the value ends.'),
  permissions: z.array(z.enum(PERMISSIONS)),
  restrictions,
  environment: z.enum(['live', 'test']),
  expires_at: time.nullable(),
  last_used_at: time.nullable().describe('Some seconds late.'),
});

export const listedKeyShape = keyShape.extend({
  created_at: time,
  created_by: z.string().nullable().describe('The key that made it; null: the operator or a sign-up.'),
  revoked_at: time.nullable(),
});

export const newKeyShape = z.object({
  id: z.string(),
  key: z.string().describe('The value. It is shown here and never again.'),
  name: z.string(),
  environment: z.enum(['live', 'test']),
  permissions: z.array(z.enum(PERMISSIONS)),
  restrictions,
  created_at: time,
});

export const tenantShape = z.object({
  id: z.string(),
  name: z.string(),
  email: z.string(),
  plan: z.string(),
  ...shownLimits,
  suspended: z.boolean(),
  trusted: z.boolean().describe('true: its recipients need not agree to get its mail; the operator answers for it.'),
  confirmed_at: time.nullable().describe('Until then its keys do not work.'),
  created_at: time,
});

/** `{ tenant, key }` of an account that was just made. */
export const newAccountShape = z.object({
  tenant: tenantShape,
  key: z.string().describe('The value of its first API key, a full one. It is shown here and never again.'),
});

/** A key as `GET /auth/status` has it. */
export function shownKey(row: ApiKeyRow): object {
  const { id, name, prefix, last4, environment, expires_at, last_used_at } = row;
  return {
    id,
    name,
    prefix,
    last4,
    ...heldBy(row),
    environment,
    expires_at: timeOf(expires_at),
    last_used_at: timeOf(last_used_at),
  };
}

/** A key as the list has it. */
export function listedKey(row: ApiKeyRow): object {
  const { created_at, created_by, revoked_at } = row;
  return { ...shownKey(row), created_at: isoTime(created_at), created_by, revoked_at: timeOf(revoked_at) };
}

/** A key with its value. */
export function newKey(row: ApiKeyRow, key: string): object {
  const { id, name, environment, created_at } = row;
  return { id, key, name, environment, ...heldBy(row), created_at: isoTime(created_at) };
}

export function shownTenant(row: TenantRow): object {
  const { id, name, email, plan, requests_per_hour, messages_per_hour, messages_per_day } = row;
  const { suspended, trusted, confirmed_at, created_at } = row;
  return {
    id,
    name,
    email,
    plan,
    requests_per_hour,
    messages_per_hour,
    messages_per_day,
    suspended: suspended !== 0,
    trusted: trusted !== 0,
    confirmed_at: timeOf(confirmed_at),
    created_at: isoTime(created_at),
  };
}

function heldBy(row: ApiKeyRow): { permissions: unknown; restrictions: Restrictions } {
  return { permissions: JSON.parse(row.permissions), restrictions: restrictionsOf(row.restrictions) };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms);
}
