/** Addresses that a tenant's mail is no longer sent to. Leads reach the owner of a form all the same. */
import { z } from 'zod';
import { accountIdOf } from '../../accounts/principal.ts';
import { isoTime, type Clock } from '../../lib/clock.ts';
import { allow, countSuppressions, findSuppression, selectSuppressions, suppress } from '../../store/suppressions.ts';
import type { Store } from '../../store/store.ts';
import type { SuppressionRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { mailAddress } from './account-shapes.ts';
import { listing, listOf } from './listing.ts';
import { defineRoute, type Route } from './route.ts';

export interface SuppressionsParts {
  readonly store: Store;
  readonly clock: Clock;
}

const REASONS = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const satisfies readonly SuppressionRow['reason'][];

const suppression = z.object({
  address: z.string(),
  reason: z.enum(REASONS),
  created_at: z.iso.datetime(),
});

const SUPPRESSIONS = { permission: 'email.send', domains: 'refuse', tag: 'Suppressions' } as const;

/** `/suppressions…` */
export function suppressionsRoutes({ store, clock }: SuppressionsParts): Route[] {
  return [
    defineRoute({
      ...SUPPRESSIONS,
      method: 'GET',
      path: '/suppressions',
      summary: 'Lists the addresses that no mail is sent to, in their alphabetical order.',
      query: z.strictObject({
        limit: listing('msg').limit,
        cursor: z.string().max(320).optional().describe('The next_cursor of the page before.'),
      }),
      answer: listOf('suppressions', suppression),
      async handle({ principal: { tenant }, query: { limit, cursor: after } }) {
        const rows = await selectSuppressions(store, { tenant: tenant.id, after, limit: limit + 1 });
        const page = rows.slice(0, limit);
        const next_cursor = rows.length > limit ? (page.at(-1)?.address ?? null) : null;
        return json({ suppressions: page.map(shown), count: await countSuppressions(store, tenant.id), next_cursor });
      },
    }),
    defineRoute({
      ...SUPPRESSIONS,
      method: 'POST',
      path: '/suppressions',
      summary: 'Puts an address on the list; one that is there already keeps its reason.',
      body: z.strictObject({
        address: mailAddress.describe('Compared without case.'),
        reason: z.enum(REASONS).default('manual').describe('Why.'),
      }),
      answer: suppression,
      async handle({ principal: { tenant }, body: { address, reason } }) {
        const row = { tenant: tenant.id, address: address.toLowerCase(), reason, created_at: clock.now() };
        await store.write([suppress(row)]);
        return json(shown((await findSuppression(store, tenant.id, address)) ?? row));
      },
    }),
    defineRoute({
      ...SUPPRESSIONS,
      method: 'DELETE',
      path: '/suppressions/:address',
      summary: 'Takes an address off the list.',
      answer: suppression,
      async handle({ principal, params: { address } }) {
        const { tenant, environment } = principal;
        const row = await findSuppression(store, tenant.id, address);
        if (row === undefined) {
          const live = environment === 'test' && (await findSuppression(store, accountIdOf(principal), address));
          if (live) return refuse('AUTH_TEST_KEY');
          return refuse('NOT_FOUND', { message: `${address.slice(0, 320)} is not on the list.` });
        }
        await store.write([allow(tenant.id, address)]);
        return json(shown(row));
      },
    }),
  ];
}

function shown({ address, reason, created_at }: SuppressionRow): z.input<typeof suppression> {
  return { address, reason, created_at: isoTime(created_at) };
}
