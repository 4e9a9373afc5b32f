/**
 * Making an account. Where the operator lets strangers do it, nothing of theirs works before the link that is mailed to
 * them is confirmed; and because anybody may name anybody's address, who asks, and about whom, counts against caps.
 */
import { FIRST_PLAN } from '../../accounts/plans.ts';
import { clientBucket, type Limits } from '../../accounts/rate-limits.ts';
import type { Limit, Verdict } from '../../accounts/sliding-window.ts';
import { makeAccount } from '../../accounts/tenants.ts';
import { LINK_LIFE, newToken } from '../../accounts/tokens.ts';
import type { ServerConfig } from '../../config/schema.ts';
import * as contract from '../../contract/tenants.ts';
import { canonicalMailbox } from '../../lib/addresses.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { systemMail } from '../../queue/system-mail.ts';
import { isRefused } from '../../store/consents.ts';
import { OPERATOR } from '../../store/tenants.ts';
import type { Statement } from '../../store/statement.ts';
import type { Store } from '../../store/store.ts';
import type { TenantRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { type Exchange, tighter, rateLimited } from '../context.ts';
import { refuse } from '../errors.ts';
import { implement, type Route, timeOf } from './route.ts';

export interface AccountsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly limits: Pick<Limits, 'take'>;
  /** Tells the queue that there may be something to do. */
  readonly wake: () => void;
}

const HOUR = 3_600_000;
const PER_CLIENT: Limit = { count: 5, windowMs: HOUR };
const PER_MAILBOX: Limit = { count: 3, windowMs: 24 * HOUR };
const PER_SERVER: Limit = { count: 200, windowMs: HOUR };

/** `/signup` */
export function accountsRoutes({ store, clock, limits, wake }: AccountsParts): Route[] {
  /** The first cap that has no room, if any. */
  async function capped(exchange: Exchange, email: string): Promise<Verdict | undefined> {
    const caps = [
      [`signup:client:${clientBucket(exchange.ip)}`, PER_CLIENT],
      [`signup:mailbox:${canonicalMailbox(email)}`, PER_MAILBOX],
      ['signup:server', PER_SERVER],
    ] as const;
    for (const [bucket, limit] of caps) {
      const verdict = await limits.take(bucket, limit);
      exchange.limit = tighter(exchange.limit, verdict);
      if (!verdict.allowed) return verdict;
    }
    return undefined;
  }

  return implement(contract.accounts, {
    async signup({ exchange, body }) {
      const { local, snapshot } = exchange;
      if (!local && snapshot.server.server.signup === 'closed') return refuse('SIGNUP_CLOSED');
      const over = local ? undefined : await capped(exchange, body.email);
      if (over !== undefined) return rateLimited(over, exchange.at);
      const now = clock.now();
      const { tenant, key, unit } = makeAccount({ ...body, plan: FIRST_PLAN, confirmed: local, by: null }, now);
      // Who refused mail of this server hears nothing, and whoever asks is not told so.
      const asks = !local && !(await isRefused(store, body.email));
      await store.write(asks ? [...unit, ...confirmation(tenant, snapshot.server, now)] : unit);
      if (asks) wake();
      return json({ tenant: shownTenant(tenant), key });
    },
  });
}

/** The mail with the link. No word of it is the stranger's: it would go to whomever they name. */
function confirmation({ id, email }: TenantRow, config: ServerConfig, now: number): Statement[] {
  const { hostname } = config.server;
  const { link, statement } = newToken({ kind: 'signup', tenant: id, subject: id }, config, now);
  const text = `Somebody, probably you, has made an account on ${hostname} for this address.

To confirm it, open this link within ${LINK_LIFE} and press the button:

${link}

Until then the account does nothing. If it was not you, ignore this mail: the account then ends by itself, and you
will not hear of it again. To get no mail from this server any more, open the link and press "Never again".
`;
  const mail = systemMail(
    { tenant: OPERATOR, to: email, subject: `Confirm your account on ${hostname}`, text },
    hostname,
    now,
  );
  return [statement, ...mail];
}

// oxlint-disable-next-line typescript/explicit-module-boundary-types -- handlers check it against the contract
export function shownTenant(row: TenantRow) {
  const { id, name, email, plan, requests_per_hour, messages_per_hour, messages_per_day } = row;
  const { suspended, trusted, confirmed_at, created_at } = row;
  return {
    id,
    name,
    email,
    plan,
    requests_per_hour,
    messages_per_hour,
    messages_per_day,
    suspended: suspended !== 0,
    trusted: trusted !== 0,
    confirmed_at: timeOf(confirmed_at),
    created_at: isoTime(created_at),
  };
}
