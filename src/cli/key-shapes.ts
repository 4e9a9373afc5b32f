/** API keys as commands read and show them. */
import { z } from 'zod';
import { shortTime } from './run.ts';

export const restrictionsShape = z.object({
  ip_whitelist: z.array(z.string()).optional(),
  domain_restrictions: z.array(z.string()).optional(),
  rate_limit: z.number().optional(),
  burst_limit: z.number().optional(),
  expires_at: z.string().optional(),
});

export const keyShape = z.object({
  id: z.string(),
  name: z.string(),
  prefix: z.string(),
  last4: z.string(),
  permissions: z.array(z.string()),
  restrictions: restrictionsShape,
  environment: z.string(),
  last_used_at: z.string().nullable(),
});

/** What narrows a key, as lines of a name and a value. */
export function restrictionFacts(held: z.output<typeof restrictionsShape>): [string, string][] {
  const { ip_whitelist, domain_restrictions, rate_limit, burst_limit, expires_at } = held;
  const facts: [string, string | undefined][] = [
    ['from', ip_whitelist?.join(', ')],
    ['for', domain_restrictions?.join(', ')],
    ['an hour', rate_limit === undefined ? undefined : `${rate_limit} requests`],
    ['a minute', burst_limit === undefined ? undefined : `${burst_limit} requests`],
    ['until', expires_at === undefined ? undefined : shortTime(expires_at)],
  ];
  return facts.flatMap(([name, fact]) => (fact === undefined ? [] : [[name, fact] satisfies [string, string]]));
}
