/** What the whole server did, and for whom. */
import { z } from 'zod';
import { isoTime, type Clock } from '../../lib/clock.ts';
import { allTenants } from '../../store/tenants.ts';
import { json } from '../answer.ts';
import { invalidAt } from './issues.ts';
import { defineRoute, type Route } from './route.ts';
import { sumOf, useOfAll, useShape, type TenantUseParts } from './tenant-use.ts';
import { since, startOf, until } from './times.ts';

export interface AdminUsageParts extends TenantUseParts {
  readonly clock: Clock;
}

const DAY = 86_400_000;
const USUAL_DAYS = 30;
const MOST_DAYS = 750;
const time = z.iso.datetime();

/** `/admin/usage` */
export function adminUsageRoutes(parts: AdminUsageParts): Route[] {
  const { store, clock } = parts;
  return [
    defineRoute({
      method: 'GET',
      path: '/admin/usage',
      permission: 'admin',
      domains: 'refuse',
      tag: 'Administration',
      summary: 'Counts requests, submissions and mail, in all and of each tenant.',
      description: `Whole UTC days, ${MOST_DAYS} at most. Tenants that used nothing are left out.`,
      query: z.strictObject({
        from: since.optional().describe(`First day. ${USUAL_DAYS} days in all unless told.`),
        to: until.optional().describe('Last day. Today unless told.'),
      }),
      answer: z.object({
        from: time,
        to: time.describe('End of the last day.'),
        totals: useShape,
        tenants: z.array(z.object({ tenant: z.string(), name: z.string(), plan: z.string(), ...useShape.shape })),
      }),
      async handle({ query }) {
        const last = startOf('day', (query.to ?? clock.now() + 1) - 1);
        const from = startOf('day', query.from ?? startOf('day', last, 1 - USUAL_DAYS));
        if (from > last) return invalidAt('from', 'must be before to');
        const to = startOf('day', last, 1);
        if (to - from > MOST_DAYS * DAY) return invalidAt('from', `must be ${MOST_DAYS} days before to at most`);
        const uses = await useOfAll(parts, { from, until: to });
        const tenants = (await allTenants(store)).flatMap(({ id, name, plan }) => {
          const use = uses.get(id);
          return use === undefined ? [] : [{ tenant: id, name, plan, ...use }];
        });
        return json({ from: isoTime(from), to: isoTime(to), totals: sumOf(uses.values()), tenants });
      },
    }),
  ];
}
