/** Addresses that a tenant's mail is no longer sent to. Leads reach the owner of a form all the same. */
import { accountIdOf } from '../../accounts/principal.ts';
import * as contract from '../../contract/email.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import type { Store } from '../../store/store.ts';
import { allow, countSuppressions, findSuppression, selectSuppressions, suppress } from '../../store/suppressions.ts';
import type { SuppressionRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { type BodyOf, implement, type Route } from './route.ts';

export interface SuppressionsParts {
  readonly store: Store;
  readonly clock: Clock;
}

/** `/suppressions…` */
export function suppressionsRoutes({ store, clock }: SuppressionsParts): Route[] {
  return implement(contract.suppressions, {
    async list({ principal: { tenant }, query: { limit, cursor: after } }) {
      const rows = await selectSuppressions(store, { tenant: tenant.id, after, limit: limit + 1 });
      const page = rows.slice(0, limit);
      const next_cursor = rows.length > limit ? (page.at(-1)?.address ?? null) : null;
      return json({ suppressions: page.map(shown), count: await countSuppressions(store, tenant.id), next_cursor });
    },
    async create({ principal: { tenant }, body: { address, reason } }) {
      const row = { tenant: tenant.id, address: address.toLowerCase(), reason, created_at: clock.now() };
      await store.write([suppress(row)]);
      return json(shown((await findSuppression(store, tenant.id, address)) ?? row));
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
      return json(shown(row));
    },
  });
}

function shown({ address, reason, created_at }: SuppressionRow): BodyOf<typeof contract.suppressions.create> {
  return { address, reason, created_at: isoTime(created_at) };
}
