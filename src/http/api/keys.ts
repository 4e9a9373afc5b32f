/** API keys of a tenant: made by one another, never with more than their maker, and revoked at once. */
import type { z } from 'zod';
import { activeChildrenOf, endKey, grantKey, makeKey } from '../../accounts/api-keys.ts';
import type { MessageLimits } from '../../accounts/message-limits.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import type { AccountLimits } from '../../accounts/plans.ts';
import { accountIdOf, mayTouch, type Principal, restrictionsOf } from '../../accounts/principal.ts';
import type { Verdict } from '../../accounts/sliding-window.ts';
import * as contract from '../../contract/keys.ts';
import { normalNetwork } from '../../dns/networks.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { findKey, listKeys } from '../../store/api-keys.ts';
import { type Store, UnmetError } from '../../store/store.ts';
import type { ApiKeyRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { tighter, overLimit } from '../context.ts';
import { type Refusal, refuse } from '../errors.ts';
import { invalidAt } from './issues.ts';
import {
  type BodyOf,
  type CallOf,
  type Handlers,
  implement,
  type Outcome,
  pageOf,
  type Route,
  timeOf,
} from './route.ts';

export interface KeysParts {
  readonly accounts: Pick<AccountLimits, 'look'>;
  readonly messages: MessageLimits;
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
}

/** `/api-keys…`, `/auth/status`, `/rate-limits` */
export function keysRoutes(parts: KeysParts): Route[] {
  return implement(contract.keys, { ...keyHandlers(parts), ...limitHandlers(parts), status });
}

function keyHandlers({
  store,
  clock,
  objects,
}: KeysParts): Handlers<Pick<typeof contract.keys, 'list' | 'show' | 'create' | 'revoke'>> {
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
  ): Promise<Outcome<BodyOf<typeof contract.keys.revoke>>> {
    const row = await find(principal, id);
    if (row === undefined) return unknown(id);
    const children = await childrenOf(row);
    const now = clock.now();
    const ending = [row, ...(withChildren ? children : [])].filter(({ revoked_at }) => revoked_at === null);
    try {
      if (ending.length > 0) await store.write(ending.flatMap((key) => endKey(key, principal, now)));
    } catch (error) {
      // Somebody else was faster: then it is as they left it.
      if (error instanceof UnmetError) return revoke(principal, id, withChildren);
      throw error;
    }
    const shown = listedKey({ ...row, revoked_at: row.revoked_at ?? now });
    return json({
      ...shown,
      active_children: (withChildren ? [] : children).map(listedKey),
      revoked_children: (withChildren ? children : []).map((key) => listedKey({ ...key, revoked_at: now })),
    });
  }

  return {
    async list({ principal, query: { limit, cursor } }) {
      const keys = (await listKeys(store, accountIdOf(principal))).filter((row) => maySee(principal, row));
      const rest = cursor === undefined ? keys : keys.filter(({ id }) => id < cursor);
      const { page, next_cursor } = pageOf(rest, limit);
      return json({ api_keys: page.map(listedKey), count: keys.length, next_cursor });
    },
    async show({ principal, params: { id } }) {
      const row = await find(principal, id);
      if (row === undefined) return unknown(id);
      return json({ ...listedKey(row), active_children: (await childrenOf(row)).map(listedKey) });
    },
    async create({ principal, exchange, body }) {
      const now = clock.now();
      const { expires_at } = body.restrictions ?? {};
      if (expires_at !== undefined && Date.parse(expires_at) <= now) {
        return invalidAt('restrictions.expires_at', 'must lie in the future');
      }
      const grant = grantKey(principal, { ...body, restrictions: normalRestrictions(body.restrictions) });
      if ('kind' in grant) return refuse('AUTH_FORBIDDEN', { message: grant.message });
      const { row, value, unit } = makeKey(grant, now);
      const made = await objects.within(row.tenant, { more: { keys: 1 } }, () => store.write(unit));
      if ('kind' in made) return overLimit(made, exchange.snapshot.server);
      return json(newKey(row, value));
    },
    revoke: ({ principal, params: { id }, query }) => revoke(principal, id, query.with_children === 'true'),
  };
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

function unknown(id: string): Refusal {
  return refuse('NOT_FOUND', { message: `There is no key ${id.slice(0, 60)}.` });
}

function status({
  principal,
}: CallOf<typeof contract.keys.status>): Promise<Outcome<BodyOf<typeof contract.keys.status>>> {
  const { key, tenant } = principal;
  const { name, plan } = tenant;
  const id = accountIdOf(principal);
  return Promise.resolve(json({ key: key === undefined ? null : shownKey(key), tenant: { id, name, plan } }));
}

const MINUTES = 60;

function limitHandlers({ accounts, messages }: KeysParts): Handlers<Pick<typeof contract.keys, 'limits'>> {
  return {
    async limits({ principal, exchange: { address } }) {
      const { hour = hourOf(address), minute } = await accounts.look(principal);
      const sent = await messages.look(principal.tenant);
      return json({
        rate_limits: {
          requests_per_hour: shown(hour),
          requests_per_minute: shown(minute === undefined ? address : tighter(address, minute)),
          messages_per_hour: sent.hour === undefined ? null : shown(sent.hour),
          messages_per_day: sent.day === undefined ? null : shown(sent.day),
        },
      });
    },
  };
}

/** What an address may ask for in an hour: nothing but the minute limits it. */
function hourOf({ limit, remaining, ...verdict }: Verdict): Verdict {
  return { ...verdict, limit: limit * MINUTES, remaining: limit * (MINUTES - 1) + remaining };
}

function shown({
  limit,
  remaining,
  reset,
}: Verdict): BodyOf<typeof contract.keys.limits>['rate_limits']['requests_per_hour'] {
  return { limit, remaining, reset_time: isoTime(reset * 1000) };
}

/** A key as `GET /auth/status` has it. */
function shownKey(row: ApiKeyRow) {
  const { id, name, prefix, last4, environment, expires_at, last_used_at } = row;
  return {
    id,
    name,
    prefix,
    last4,
    ...heldBy(row),
    environment,
    expires_at: timeOf(expires_at),
    last_used_at: timeOf(last_used_at),
  };
}

/** A key as the list has it. */
function listedKey(row: ApiKeyRow) {
  const { created_at, created_by, revoked_at } = row;
  return { ...shownKey(row), created_at: isoTime(created_at), created_by, revoked_at: timeOf(revoked_at) };
}

/** A key with its value. */
function newKey(row: ApiKeyRow, key: string) {
  const { id, name, environment, created_at } = row;
  return { id, key, name, environment, ...heldBy(row), created_at: isoTime(created_at) };
}

function heldBy(row: ApiKeyRow) {
  return {
    permissions: contract.apiKey.shape.permissions.parse(JSON.parse(row.permissions)),
    restrictions: restrictionsOf(row.restrictions),
  };
}
