/** Addresses of an account: those that were asked to agree to its mail, and those that its mail is no longer sent to. */
import { accountIdOf } from '../../accounts/principal.ts';
import { suppressions } from '../../contract/email.ts';
import { recipients } from '../../contract/forms.ts';
import { consentOf, countConsents, selectConsents } from '../../store/consents.ts';
import { allow, countSuppressions, findSuppression, selectSuppressions, suppress } from '../../store/suppressions.ts';
import type { ConsentRow } from '../../store/tables.ts';
import { rateLimited, refuseOver } from '../context.ts';
import { refuse } from '../answer.ts';
import { implement, json, pageOf, type Route, type Services } from './route.ts';

/** `/recipients` */
export function recipientsRoutes({ store, consent }: Services): Route[] {
  async function shown(tenant: string, rows: readonly Omit<ConsentRow, 'tenant'>[]) {
    const statuses = await consent.statuses({ tenant, addresses: rows.map(({ address }) => address) });
    return rows.map((row) => ({ ...row, status: statuses.get(row.address) ?? 'pending' }));
  }

  return implement(recipients, {
    async list({ principal: { tenant }, query: { limit, cursor: after } }) {
      const rows = await selectConsents(store, { tenant: tenant.id, after, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ address }) => address);
      return json({
        recipients: await shown(tenant.id, page),
        count: await countConsents(store, tenant.id),
        next_cursor,
      });
    },
    async ask({ principal: { tenant, environment }, exchange, body: { address } }) {
      if (environment === 'test') {
        return refuse('AUTH_FORBIDDEN', { message: 'A test key mails nobody: ask with a live key.' });
      }
      const asked = await consent.askAgain(tenant.id, address);
      if (asked.kind === 'capped') {
        return refuseOver(asked.verdict, exchange) ?? rateLimited(asked.verdict, exchange.at);
      }
      if (asked.kind === 'refused') {
        const message = `${address} wants no mail from this server, and is not asked again.`;
        return refuse('RECIPIENT_NOT_CONFIRMED', { message });
      }
      const row = await consentOf(store, tenant.id, address);
      const none = { address: address.toLowerCase(), asked_at: null, confirmed_at: null };
      const [only = { ...none, status: 'pending' as const }] = await shown(tenant.id, [row ?? none]);
      return json(only);
    },
  });
}

/** `/suppressions…` */
export function suppressionsRoutes({ store, clock }: Services): Route[] {
  return implement(suppressions, {
    async list({ principal: { tenant }, query: { limit, cursor: after } }) {
      const rows = await selectSuppressions(store, { tenant: tenant.id, after, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ address }) => address);
      return json({ suppressions: page, count: await countSuppressions(store, tenant.id), next_cursor });
    },
    async create({ principal: { tenant }, body: { address, reason } }) {
      const row = { tenant: tenant.id, address: address.toLowerCase(), reason, created_at: clock.now() };
      await store.write([suppress(row)]);
      return json((await findSuppression(store, tenant.id, address)) ?? row);
    },
    async remove({ principal, params: { address } }) {
      const { tenant, environment } = principal;
      const row = await findSuppression(store, tenant.id, address);
      if (row === undefined) {
        const live = environment === 'test' && (await findSuppression(store, accountIdOf(principal), address));
        if (live) return refuse('AUTH_TEST_KEY');
        return refuse('NOT_FOUND', { message: `${address.slice(0, 320)} is not on the list.` });
      }
      await store.write([allow(tenant.id, address)]);
      return json(row);
    },
  });
}
