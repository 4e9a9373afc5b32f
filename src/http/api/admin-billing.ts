/** What each tenant owes for a month, by the prices of the configuration, and the plan that it is on. */
import { z } from 'zod';
import { planOf, plansOf } from '../../accounts/plans.ts';
import { alterTenant } from '../../accounts/tenants.ts';
import { OBJECT_KINDS } from '../../config/schema-server.ts';
import type { Clock } from '../../lib/clock.ts';
import { OPERATOR } from '../../store/revisions.ts';
import { allTenants } from '../../store/tenants.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { accountLimits, shownLimits } from './account-shapes.ts';
import { checkPlan, releaseMail, type AdminTenantsParts } from './admin-tenants.ts';
import { invalidAt } from './issues.ts';
import { defineRoute, type Route } from './route.ts';
import { noUse, useOfAll, useShape, type TenantUseParts } from './tenant-use.ts';
import { startOf } from './times.ts';

export interface AdminBillingParts extends TenantUseParts, Pick<AdminTenantsParts, 'messages' | 'wake'> {
  readonly clock: Clock;
}

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration', path: '/admin/billing' } as const;

const plan = z.object({
  requests_per_hour: z.int().nullable(),
  requests_per_minute: z.int().nullable(),
  messages_per_hour: z.int().nullable(),
  messages_per_day: z.int().nullable(),
  objects: z.record(z.enum(OBJECT_KINDS), z.int().nullable()),
  price: z.number().describe('Of a month.'),
});

/** `/admin/billing` */
export function adminBillingRoutes(parts: AdminBillingParts): Route[] {
  const { store, clock } = parts;
  return [
    defineRoute({
      ...ADMIN,
      method: 'GET',
      summary: 'Shows what each tenant used in a month, and the price of its plan.',
      description:
        'The amount is the price of the plan that the tenant is on now, for the whole month, whatever it used. Tenants that came later are left out, and so is the operator’s own.',
      query: z.strictObject({
        month: z
          .string()
          .regex(/^2\d{3}-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-01')
          .optional()
          .describe('Such as 2026-01 (UTC); the present one unless told.'),
      }),
      answer: z.object({
        month: z.string(),
        plans: z.record(z.string(), plan).describe('Those of server.yml.'),
        lines: z.array(
          z.object({
            tenant: z.string(),
            plan: z.string(),
            usage: useShape,
            amount: z.number(),
            currency: z.string().describe('ISO 4217.'),
          }),
        ),
      }),
      async handle({ query, exchange: { snapshot } }) {
        const { server } = snapshot;
        const from = query.month === undefined ? startOf('month', clock.now()) : Date.parse(query.month);
        const until = startOf('month', from, 1);
        const uses = await useOfAll(parts, { from, until });
        const billed = (await allTenants(store)).filter(({ id, created_at }) => id !== OPERATOR && created_at < until);
        const lines = billed.map((tenant) => ({
          tenant: tenant.id,
          plan: tenant.plan,
          usage: uses.get(tenant.id) ?? noUse(),
          amount: planOf(tenant, server).price,
          currency: server.plans.currency,
        }));
        return json({
          month: new Date(from).toISOString().slice(0, 7),
          plans: Object.fromEntries(plansOf(server)),
          lines,
        });
      },
    }),
    defineRoute({
      ...ADMIN,
      method: 'POST',
      summary: 'Puts a tenant on a plan.',
      description: 'What is not named stays as it is. The new limits hold from the next request on.',
      body: z.strictObject({
        tenant: z.string().describe('Its id.'),
        plan: z.string().optional().describe('A name under `plans` of server.yml.'),
        ...accountLimits,
      }),
      answer: z.object({
        tenant: z.string(),
        plan: z.string(),
        ...shownLimits,
        amount: z.number().describe('The price of a month from now on.'),
        currency: z.string(),
      }),
      async handle({ exchange, principal, body: { tenant: id, ...change } }) {
        const { plan } = change;
        if (Object.values(change).every((value) => value === undefined)) return invalidAt('plan', 'is missing');
        const unknown = plan === undefined ? undefined : checkPlan(exchange, plan);
        if (unknown !== undefined) return unknown;
        if (id === OPERATOR) return refuse('CONFLICT', { message: 'The operator’s own tenant has no plan.' });
        const row = await alterTenant(store, { id, ...change, by: principal }, clock.now());
        if (row === undefined) return refuse('NOT_FOUND', { message: `There is no tenant ${id.slice(0, 60)}.` });
        await releaseMail(row.id, change, parts);
        const { server } = exchange.snapshot;
        return json({
          tenant: row.id,
          plan: row.plan,
          requests_per_hour: row.requests_per_hour,
          messages_per_hour: row.messages_per_hour,
          messages_per_day: row.messages_per_day,
          amount: planOf(row, server).price,
          currency: server.plans.currency,
        });
      },
    }),
  ];
}
