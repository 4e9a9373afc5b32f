/** Tenants as the operator sees and steers them. */
import type { Consent } from '../../accounts/consent.ts';
import type { MessageLimits } from '../../accounts/message-limits.ts';
import { planOf, plansOf } from '../../accounts/plans.ts';
import { alterTenant, makeAccount } from '../../accounts/tenants.ts';
import type { Usage } from '../../accounts/usage.ts';
import * as contract from '../../contract/tenants.ts';
import type { EventCounts } from '../../events/counts.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { resume } from '../../queue/operate.ts';
import type { Span } from '../../store/analytics.ts';
import { messagesOfAll, usageOfAll } from '../../store/usage.ts';
import { OPERATOR, allTenants, countTenants, findTenant, listTenants, type TenantChange } from '../../store/tenants.ts';
import type { Store } from '../../store/store.ts';

import { json } from '../answer.ts';
import type { Exchange } from '../context.ts';
import { type Refusal, refuse } from '../errors.ts';
import { shownTenant } from './accounts.ts';
import { each, nameOf } from './analytics.ts';
import { invalidAt } from './issues.ts';
import { type Handlers, implement, pageOf, type Route } from './route.ts';
import { startOf } from './times.ts';

export interface TenantsParts {
  readonly counts: EventCounts;
  readonly usage: Pick<Usage, 'flush'>;
  readonly consent: Consent;
  readonly store: Store;
  readonly clock: Clock;
  readonly messages: MessageLimits;
  /** Tells the queue, here and in other daemons, that there may be something to do or to stop. */
  readonly wake: () => void;
}

/** `/admin/tenants…`, `/admin/usage`, `/admin/billing` */
export function tenantsRoutes(parts: TenantsParts): Route[] {
  return implement(contract.tenants, { ...tenantHandlers(parts), ...billingHandlers(parts), ...usageHandlers(parts) });
}

function tenantHandlers(
  parts: TenantsParts,
): Handlers<Pick<typeof contract.tenants, 'list' | 'create' | 'show' | 'change'>> {
  const { store, clock, wake, consent } = parts;
  return {
    async list({ query: { limit, cursor } }) {
      const [rows, count] = await Promise.all([
        listTenants(store, { before: cursor, limit: limit + 1 }),
        countTenants(store),
      ]);
      const { page, next_cursor } = pageOf(rows, limit);
      return json({ tenants: page.map(shownTenant), count, next_cursor });
    },
    async create({ exchange, principal, body }) {
      const unknownPlan = checkPlan(exchange, body.plan);
      if (unknownPlan !== undefined) return unknownPlan;
      const by = principal.key?.id ?? null;
      const { tenant, key, unit } = makeAccount({ ...body, confirmed: true, by }, clock.now());
      await store.write(unit);
      return json({ tenant: shownTenant(tenant), key });
    },
    async show({ params: { id } }) {
      const row = await findTenant(store, id);
      return row === undefined ? unknown(id) : json(shownTenant(row));
    },
    async change({ exchange, principal, params: { id }, body }) {
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
  };
}

/** What waited for the plan that the tenant had is counted anew. */
async function releaseMail(
  tenant: string,
  { plan, messages_per_hour, messages_per_day }: TenantChange,
  { messages, wake }: Pick<TenantsParts, 'messages' | 'wake'>,
): Promise<void> {
  if (plan === undefined && messages_per_hour === undefined && messages_per_day === undefined) return;
  await messages.release(tenant);
  wake();
}

/** The refusal of a plan that the configuration does not have. */
function checkPlan({ snapshot }: Exchange, name: string): Refusal | undefined {
  const plans = [...plansOf(snapshot.server).keys()];
  return plans.includes(name) ? undefined : invalidAt('plan', `must be one of ${plans.join(', ')}`);
}

function unknown(id: string): Refusal {
  return refuse('NOT_FOUND', { message: `There is no tenant ${id.slice(0, 60)}.` });
}

// What each tenant owes for a month, by the prices of the configuration, and the plan that it is on.

function billingHandlers(parts: TenantsParts): Handlers<Pick<typeof contract.tenants, 'billing' | 'setPlan'>> {
  const { store, clock } = parts;
  return {
    async billing({ query, exchange: { snapshot } }) {
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
    async setPlan({ exchange, principal, body: { tenant: id, ...change } }) {
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
  };
}

// What the whole server did, and for whom.

const DAY = 86_400_000;
function usageHandlers(parts: TenantsParts): Handlers<Pick<typeof contract.tenants, 'usage'>> {
  const { store, clock } = parts;
  return {
    async usage({ query }) {
      const last = startOf('day', (query.to ?? clock.now() + 1) - 1);
      const from = startOf('day', query.from ?? startOf('day', last, 1 - contract.DEFAULT_USAGE_DAYS));
      if (from > last) return invalidAt('from', 'must be before to');
      const to = startOf('day', last, 1);
      if (to - from > contract.MAX_USAGE_DAYS * DAY)
        return invalidAt('from', `must be ${contract.MAX_USAGE_DAYS} days before to at most`);
      const uses = await useOfAll(parts, { from, until: to });
      const tenants = (await allTenants(store)).flatMap(({ id, name, plan }) => {
        const use = uses.get(id);
        return use === undefined ? [] : [{ tenant: id, name, plan, ...use }];
      });
      return json({ from: isoTime(from), to: isoTime(to), totals: sumOf(uses.values()), tenants });
    },
  };
}

// What each tenant used of the server in a span of days: requests, submissions, mail.

type Use = contract.TenantUsage;

/** Nothing used. */
function noUse(): Use {
  return { requests: 0, errors: 0, rate_limited: 0, messages: 0, ...each(0) };
}

/** By tenant; those that used nothing are not there. The span is of whole UTC days. */
async function useOfAll({ store, counts, usage }: TenantsParts, span: Span): Promise<ReadonlyMap<string, Use>> {
  const uses = new Map<string, Use>();
  await usage.flush();
  for (const { tenant, ...requests } of await usageOfAll(store, span)) uses.set(tenant, { ...noUse(), ...requests });
  for (const { tenant, messages } of await messagesOfAll(store, span)) {
    uses.set(tenant, { ...(uses.get(tenant) ?? noUse()), messages });
  }
  for await (const rows of counts.ofAll(span)) {
    for (const { tenant, type, count } of rows) {
      const name = nameOf(type);
      if (name === undefined) continue;
      const use = uses.get(tenant) ?? noUse();
      use[name] += count;
      uses.set(tenant, use);
    }
  }
  return uses;
}

/** The sum of what they used. */
function sumOf(uses: Iterable<Use>): Use {
  const sum = noUse();
  for (const use of uses) {
    sum.requests += use.requests;
    sum.errors += use.errors;
    sum.rate_limited += use.rate_limited;
    sum.messages += use.messages;
    sum.submissions += use.submissions;
    sum.spam += use.spam;
    sum.queued += use.queued;
    sum.delivered += use.delivered;
    sum.deferred += use.deferred;
    sum.bounced += use.bounced;
    sum.forwarded += use.forwarded;
    sum.rejected += use.rejected;
  }
  return sum;
}
