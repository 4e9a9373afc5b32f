/** All routes of the authenticated and administrative API, resource by resource. */
import { adminBackupRoutes, type AdminBackupParts } from './admin-backup.ts';
import { adminBillingRoutes, type AdminBillingParts } from './admin-billing.ts';
import { adminDoctorRoutes, type AdminDoctorParts } from './admin-doctor.ts';
import { adminExplainRoutes, type AdminExplainParts } from './admin-explain.ts';
import { adminDomainsRoutes, type AdminDomainsParts } from './admin-domains.ts';
import { adminHostKeysRoutes, type AdminHostKeysParts } from './admin-host-keys.ts';
import { adminInboundRoutes, type AdminInboundParts } from './admin-inbound.ts';
import { adminQueueRoutes, type AdminQueueParts } from './admin-queue.ts';
import { adminTraceRoutes, type AdminTraceParts } from './admin-trace.ts';
import { adminTenantsRoutes, type AdminTenantsParts } from './admin-tenants.ts';
import { adminUsageRoutes } from './admin-usage.ts';
import { analyticsRoutes, type AnalyticsParts } from './analytics.ts';
import { authStatusRoutes } from './auth-status.ts';
import { domainsRoutes, type DomainsParts } from './domains.ts';
import { emailRoutes } from './email.ts';
import type { EmailParts } from './email-send.ts';
import { emailsRoutes } from './emails.ts';
import { collectionsRoutes, type CollectionsParts } from './collections.ts';
import { eventsRoutes } from './events.ts';
import { formsRoutes, type FormsParts } from './forms.ts';
import { instantRoutes, type InstantParts } from './instant.ts';
import { keysRoutes, type KeysParts } from './keys.ts';
import { projectConfigRoutes, type ProjectConfigParts } from './project-config.ts';
import { projectsRoutes, type ProjectsParts } from './projects.ts';
import { rateLimitsRoutes, type RateLimitsParts } from './rate-limits.ts';
import { recipientsRoutes, type RecipientsParts } from './recipients.ts';
import type { Route } from './route.ts';
import { signupRoutes, type SignupParts } from './signup.ts';
import { submissionsRoutes, type SubmissionsParts } from './submissions.ts';
import { suppressionsRoutes, type SuppressionsParts } from './suppressions.ts';
import { webhooksRoutes, type WebhooksParts } from './webhooks.ts';

export interface ApiParts
  extends
    AdminBackupParts,
    AdminBillingParts,
    AdminDoctorParts,
    AdminDomainsParts,
    AdminExplainParts,
    AdminHostKeysParts,
    AdminInboundParts,
    AdminQueueParts,
    AdminTenantsParts,
    AdminTraceParts,
    AnalyticsParts,
    DomainsParts,
    EmailParts,
    CollectionsParts,
    FormsParts,
    InstantParts,
    KeysParts,
    ProjectConfigParts,
    ProjectsParts,
    RateLimitsParts,
    RecipientsParts,
    SignupParts,
    SubmissionsParts,
    SuppressionsParts,
    WebhooksParts {}

/** The one table: mounted under three prefixes, written into the OpenAPI document, walked by the tests. */
export function apiRoutes(parts: ApiParts): Route[] {
  return [
    ...signupRoutes(parts),
    ...authStatusRoutes(),
    ...keysRoutes(parts),
    ...projectsRoutes(parts),
    ...projectConfigRoutes(parts),
    ...domainsRoutes(parts),
    // Before the forms: what follows a form's id in an address may hold slashes.
    ...submissionsRoutes(parts),
    ...emailRoutes(parts),
    ...emailsRoutes(parts),
    ...suppressionsRoutes(parts),
    ...collectionsRoutes(parts),
    ...formsRoutes(parts),
    ...instantRoutes(parts),
    ...recipientsRoutes(parts),
    ...rateLimitsRoutes(parts),
    ...analyticsRoutes(parts),
    ...eventsRoutes(parts),
    ...webhooksRoutes(parts),
    ...adminTenantsRoutes(parts),
    ...adminUsageRoutes(parts),
    ...adminBillingRoutes(parts),
    ...adminQueueRoutes(parts),
    ...adminInboundRoutes(parts),
    ...adminDoctorRoutes(parts),
    ...adminDomainsRoutes(parts),
    ...adminHostKeysRoutes(parts),
    ...adminBackupRoutes(parts),
    ...adminExplainRoutes(parts),
    ...adminTraceRoutes(parts),
  ];
}
