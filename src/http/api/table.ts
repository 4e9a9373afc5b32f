/** All routes of the API with their handlers: mounted under three prefixes, written into the OpenAPI document, walked by tests. */
import { analyticsRoutes } from './analytics.ts';
import { collectionsRoutes } from './collections.ts';
import { adminDomainsRoutes, domainsRoutes } from './domains.ts';
import { emailRoutes } from './email.ts';
import { eraseRoutes } from './erase.ts';
import { formToolsRoutes } from './form-tools.ts';
import { formsRoutes } from './forms.ts';
import { inboundRoutes } from './inbound.ts';
import { keysRoutes } from './keys.ts';
import { messagesRoutes } from './messages.ts';
import { projectsRoutes } from './projects.ts';
import { queueRoutes } from './queue.ts';
import { recipientsRoutes, suppressionsRoutes } from './recipients.ts';
import type { Route, Services } from './route.ts';
import { backupsRoutes, checksRoutes } from './server.ts';
import { consoleLinkRoutes, sessionsRoutes } from './sessions.ts';
import { submissionsRoutes } from './submissions.ts';
import { accountsRoutes, tenantsRoutes } from './tenants.ts';
import { webhooksRoutes } from './webhooks.ts';

/** The routes, in the order of the reference. */
export function apiRoutes(services: Services): Route[] {
  return [
    accountsRoutes,
    keysRoutes,
    sessionsRoutes,
    projectsRoutes,
    domainsRoutes,
    // Before the forms, because what follows a form's id in a path may contain slashes.
    submissionsRoutes,
    eraseRoutes,
    messagesRoutes,
    inboundRoutes,
    emailRoutes,
    suppressionsRoutes,
    formToolsRoutes,
    formsRoutes,
    collectionsRoutes,
    recipientsRoutes,
    analyticsRoutes,
    webhooksRoutes,
    tenantsRoutes,
    queueRoutes,
    checksRoutes,
    adminDomainsRoutes,
    backupsRoutes,
    consoleLinkRoutes,
  ].flatMap((routesOf) => routesOf(services));
}
