/** The addresses that the account has asked to agree to its mail. */
import { z } from 'zod';
import type { Consent } from '../../accounts/consent.ts';
import { isoTime } from '../../lib/clock.ts';
import { consentOf, countConsents, selectConsents, type RecipientStatuses } from '../../store/consents.ts';
import type { Store } from '../../store/store.ts';
import type { ConsentRow } from '../../store/tables-accounts.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overCap } from '../context.ts';
import { mailAddress } from './account-shapes.ts';
import { recipientStatus } from './form-shapes.ts';
import { listing, listOf } from './listing.ts';
import { defineRoute, type Route } from './route.ts';

export interface RecipientsParts {
  readonly store: Store;
  readonly consent: Consent;
}

const time = z.iso.datetime().nullable();
const recipient = z.object({
  address: z.string(),
  status: recipientStatus.describe(
    'pending: mail for it waits until it agrees; refused: it wants no mail from this server.',
  ),
  asked_at: time.describe('When it was last mailed a link; null: never.'),
  confirmed_at: time.describe('When it agreed; null: it has not, or need not.'),
});

const READ = { permission: 'forms.read', domains: 'refuse', tag: 'Recipients' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;

/** `/recipients` */
export function recipientsRoutes({ store, consent }: RecipientsParts): Route[] {
  return [
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/recipients',
      summary: 'Lists the addresses that were asked to agree to mail of the account, or did.',
      query: z.strictObject({
        limit: listing('frm').limit,
        cursor: z.string().max(320).optional().describe('The next_cursor of the page before.'),
      }),
      answer: listOf('recipients', recipient),
      async handle({ principal: { tenant }, query: { limit, cursor: after } }) {
        const rows = await selectConsents(store, { tenant: tenant.id, after, limit: limit + 1 });
        const page = rows.slice(0, limit);
        const statuses = await consent.statuses({ tenant: tenant.id, addresses: page.map(({ address }) => address) });
        const next_cursor = rows.length > limit ? (page.at(-1)?.address ?? null) : null;
        const recipients = page.map((row) => shown(row, statuses));
        return json({ recipients, count: await countConsents(store, tenant.id), next_cursor });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/recipients',
      summary: 'Asks an address to agree to mail of the account: mails it a link, which ends the one before.',
      description:
        'Not needed where the account is trusted or has the domain of the address. A mailbox is asked at most 3 times a day, whoever asks; 403 where it wants no mail from this server.',
      body: z.strictObject({ address: mailAddress.describe('Compared without case.') }),
      answer: recipient,
      async handle({ principal: { tenant, environment }, exchange, body: { address } }) {
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
    }),
  ];
}

function shown(
  { address, asked_at, confirmed_at }: ConsentRow,
  statuses: RecipientStatuses,
): z.input<typeof recipient> {
  return {
    address,
    status: statuses.get(address) ?? 'pending',
    asked_at: asked_at === null ? null : isoTime(asked_at),
    confirmed_at: confirmed_at === null ? null : isoTime(confirmed_at),
  };
}
