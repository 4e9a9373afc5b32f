/** What was said at the SMTP door of each recipient: whatever was refused is here, with its reason. */
import { z } from 'zod';
import { parseDomain } from '../../lib/addresses.ts';
import { isoTime } from '../../lib/clock.ts';
import { countInboundLog, listInboundLog } from '../../store/inbound.ts';
import type { InboundLogRow } from '../../store/tables-inbound.ts';
import type { Store } from '../../store/store.ts';
import { json } from '../answer.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Route } from './route.ts';
import { since, until } from './times.ts';

export interface AdminInboundParts {
  readonly store: Store;
}

const OUTCOMES = ['accepted', 'rejected', 'deferred'] as const satisfies readonly InboundLogRow['outcome'][];

const domainName = z
  .string()
  .transform((text) => parseDomain(text))
  .refine((name) => name !== undefined, 'must be a domain name such as example.com');
const entry = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  tenant: z.string().nullable().describe('Whose address it was; null where it was nobody’s.'),
  domain: z.string().nullable(),
  ip: z.string(),
  helo: z.string(),
  sender: z.string().describe('Of the envelope; empty for the null sender.'),
  recipient: z.string().describe('Empty where it ended before a recipient was named.'),
  outcome: z.enum(OUTCOMES),
  reply: z.string(),
  reason: z.string().describe('A stable name, such as unknown_recipient.'),
  inbound: z.string().nullable().describe('The message that was taken.'),
});

/** `/admin/inbound` */
export function adminInboundRoutes({ store }: AdminInboundParts): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/admin/inbound',
      permission: 'admin',
      domains: 'refuse',
      tag: 'Administration',
      summary: 'Lists what was said of each recipient of incoming mail, newest first.',
      query: z.strictObject({
        ...listing('inl'),
        outcome: z.enum(OUTCOMES).optional().describe('Only what was accepted, rejected or deferred.'),
        domain: domainName.optional().describe('Only mail for this domain.'),
        reason: z
          .string()
          .regex(/^[a-z_]{1,60}$/, 'must be a reason such as unknown_recipient')
          .optional()
          .describe('Only what has this reason.'),
        from: since.optional().describe('Only what came since this date or time.'),
        to: until.optional().describe('Only what came until this date (that whole day) or time.'),
      }),
      answer: listOf('inbound', entry),
      async handle({ query: { limit, cursor, outcome, domain, reason, from, to } }) {
        const filter = { outcome, domain, reason, from, until: to };
        const rows = await listInboundLog(store, filter, { limit: limit + 1, before: cursor });
        const { page, next_cursor } = pageOf(rows, limit);
        return json({ inbound: page.map(shown), count: await countInboundLog(store, filter), next_cursor });
      },
    }),
  ];
}

function shown({ created_at, ...row }: InboundLogRow): object {
  const { id, tenant, domain, ip, helo, sender, recipient, outcome, reply, reason, inbound } = row;
  return {
    id,
    at: isoTime(created_at),
    tenant,
    domain,
    ip,
    helo,
    sender,
    recipient,
    outcome,
    reply,
    reason,
    inbound,
  };
}
