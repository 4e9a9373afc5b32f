/** The addresses that the account has asked to agree to its mail. */
import type { z } from 'zod';
import type { Consent } from '../../accounts/consent.ts';
import * as contract from '../../contract/forms.ts';
import { isoTime } from '../../lib/clock.ts';
import { consentOf, countConsents, type RecipientStatuses, selectConsents } from '../../store/consents.ts';
import type { Store } from '../../store/store.ts';
import type { ConsentRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overCap } from '../context.ts';
import { implement, type Route } from './route.ts';

export interface RecipientsParts {
  readonly store: Store;
  readonly consent: Consent;
}

/** `/recipients` */
export function recipientsRoutes({ store, consent }: RecipientsParts): Route[] {
  return implement(contract.recipients, {
    async list({ principal: { tenant }, query: { limit, cursor: after } }) {
      const rows = await selectConsents(store, { tenant: tenant.id, after, limit: limit + 1 });
      const page = rows.slice(0, limit);
      const statuses = await consent.statuses({ tenant: tenant.id, addresses: page.map(({ address }) => address) });
      const next_cursor = rows.length > limit ? (page.at(-1)?.address ?? null) : null;
      const recipients = page.map((row) => shown(row, statuses));
      return json({ recipients, count: await countConsents(store, tenant.id), next_cursor });
    },
    async ask({ principal: { tenant, environment }, exchange, body: { address } }) {
      if (environment === 'test') {
        return refuse('AUTH_FORBIDDEN', { message: 'A test key mails nobody: ask with a live key.' });
      }
      const asked = await consent.askAgain(tenant.id, address);
      if (asked.kind === 'capped') return overCap(asked.verdict, exchange);
      if (asked.kind === 'refused') {
        const message = `${address} wants no mail from this server, and is not asked again.`;
        return refuse('RECIPIENT_NOT_CONFIRMED', { message });
      }
      const row = await consentOf(store, tenant.id, address);
      const none = { tenant: tenant.id, address: address.toLowerCase(), asked_at: null, confirmed_at: null };
      const found = row ?? none;
      return json(shown(found, await consent.statuses({ tenant: tenant.id, addresses: [found.address] })));
    },
  });
}

function shown(
  { address, asked_at, confirmed_at }: ConsentRow,
  statuses: RecipientStatuses,
): z.output<typeof contract.recipient> {
  return {
    address,
    status: statuses.get(address) ?? 'pending',
    asked_at: asked_at === null ? null : isoTime(asked_at),
    confirmed_at: confirmed_at === null ? null : isoTime(confirmed_at),
  };
}
