/** All routes of the authenticated and administrative API, resource by resource. */
import { adminQueueRoutes, type AdminQueueParts } from './admin-queue.ts';
import type { Route } from './route.ts';

export interface ApiParts extends AdminQueueParts {}

/** The one table: mounted under three prefixes, written into the OpenAPI document, walked by the tests. */
export function apiRoutes(parts: ApiParts): Route[] {
  return [...adminQueueRoutes(parts)];
}
