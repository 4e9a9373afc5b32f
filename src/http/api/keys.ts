/** API keys of a tenant: made by one another, never with more than their maker, and revoked at once. */
import { z } from 'zod';
import { endKey, grantKey, makeKey } from '../../access/keys.ts';
import { COARSE, PERMISSIONS } from '../../lib/permission-names.ts';
import { mayTouch, restrictionsOf, type Principal } from '../../access/principal.ts';
import type { ObjectLimits } from '../../access/object-limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { findKey, listKeys } from '../../store/api-keys.ts';
import { UnmetError, type Store } from '../../store/store.ts';
import type { ApiKeyRow } from '../../store/tables-accounts.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overLimit } from '../rate.ts';
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

const READ = { permission: 'keys.read', domains: 'narrow', tag: 'API keys' } as const;
const WRITE = { ...READ, permission: 'keys.write' } as const;

/** `/api-keys…` */
export function keysRoutes({ store, clock, objects }: KeysParts): Route[] {
  async function find(principal: Principal, id: string): Promise<ApiKeyRow | undefined> {
    const row = await findKey(store, principal.tenant.id, id);
    return row && maySee(principal, row) ? row : undefined;
  }

  async function revoke(principal: Principal, id: string): Promise<Outcome> {
    const row = await find(principal, id);
    if (row === undefined) return unknown(id);
    if (row.revoked_at !== null) return json(listedKey(row));
    const now = clock.now();
    try {
      await store.write(endKey(row, principal, now));
    } catch (error) {
      // Somebody else was faster: then it is as they left it.
      if (error instanceof UnmetError) return revoke(principal, id);
      throw error;
    }
    return json(listedKey({ ...row, revoked_at: now }));
  }

  return [
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/api-keys',
      summary: 'Lists the keys of the tenant, newest first, revoked ones among them.',
      description: 'A key with `domain_restrictions` sees those whose domains are among its own.',
      query: z.strictObject(listing('key')),
      answer: listOf('api_keys', listedKeyShape),
      async handle({ principal, query: { limit, cursor } }) {
        const keys = (await listKeys(store, principal.tenant.id)).filter((row) => maySee(principal, row));
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
      answer: listedKeyShape,
      async handle({ principal, params: { id } }) {
        const row = await find(principal, id);
        return row === undefined ? unknown(id) : json(listedKey(row));
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
      description: 'A key may revoke itself. One that was revoked before stays as it is.',
      answer: listedKeyShape,
      handle: ({ principal, params: { id } }) => revoke(principal, id),
    }),
  ];
}

/** Whether what the key may be used for lies within what the principal may be used for. */
function maySee(principal: Principal, row: ApiKeyRow): boolean {
  const { domain_restrictions: only } = restrictionsOf(row.restrictions);
  return only === undefined ? mayTouch(principal, undefined) : only.every((domain) => mayTouch(principal, domain));
}

function unknown(id: string): Outcome {
  return refuse('NOT_FOUND', { message: `There is no key ${id.slice(0, 60)}.` });
}
