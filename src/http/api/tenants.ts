/**
 * Accounts: sign-up, and how the operator sees, changes, counts and bills them. Where the operator lets strangers sign up,
 * nothing of theirs works before the link that is mailed to them is confirmed; and because anybody may name anybody's address,
 * who asks, and about whom, counts against caps.
 */
import { recountWaiting } from '../../accounts/message-limits.ts';
import { beginDeletion } from '../../accounts/delete-account.ts';
import { FIRST_PLAN, planOf, plansOf } from '../../accounts/plans.ts';
import { clientBucket, type Limit } from '../../accounts/rate-limits.ts';
import { LINK_DAYS, newToken } from '../../accounts/consent.ts';
import { alterTenant, makeAccount } from '../../accounts/tenants.ts';
import type { ServerConfig } from '../../config/schema.ts';
import * as contract from '../../contract/tenants.ts';
import { canonicalMailbox } from '../../lib/addresses.ts';
import { countDeliveries, resume } from '../../queue/operate.ts';
import { systemMail } from '../../queue/system-mail.ts';
import { allDeletions, findDeletion } from '../../store/account-deletions.ts';
import { nameOf } from '../../events/counts.ts';
import type { Span } from '../../store/analytics.ts';
import { isRefused } from '../../store/consents.ts';
import { domainsOfTenant } from '../../store/domains.ts';
import { countSubmissionsOf } from '../../store/submission-list.ts';
import { messagesOfAll, usageOfAll } from '../../store/usage.ts';
import { OPERATOR, allTenants, countTenants, findTenant, listTenants, type TenantChange } from '../../store/tenants.ts';
import type { TenantRow } from '../../store/tables.ts';
import type { Statement } from '../../store/statement.ts';
import { type RequestContext, refuseOver } from '../context.ts';
import { type Refusal, refuse } from '../answer.ts';
import { startOf } from './analytics.ts';
import { invalidAt, implement, success, notFound, pageOf, type Route, type Services } from './route.ts';

const HOUR = 3_600_000;
const PER_CLIENT: Limit = { count: 5, windowMs: HOUR };
const PER_MAILBOX: Limit = { count: 3, windowMs: 24 * HOUR };
const PER_SERVER: Limit = { count: 200, windowMs: HOUR };

/** `/signup` */
export function accountsRoutes({ store, clock, limits, wake }: Services): Route[] {
  /** The refusal by the first cap that has no room, if any. */
  async function capped(context: RequestContext, email: string): Promise<Refusal | undefined> {
    const caps = [
      [`signup:client:${clientBucket(context.ip)}`, PER_CLIENT],
      [`signup:mailbox:${canonicalMailbox(email)}`, PER_MAILBOX],
      ['signup:server', PER_SERVER],
    ] as const;
    for (const [bucket, limit] of caps) {
      const refusal = refuseOver(await limits.take(bucket, limit), context);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  }

  return implement(contract.accounts, {
    async signup({ context, body }) {
      const { local, snapshot } = context;
      if (!local && snapshot.server.server.signup === 'closed') return refuse('SIGNUP_CLOSED');
      const over = local ? undefined : await capped(context, body.email);
      if (over !== undefined) return over;
      const now = clock.now();
      const { tenant, key, unit } = makeAccount({ ...body, plan: FIRST_PLAN, confirmed: local, by: null }, now);
      // Who refused mail of this server hears nothing, and whoever asks is not told so.
      const asks = !local && !(await isRefused(store, body.email));
      await store.write(asks ? [...unit, ...confirmation(tenant, snapshot.server, now)] : unit);
      if (asks) wake();
      return success({ tenant: { ...tenant, deleting: null }, key });
    },
  });
}

/** The mail with the link. No word of it is the stranger's: it would go to whomever they name. */
function confirmation({ id, email }: TenantRow, config: ServerConfig, now: number): Statement[] {
  const { hostname } = config.server;
  const { link, statement } = newToken({ kind: 'signup', tenant: id, subject: id }, config, now);
  const text = `Someone, probably you, created an account on ${hostname} with this address.

To confirm it, open this link within ${LINK_DAYS} days and press the button:

${link}

Until then the account does nothing. If it was not you, ignore this mail: the account is then deleted automatically, and
you will get no more mail about it. To stop all mail from this server, open the link and press "Never again".
`;
  const mail = systemMail(
    { tenant: OPERATOR, to: email, subject: `Confirm your account on ${hostname}`, text },
    hostname,
    now,
  );
  return [statement, ...mail];
}

/** `/admin/tenants…`, `/admin/usage`, `/admin/billing` */
export function tenantsRoutes(services: Services): Route[] {
  const { store, clock, wake, consent, takeOver, objects } = services;

  /** The account with what goes with it. */
  async function withContents(row: TenantRow) {
    const { id } = row;
    const states = ['queued', 'deferred', 'sending'] as const;
    const counts = await Promise.all(states.map((state) => countDeliveries(store, { tenant: id, state })));
    return {
      ...row,
      deleting: (await findDeletion(store, id))?.queued,
      objects: await objects.count(id),
      domains: (await domainsOfTenant(store, id)).map(({ name: domain, ...claim }) => ({ ...claim, domain })),
      submissions: await countSubmissionsOf(store, id),
      queued: counts.reduce((sum, count) => sum + count, 0),
    };
  }

  /** What waited for the plan that the tenant had is counted anew. */
  async function releaseMail(tenant: string, { plan, messages_per_hour, messages_per_day }: TenantChange) {
    if (plan === undefined && messages_per_hour === undefined && messages_per_day === undefined) return;
    await recountWaiting({ store, clock }, tenant);
    wake();
  }

  return implement(contract.tenants, {
    async list({ query: { limit, cursor } }) {
      const rows = await listTenants(store, { before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      const deletions = new Map((await allDeletions(store)).map(({ tenant, queued }) => [tenant, queued]));
      const tenants = page.map((row) => ({ ...row, deleting: deletions.get(row.id) }));
      return success({ tenants, count: await countTenants(store), next_cursor });
    },
    async create({ context, principal, body }) {
      const unknownPlan = checkPlan(context, body.plan);
      if (unknownPlan !== undefined) return unknownPlan;
      const by = principal.key?.id ?? null;
      const { tenant, key, unit } = makeAccount({ ...body, confirmed: true, by }, clock.now());
      await store.write(unit);
      return success({ tenant: { ...tenant, deleting: null }, key });
    },
    async show({ params: { id } }) {
      const row = await findTenant(store, id);
      return row === undefined ? notFound('account', id) : success(await withContents(row));
    },
    async remove({ principal, params: { id }, query: { queued } }) {
      const row = await findTenant(store, id);
      if (row === undefined) return notFound('account', id);
      if (id === OPERATOR) return refuse('CONFLICT', { message: 'The operator’s account cannot be deleted.' });
      const shown = await withContents(row);
      if (!(await beginDeletion(row, { queued, by: principal }, services)))
        return refuse('CONFLICT', { message: 'The account is already being deleted.' });
      await takeOver();
      wake();
      return success({ ...shown, deleting: queued });
    },
    async change({ context, principal, params: { id }, body }) {
      const unknownPlan = checkPlan(context, body.plan);
      if (unknownPlan !== undefined) return unknownPlan;
      if (id === OPERATOR && body.suspended === true) {
        return refuse('CONFLICT', { message: 'The operator’s account cannot be suspended.' });
      }
      if (id === OPERATOR && body.trusted === false) {
        return refuse('CONFLICT', { message: 'The operator’s account is always trusted.' });
      }
      const row = await alterTenant(store, { ...body, id, by: principal }, clock.now());
      if (row === undefined) return notFound('account', id);
      await releaseMail(row.id, body);
      if (body.suspended === false) await resume(store, id, clock.now());
      if (body.suspended !== undefined) wake();
      if (body.trusted === true) await consent.release(id);
      return success({ ...row, deleting: (await findDeletion(store, id))?.queued });
    },
    async usage({ query }) {
      const last = startOf('day', (query.to ?? clock.now() + 1) - 1);
      const from = startOf('day', query.from ?? startOf('day', last, 1 - contract.DEFAULT_USAGE_DAYS));
      if (from > last) return invalidAt('from', 'must be before to');
      const to = startOf('day', last, 1);
      if (to - from > contract.MAX_USAGE_DAYS * 24 * HOUR)
        return invalidAt('from', `must be at most ${contract.MAX_USAGE_DAYS} days before to`);
      const uses = await useOfAll(services, { from, until: to });
      const tenants = (await allTenants(store)).flatMap(({ id, name, plan }) => {
        const use = uses.get(id);
        return use === undefined ? [] : [{ tenant: id, name, plan, ...use }];
      });
      const totals = noUse();
      for (const use of uses.values()) for (const name of USES) totals[name] += use[name];
      return success({ from, to, totals, tenants });
    },
    async billing({ query, context: { snapshot } }) {
      const { server } = snapshot;
      const from = query.month === undefined ? startOf('month', clock.now()) : Date.parse(query.month);
      const until = startOf('month', from, 1);
      const uses = await useOfAll(services, { from, until });
      const billed = (await allTenants(store)).filter(({ id, created_at }) => id !== OPERATOR && created_at < until);
      const lines = billed.map((tenant) => ({
        tenant: tenant.id,
        plan: tenant.plan,
        usage: uses.get(tenant.id) ?? noUse(),
        amount: planOf(tenant, server).price,
        currency: server.plans.currency,
      }));
      return success({
        month: new Date(from).toISOString().slice(0, 7),
        plans: Object.fromEntries(plansOf(server)),
        lines,
      });
    },
    async setPlan({ context, principal, body: { tenant: id, ...change } }) {
      if (Object.values(change).every((value) => value === undefined)) return invalidAt('plan', 'is missing');
      const unknownPlan = checkPlan(context, change.plan);
      if (unknownPlan !== undefined) return unknownPlan;
      if (id === OPERATOR) return refuse('CONFLICT', { message: 'The operator’s account has no plan.' });
      const row = await alterTenant(store, { id, ...change, by: principal }, clock.now());
      if (row === undefined) return notFound('account', id);
      await releaseMail(row.id, change);
      const { server } = context.snapshot;
      return success({ ...row, tenant: row.id, amount: planOf(row, server).price, currency: server.plans.currency });
    },
  });
}

/** The refusal of a plan that the configuration does not have. */
function checkPlan({ snapshot }: RequestContext, name: string | undefined): Refusal | undefined {
  const plans = [...plansOf(snapshot.server).keys()];
  if (name === undefined || plans.includes(name)) return undefined;
  return invalidAt('plan', `must be one of ${plans.join(', ')}`);
}

const USES = contract.usage.keyof().options;

function noUse(): contract.TenantUsage {
  return contract.usage.parse(Object.fromEntries(USES.map((name) => [name, 0])));
}

/** What each tenant used in a span of whole UTC days, by its id; those that used nothing are not there. */
async function useOfAll({ store, counts, requests }: Services, span: Span) {
  const uses = new Map<string, contract.TenantUsage>();
  function useOf(tenant: string): contract.TenantUsage {
    const use = uses.get(tenant) ?? noUse();
    uses.set(tenant, use);
    return use;
  }
  await requests.flush();
  for (const { tenant, ...counted } of await usageOfAll(store, span.from, span.until))
    Object.assign(useOf(tenant), counted);
  for (const { tenant, messages } of await messagesOfAll(store, span.from, span.until))
    useOf(tenant).messages = messages;
  for await (const rows of counts.ofAll(span)) {
    for (const { tenant, type, count } of rows) {
      const name = nameOf(type);
      if (name !== undefined) useOf(tenant)[name] += count;
    }
  }
  return uses;
}
