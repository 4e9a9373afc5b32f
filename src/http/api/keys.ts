/** API keys of a tenant: made by one another, never with more than their maker, and revoked at once. */
import { z } from 'zod';
import { activeChildrenOf, endKey, grantKey, makeKey } from '../../accounts/api-keys.ts';
import { COARSE, PERMISSIONS } from '../../lib/permission-names.ts';
import { accountIdOf, mayTouch, restrictionsOf, type Principal } from '../../accounts/principal.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { findKey, listKeys } from '../../store/api-keys.ts';
import { UnmetError, type Store } from '../../store/store.ts';
import type { ApiKeyRow } from '../../store/tables-accounts.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overLimit } from '../context.ts';
import { label, listedKey, listedKeyShape, newKey, newKeyShape, wantedRestrictions } from './account-shapes.ts';
import { invalidAt } from './issues.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export interface KeysParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
}

const wantedKey = z.strictObject({
  name: label.describe('What it is for.'),
  environment: z
    .enum(['live', 'test'])
    .optional()
    .describe('Mail that a test key causes is never delivered. `live` unless told; a test key makes only test keys.'),
  permissions: z
    .array(z.enum([...PERMISSIONS, ...COARSE]))
    .optional()
    .describe(
      'A coarse name, such as `forms`, stands for all of its kind. All that the asking key holds unless told, but never `admin`, which must be named.',
    ),
  restrictions: wantedRestrictions
    .optional()
    .describe('At least as tight as those of the asking key; what is not named here is taken from it.'),
});

const active_children = z
  .array(listedKeyShape)
  .describe('The keys that it made, directly or not, and that are still active.');

const READ = { permission: 'keys.read', domains: 'narrow', tag: 'API keys' } as const;
const WRITE = { ...READ, permission: 'keys.write' } as const;

/** `/api-keys…` */
export function keysRoutes({ store, clock, objects }: KeysParts): Route[] {
  async function find(principal: Principal, id: string): Promise<ApiKeyRow | undefined> {
    const row = await findKey(store, accountIdOf(principal), id);
    return row && maySee(principal, row) ? row : undefined;
  }

  async function childrenOf({ tenant, id }: ApiKeyRow): Promise<ApiKeyRow[]> {
    return activeChildrenOf(id, await listKeys(store, tenant), clock.now());
  }

  async function revoke(principal: Principal, id: string, withChildren: boolean): Promise<Outcome> {
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

  return [
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/api-keys',
      summary: 'Lists the keys of the tenant, newest first, revoked ones among them.',
      description:
        'A key with `domain_restrictions` sees those whose domains are among its own; a test key sees test keys.',
      query: z.strictObject(listing('key')),
      answer: listOf('api_keys', listedKeyShape),
      async handle({ principal, query: { limit, cursor } }) {
        const keys = (await listKeys(store, accountIdOf(principal))).filter((row) => maySee(principal, row));
        const rest = cursor === undefined ? keys : keys.filter(({ id }) => id < cursor);
        const { page, next_cursor } = pageOf(rest, limit);
        return json({ api_keys: page.map(listedKey), count: keys.length, next_cursor });
      },
    }),
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/api-keys/:id',
      summary: 'Shows a key, without its value.',
      answer: listedKeyShape.extend({ active_children }),
      async handle({ principal, params: { id } }) {
        const row = await find(principal, id);
        if (row === undefined) return unknown(id);
        return json({ ...listedKey(row), active_children: (await childrenOf(row)).map(listedKey) });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/api-keys',
      summary: 'Makes a key that holds no more than the asking one, and shows its value once.',
      description:
        'To rotate a key, make a new one, let the clients use it, and revoke the old one. Values that begin with `svc_sk_` hold every permission but perhaps `admin`; others begin with `svc_rk_`.',
      body: wantedKey,
      answer: newKeyShape,
      async handle({ principal, exchange, body }) {
        const now = clock.now();
        const { expires_at } = body.restrictions ?? {};
        if (expires_at !== undefined && Date.parse(expires_at) <= now) {
          return invalidAt('restrictions.expires_at', 'must lie in the future');
        }
        const grant = grantKey(principal, body);
        if ('kind' in grant) return refuse('AUTH_FORBIDDEN', { message: grant.message });
        const { row, value, unit } = makeKey(grant, now);
        const made = await objects.within(row.tenant, { more: { keys: 1 } }, () => store.write(unit));
        if ('kind' in made) return overLimit(made, exchange.snapshot.server);
        return json(newKey(row, value));
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'DELETE',
      path: '/api-keys/:id',
      summary: 'Revokes a key, from the next request on, and shows it.',
      description:
        'The keys that it made stay active, because a key is rotated by making its successor with it: `active_children` lists them. If a key was stolen, revoke them too with `with_children=true`. A key may revoke itself. One that was revoked before stays as it is.',
      query: z.strictObject({
        with_children: z
          .enum(['true', 'false'])
          .default('false')
          .describe('Also revoke every active key that it made, directly or not.'),
      }),
      answer: listedKeyShape.extend({
        active_children,
        revoked_children: z.array(listedKeyShape).describe('The keys that it made and that were revoked with it.'),
      }),
      handle: ({ principal, params: { id }, query }) => revoke(principal, id, query.with_children === 'true'),
    }),
  ];
}

/** Whether what the key may be used for lies within what the principal may be used for. */
function maySee(principal: Principal, row: ApiKeyRow): boolean {
  if (principal.environment === 'test' && row.environment !== 'test') return false;
  const { domain_restrictions: only } = restrictionsOf(row.restrictions);
  return only === undefined ? mayTouch(principal, undefined) : only.every((domain) => mayTouch(principal, domain));
}

function unknown(id: string): Outcome {
  return refuse('NOT_FOUND', { message: `There is no key ${id.slice(0, 60)}.` });
}
