/** API keys of a tenant: made by one another, never with more than their maker, and revoked at once. */
import type { z } from 'zod';
import { activeChildrenOf, endKey, grantKey, makeKey } from '../../accounts/api-keys.ts';
import { accountIdOf, mayTouch, type Principal, restrictionsOf } from '../../accounts/principal.ts';
import { messagesLeft } from '../../accounts/message-limits.ts';
import type { Verdict } from '../../accounts/rate-limits.ts';
import * as contract from '../../contract/keys.ts';
import { normalNetwork } from '../../dns/networks.ts';
import { findKey, listKeys } from '../../store/api-keys.ts';
import { writeIfMet } from '../../store/store.ts';
import type { ApiKeyRow } from '../../store/tables.ts';
import { overLimit, tighter } from '../context.ts';
import { refuse } from '../answer.ts';
import {
  invalidAt,
  type DataOf,
  implement,
  success,
  notFound,
  type Outcome,
  pageOf,
  type Route,
  type Services,
} from './route.ts';

/** `/api-keys…`, `/auth/status`, `/rate-limits` */
export function keysRoutes({ store, clock, objects, requests }: Services): Route[] {
  async function find(principal: Principal, id: string): Promise<ApiKeyRow | undefined> {
    const row = await findKey(store, accountIdOf(principal), id);
    return row && maySee(principal, row) ? row : undefined;
  }

  async function childrenOf({ tenant, id }: ApiKeyRow): Promise<ApiKeyRow[]> {
    return activeChildrenOf(id, await listKeys(store, tenant), clock.now());
  }

  async function revoke(
    principal: Principal,
    id: string,
    withChildren: boolean,
  ): Promise<Outcome<DataOf<typeof contract.keys.revoke>>> {
    const row = await find(principal, id);
    if (row === undefined) return notFound('key', id);
    const children = await childrenOf(row);
    const now = clock.now();
    const ending = [row, ...(withChildren ? children : [])].filter(({ revoked_at }) => revoked_at === null);
    const ended = ending.flatMap((key) => endKey(key, principal, now));
    // Where somebody else was faster, it is as they left it.
    if (ended.length > 0 && (await writeIfMet(store, ended)) === undefined) return revoke(principal, id, withChildren);
    return success({
      ...shown({ ...row, revoked_at: row.revoked_at ?? now }),
      active_children: (withChildren ? [] : children).map(shown),
      revoked_children: (withChildren ? children : []).map((key) => shown({ ...key, revoked_at: now })),
    });
  }

  return implement(contract.keys, {
    status({ principal }) {
      const { key, tenant } = principal;
      return success({ key: key && shown(key), tenant: { ...tenant, id: accountIdOf(principal) } });
    },
    async list({ principal, query: { limit, cursor } }) {
      const keys = (await listKeys(store, accountIdOf(principal))).filter((row) => maySee(principal, row));
      const rest = cursor === undefined ? keys : keys.filter(({ id }) => id < cursor);
      const { page, next_cursor } = pageOf(rest, limit, ({ id }) => id);
      return success({ api_keys: page.map(shown), count: keys.length, next_cursor });
    },
    async show({ principal, params: { id } }) {
      const row = await find(principal, id);
      if (row === undefined) return notFound('key', id);
      return success({ ...shown(row), active_children: (await childrenOf(row)).map(shown) });
    },
    async create({ principal, context, body }) {
      const now = clock.now();
      const { expires_at } = body.restrictions ?? {};
      if (expires_at !== undefined && Date.parse(expires_at) <= now) {
        return invalidAt('restrictions.expires_at', 'must be in the future');
      }
      const grant = grantKey(principal, { ...body, restrictions: normalRestrictions(body.restrictions) });
      if ('kind' in grant) return refuse('AUTH_FORBIDDEN', { message: grant.message });
      const { row, value, unit } = makeKey(grant, now);
      const made = await objects.within(row.tenant, { more: { keys: 1 } }, () => store.write(unit));
      return 'kind' in made ? overLimit(made, context.snapshot.server) : success({ ...shown(row), key: value });
    },
    revoke: ({ principal, params: { id }, query }) => revoke(principal, id, query.with_children === 'true'),
    async limits({ principal, context: { address, snapshot } }) {
      const hour = await requests.left(principal, 'hour');
      const minute = await requests.left(principal, 'minute');
      const sent = await messagesLeft(principal.tenant, { store, clock, config: snapshot.server });
      return success({
        rate_limits: {
          requests_per_hour: shownLimit(hour ?? hourOf(address)),
          requests_per_minute: shownLimit(minute === undefined ? address : tighter(address, minute)),
          messages_per_hour: sent.hour && shownLimit(sent.hour),
          messages_per_day: sent.day && shownLimit(sent.day),
        },
      });
    },
  });
}

type NewKey = z.output<NonNullable<typeof contract.keys.create.body>>;

/** With the networks in the form in which addresses are compared. */
function normalRestrictions(given: NewKey['restrictions']): NewKey['restrictions'] {
  const { ip_whitelist: networks } = given ?? {};
  return networks === undefined
    ? given
    : { ...given, ip_whitelist: networks.map((network) => normalNetwork(network) ?? network) };
}

/** Whether what the key may be used for lies within what the principal may be used for. */
function maySee(principal: Principal, row: ApiKeyRow): boolean {
  if (principal.environment === 'test' && row.environment !== 'test') return false;
  const { domain_restrictions: only } = restrictionsOf(row.restrictions);
  return only === undefined ? mayTouch(principal, undefined) : only.every((domain) => mayTouch(principal, domain));
}

const MINUTES = 60;

/** What an address may ask for in an hour: nothing but the minute limits it. */
function hourOf({ limit, remaining, ...verdict }: Verdict): Verdict {
  return { ...verdict, limit: limit * MINUTES, remaining: limit * (MINUTES - 1) + remaining };
}

function shownLimit({ reset, ...limit }: Verdict) {
  return { ...limit, reset_time: reset * 1000 };
}

function shown(row: ApiKeyRow) {
  const permissions = contract.apiKey.shape.permissions.parse(JSON.parse(row.permissions));
  const restrictions = restrictionsOf(row.restrictions);
  return { ...row, permissions, restrictions };
}
