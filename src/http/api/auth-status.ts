/** Who asks: the first thing to try with a new key. */
import { z } from 'zod';
import { accountIdOf } from '../../accounts/principal.ts';
import { json } from '../answer.ts';
import { keyShape, shownKey } from './account-shapes.ts';
import { defineRoute, type Route } from './route.ts';

/** `/auth/status` */
export function authStatusRoutes(): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/auth/status',
      permission: 'any',
      domains: 'free',
      tag: 'API keys',
      summary: 'Shows the key that asks and the tenant that it belongs to.',
      answer: z.object({
        key: keyShape.nullable().describe('null for the operator on the Unix socket, who needs none.'),
        tenant: z.object({ id: z.string(), name: z.string(), plan: z.string() }),
      }),
      handle({ principal }) {
        const { key, tenant } = principal;
        const { name, plan } = tenant;
        const id = accountIdOf(principal);
        return Promise.resolve(json({ key: key === undefined ? null : shownKey(key), tenant: { id, name, plan } }));
      },
    }),
  ];
}
