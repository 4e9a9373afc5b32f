/** All routes of the authenticated and administrative API, resource by resource. */
import { adminQueueRoutes, type AdminQueueParts } from './admin-queue.ts';
import { adminTenantsRoutes, type AdminTenantsParts } from './admin-tenants.ts';
import { authStatusRoutes } from './auth-status.ts';
import { keysRoutes, type KeysParts } from './keys.ts';
import type { Route } from './route.ts';
import { signupRoutes, type SignupParts } from './signup.ts';

export interface ApiParts extends AdminQueueParts, AdminTenantsParts, KeysParts, SignupParts {}

/** The one table: mounted under three prefixes, written into the OpenAPI document, walked by the tests. */
export function apiRoutes(parts: ApiParts): Route[] {
  return [
    ...signupRoutes(parts),
    ...authStatusRoutes(),
    ...keysRoutes(parts),
    ...adminTenantsRoutes(parts),
    ...adminQueueRoutes(parts),
  ];
}
