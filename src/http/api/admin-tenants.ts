/** Tenants as the operator sees and steers them. */
import { z } from 'zod';
import type { Consent } from '../../accounts/consent.ts';
import type { MessageLimits } from '../../accounts/message-limits.ts';
import { plansOf, FIRST_PLAN } from '../../accounts/plans.ts';
import { alterTenant, makeAccount } from '../../accounts/tenants.ts';
import type { Clock } from '../../lib/clock.ts';
import { resume } from '../../queue/operate.ts';
import { OPERATOR } from '../../store/revisions.ts';
import type { Store } from '../../store/store.ts';
import { countTenants, findTenant, listTenants, type TenantChange } from '../../store/tenants.ts';
import { json } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import type { Exchange } from '../context.ts';
import { label, mailAddress, accountLimits, newAccountShape, shownTenant, tenantShape } from './account-shapes.ts';
import { invalidAt } from './issues.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export interface AdminTenantsParts {
  readonly consent: Consent;
  readonly store: Store;
  readonly clock: Clock;
  readonly messages: MessageLimits;
  /** Tells the queue, here and in other daemons, that there may be something to do or to stop. */
  readonly wake: () => void;
}

/** The operator's tenant has an id of its own form. */
const cursor = z
  .string()
  .regex(/^ten_([0-9a-z]{26}|operator)$/, 'must be a next_cursor that was answered')
  .optional()
  .describe('The next_cursor of the page before.');

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

/** `/admin/tenants…` */
export function adminTenantsRoutes(parts: AdminTenantsParts): Route[] {
  const { store, clock, wake, consent } = parts;
  return [
    defineRoute({
      ...ADMIN,
      method: 'GET',
      path: '/admin/tenants',
      summary: 'Lists the tenants: the operator’s, then the others, newest first.',
      query: z.strictObject({ ...listing('ten'), cursor }),
      answer: listOf('tenants', tenantShape),
      async handle({ query: { limit, cursor } }) {
        const [rows, count] = await Promise.all([
          listTenants(store, { before: cursor, limit: limit + 1 }),
          countTenants(store),
        ]);
        const { page, next_cursor } = pageOf(rows, limit);
        return json({ tenants: page.map(shownTenant), count, next_cursor });
      },
    }),
    defineRoute({
      ...ADMIN,
      method: 'POST',
      path: '/admin/tenants',
      summary: 'Makes a tenant and its first key, whose value is shown once.',
      description: 'The key works at once, and the account is `trusted`.',
      body: z.strictObject({
        name: label.describe('Of the person or organisation.'),
        email: mailAddress.describe('Where its alerts go, and the mail of its forms without a recipient.'),
        plan: z.string().default(FIRST_PLAN).describe('A name under `plans` of server.yml.'),
      }),
      answer: newAccountShape,
      async handle({ exchange, principal, body }) {
        const unknownPlan = checkPlan(exchange, body.plan);
        if (unknownPlan !== undefined) return unknownPlan;
        const by = principal.key?.id ?? null;
        const { tenant, key, unit } = makeAccount({ ...body, confirmed: true, by }, clock.now());
        await store.write(unit);
        return json({ tenant: shownTenant(tenant), key });
      },
    }),
    defineRoute({
      ...ADMIN,
      method: 'GET',
      path: '/admin/tenants/:id',
      summary: 'Shows a tenant.',
      answer: tenantShape,
      async handle({ params: { id } }) {
        const row = await findTenant(store, id);
        return row === undefined ? unknown(id) : json(shownTenant(row));
      },
    }),
    defineRoute({
      ...ADMIN,
      method: 'PATCH',
      path: '/admin/tenants/:id',
      summary: 'Changes the plan of a tenant, its limits, whether it is served, or whether it is trusted.',
      description:
        'While a tenant is suspended its keys are refused, its forms take nothing, and none of its mail and posts to webhooks leave; what it has in the queue waits until it expires. `POST /admin/queue/actions` cancels it as a whole. What is not named stays as it is.',
      body: z.strictObject({
        plan: z.string().optional().describe('A name under `plans` of server.yml.'),
        ...accountLimits,
        suspended: z.boolean().optional().describe('true: nothing is accepted from it or for it.'),
        trusted: z
          .boolean()
          .optional()
          .describe('true: its recipients need not agree to get its mail; what waited for that is sent.'),
      }),
      answer: tenantShape,
      async handle({ exchange, principal, params: { id }, body }) {
        const unknownPlan = body.plan === undefined ? undefined : checkPlan(exchange, body.plan);
        if (unknownPlan !== undefined) return unknownPlan;
        if (id === OPERATOR && body.suspended === true) {
          return refuse('CONFLICT', { message: 'The operator’s own tenant cannot be suspended.' });
        }
        if (id === OPERATOR && body.trusted === false) {
          return refuse('CONFLICT', { message: 'The operator’s own tenant is always trusted.' });
        }
        const row = await alterTenant(store, { ...body, id, by: principal }, clock.now());
        if (row !== undefined) await releaseMail(row.id, body, parts);
        if (body.suspended !== undefined) wake();
        if (row !== undefined && body.suspended === false) {
          await resume(store, id, clock.now());
          wake();
        }
        if (body.trusted === true) await consent.release(id);
        return row === undefined ? unknown(id) : json(shownTenant(row));
      },
    }),
  ];
}

/** What waited for the plan that the tenant had is counted anew. */
export async function releaseMail(
  tenant: string,
  { plan, messages_per_hour, messages_per_day }: TenantChange,
  { messages, wake }: Pick<AdminTenantsParts, 'messages' | 'wake'>,
): Promise<void> {
  if (plan === undefined && messages_per_hour === undefined && messages_per_day === undefined) return;
  await messages.release(tenant);
  wake();
}

/** The refusal of a plan that the configuration does not have. */
export function checkPlan({ snapshot }: Exchange, name: string): Refusal | undefined {
  const plans = [...plansOf(snapshot.server).keys()];
  return plans.includes(name) ? undefined : invalidAt('plan', `must be one of ${plans.join(', ')}`);
}

function unknown(id: string): Outcome {
  return refuse('NOT_FOUND', { message: `There is no tenant ${id.slice(0, 60)}.` });
}
