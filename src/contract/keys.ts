/** API keys, and what a client can find out about the key that it uses. */
import { z } from 'zod';
import { COARSE, PERMISSIONS } from '../lib/permission-names.ts';
import { route } from './route.ts';
import { domainName, environment, flag, label, limit, listing, optionalTime, page, time } from './values.ts';

const MAX_ENTRIES = 100;

const network = z
  .string()
  .trim()
  .pipe(
    z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], {
      error: 'must be an IP address or network such as 192.0.2.10 or 2001:db8::/32',
    }),
  );

/** An empty list could be read as "all" or as "none". */
function listOf<Item extends z.ZodType>(item: Item) {
  return z
    .array(item)
    .min(1, 'must not be empty; omit it for no restriction')
    .max(MAX_ENTRIES, `must have at most ${MAX_ENTRIES} entries`);
}

const newRestrictions = z.strictObject({
  ip_whitelist: listOf(network)
    .optional()
    .describe('IP addresses and networks (CIDR) that may use the key, IPv4 or IPv6.'),
  domain_restrictions: listOf(domainName).optional().describe('Domains that the key may be used for.'),
  rate_limit: limit.optional().describe('Requests per hour.'),
  burst_limit: limit.optional().describe('Requests per minute.'),
  expires_at: z.iso
    .datetime({ offset: true, error: 'must be a time such as 2030-01-01T00:00:00Z' })
    .optional()
    .describe('When the key expires, ISO 8601.'),
});

const restrictions = z.object({
  ip_whitelist: z.array(z.string()).optional(),
  domain_restrictions: z.array(z.string()).optional(),
  rate_limit: z.int().optional(),
  burst_limit: z.int().optional(),
  expires_at: time.optional(),
});

const keyStatus = z.object({
  id: z.string(),
  name: z.string(),
  prefix: z.string().describe('The beginning of the value.'),
  last4: z.string().describe('The last four characters of the value.'),
  permissions: z.array(z.enum(PERMISSIONS)),
  restrictions,
  environment,
  expires_at: optionalTime,
  last_used_at: optionalTime.describe('Updated with a delay of a few seconds.'),
});

/** A key as lists show it. */
export const apiKey = keyStatus.extend({
  created_at: time,
  created_by: z.string().nullable().describe('The key that created it; null: the operator or a sign-up.'),
  revoked_at: optionalTime,
});

const active_children = z
  .array(apiKey)
  .describe('The keys that it created, directly or indirectly, and that are still active.');

const rateWindow = z.object({
  limit: z.int(),
  remaining: z.int(),
  reset_time: time.describe('When more requests are possible.'),
});

const READ = { permission: 'keys.read', domains: 'narrow', tag: 'API keys' } as const;
const WRITE = { ...READ, permission: 'keys.write' } as const;
const STATUS = { permission: 'any', domains: 'free', tag: 'API keys' } as const;

export const keys = {
  status: route('GET /auth/status', {
    ...STATUS,
    summary: 'Shows the API key of the request and its account.',
    description: 'Use it to try a new key.',
    answer: z.object({
      key: keyStatus.nullable().describe('null for the operator on the Unix socket, who needs no key.'),
      tenant: z.object({ id: z.string(), name: z.string(), plan: z.string() }),
    }),
  }),
  list: route('GET /api-keys', {
    ...READ,
    summary: 'Lists the API keys of the account, newest first, including revoked ones.',
    description:
      'A key with `domain_restrictions` sees the keys whose domains are among its own; a test key sees only test keys.',
    query: z.strictObject(listing('key')),
    answer: page({ api_keys: z.array(apiKey) }),
  }),
  show: route('GET /api-keys/:id', {
    ...READ,
    summary: 'Shows an API key, without its value.',
    answer: apiKey.extend({ active_children }),
  }),
  create: route('POST /api-keys', {
    ...WRITE,
    summary: 'Creates an API key and shows its value once.',
    description:
      'The new key has at most the permissions of the key that creates it. To rotate a key, create a new one, let the clients use it, and revoke the old one. The value of a key with every permission, with or without `admin`, begins with `svc_sk_`; all others begin with `svc_rk_`.',
    body: z.strictObject({
      name: label.describe('What it is for.'),
      environment: z
        .enum(['live', 'test'])
        .optional()
        .describe('Default: `live`. Mail caused by a test key is never delivered. A test key creates only test keys.'),
      permissions: z
        .array(z.enum([...PERMISSIONS, ...COARSE]))
        .optional()
        .describe(
          'A coarse name, such as `forms`, stands for all permissions of its kind. Default: all permissions of the creating key except `admin`, which must be named.',
        ),
      restrictions: newRestrictions
        .optional()
        .describe('At least as strict as those of the creating key; omitted ones are copied from it.'),
    }),
    answer: z.object({
      id: z.string(),
      key: z.string().describe('The value. It is shown only once.'),
      name: z.string(),
      environment,
      permissions: z.array(z.enum(PERMISSIONS)),
      restrictions,
      created_at: time,
    }),
    errors: ['PLAN_LIMIT'],
  }),
  revoke: route('DELETE /api-keys/:id', {
    ...WRITE,
    summary: 'Revokes an API key at once, and shows it.',
    description:
      'The keys that it created stay active, because a key is rotated by creating its successor with it: `active_children` lists them. If a key was stolen, revoke them too with `with_children=true`. A key may revoke itself. Revoking a key again changes nothing.',
    query: z.strictObject({
      with_children: flag.describe('Also revoke every active key that it created, directly or indirectly.'),
    }),
    answer: apiKey.extend({
      active_children,
      revoked_children: z.array(apiKey).describe('The keys that it created and that were revoked with it.'),
    }),
  }),
  limits: route('GET /rate-limits', {
    ...STATUS,
    summary: 'Shows how much is left of the rate limits.',
    description:
      'Shows the strictest of the limits of the account, the key and (per minute) the IP address. The request itself counts. Without an hourly limit, the hourly value is sixty times the per-minute limit of the IP address. Messages are counted per recipient; messages that wait because of the plan’s limit count as used.',
    answer: z.object({
      rate_limits: z.object({
        requests_per_hour: rateWindow,
        requests_per_minute: rateWindow,
        messages_per_hour: rateWindow.nullable().describe('Limit of the account; null: none.'),
        messages_per_day: rateWindow.nullable().describe('The same for 24 hours.'),
      }),
    }),
  }),
};
