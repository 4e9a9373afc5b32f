/** Addresses of an account: those that were asked to agree to its mail, and those that its mail is no longer sent to. */
import { accountIdOf } from '../../accounts/principal.ts';
import { suppressions } from '../../contract/email.ts';
import { recipients } from '../../contract/forms.ts';
import { consentOf, countConsents, selectConsents } from '../../store/consents.ts';
import { allow, countSuppressions, findSuppression, selectSuppressions, suppress } from '../../store/suppressions.ts';
import type { ConsentRow, SuppressionRow } from '../../store/tables.ts';
import { rateLimited, refuseOver } from '../context.ts';
import { refuse } from '../answer.ts';
import { implement, success, pageOf, type Route, type Services } from './route.ts';

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
      return success({
        recipients: await shown(tenant.id, page),
        count: await countConsents(store, tenant.id),
        next_cursor,
      });
    },
    async ask({ principal: { tenant, environment }, context, body: { address } }) {
      if (environment === 'test') {
        return refuse('AUTH_FORBIDDEN', { message: 'Mail of a test key is not delivered. Use a live key.' });
      }
      const asked = await consent.askAgain(tenant.id, address);
      if (asked.kind === 'capped') {
        return refuseOver(asked.verdict, context) ?? rateLimited(asked.verdict, context.at);
      }
      if (asked.kind === 'refused') {
        const message = `${address} refuses all mail from this server and will not be asked again.`;
        return refuse('RECIPIENT_NOT_CONFIRMED', { message });
      }
      const row = await consentOf(store, tenant.id, address);
      const none = { address: address.toLowerCase(), asked_at: null, confirmed_at: null };
      const [only = { ...none, status: 'pending' as const }] = await shown(tenant.id, [row ?? none]);
      return success(only);
    },
  });
}

/** `/suppressions…` */
export function suppressionsRoutes({ store, clock }: Services): Route[] {
  return implement(suppressions, {
    async list({ principal: { tenant }, query: { limit, cursor } }) {
      const [address = '', form = ''] = cursor?.split(' ') ?? [];
      const after = cursor === undefined ? undefined : { address, form };
      const rows = await selectSuppressions(store, { tenant: tenant.id, after, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, (row) => `${row.address} ${row.form}`.trimEnd());
      return success({ suppressions: page.map(shown), count: await countSuppressions(store, tenant.id), next_cursor });
    },
    async create({ principal: { tenant }, body: { address, reason, form } }) {
      const row = { tenant: tenant.id, address: address.toLowerCase(), form, reason, created_at: clock.now() };
      await store.write([suppress(row)]);
      return success(shown((await findSuppression(store, row)) ?? row));
    },
    async remove({ principal, params: { address }, query: { form } }) {
      const { tenant, environment } = principal;
      const row = await findSuppression(store, { tenant: tenant.id, address, form });
      if (row === undefined) {
        const live =
          environment === 'test' && (await findSuppression(store, { tenant: accountIdOf(principal), address, form }));
        if (live) return refuse('AUTH_TEST_KEY');
        const where = form === '' ? 'the suppression list' : `the suppression list for the form ${form}`;
        return refuse('NOT_FOUND', { message: `${address.slice(0, 320)} is not on ${where}.` });
      }
      await store.write([allow(row)]);
      return success(shown(row));
    },
  });
}

function shown({ form, ...row }: SuppressionRow) {
  return { ...row, form: form === '' ? null : form };
}
