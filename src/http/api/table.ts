/** All routes of the API with their handlers, resource by resource. */
import { accountsRoutes, type AccountsParts } from './accounts.ts';
import { analyticsRoutes, type AnalyticsParts } from './analytics.ts';
import { collectionsRoutes, type CollectionsParts } from './collections.ts';
import {
  adminDomainsRoutes,
  domainsRoutes,
  hostKeysRoutes,
  type AdminDomainsParts,
  type DomainsParts,
  type HostKeysParts,
} from './domains.ts';
import { emailRoutes, type EmailParts } from './email.ts';
import { formsRoutes, type FormsParts } from './forms.ts';
import { instantRoutes, type InstantParts } from './instant.ts';
import { keysRoutes, type KeysParts } from './keys.ts';
import { mailLogRoutes, type MailLogParts } from './mail-log.ts';
import { projectsRoutes, type ProjectsParts } from './projects.ts';
import { queueRoutes, type QueueParts } from './queue.ts';
import { recipientsRoutes, type RecipientsParts } from './recipients.ts';
import { resendRoutes } from './resend.ts';
import type { Route } from './route.ts';
import {
  backupsRoutes,
  configCheckRoutes,
  doctorRoutes,
  type BackupsParts,
  type ConfigCheckParts,
  type DoctorParts,
} from './server.ts';
import { submissionsRoutes, type SubmissionsParts } from './submissions.ts';
import { suppressionsRoutes, type SuppressionsParts } from './suppressions.ts';
import { tenantsRoutes, type TenantsParts } from './tenants.ts';
import { webhooksRoutes, type WebhooksParts } from './webhooks.ts';

export interface ApiParts
  extends
    AccountsParts,
    AdminDomainsParts,
    AnalyticsParts,
    BackupsParts,
    CollectionsParts,
    ConfigCheckParts,
    DoctorParts,
    DomainsParts,
    EmailParts,
    FormsParts,
    HostKeysParts,
    InstantParts,
    KeysParts,
    MailLogParts,
    ProjectsParts,
    QueueParts,
    RecipientsParts,
    SubmissionsParts,
    SuppressionsParts,
    TenantsParts,
    WebhooksParts {}

/** The one table: mounted under three prefixes, written into the OpenAPI document, walked by the tests. */
export function apiRoutes(parts: ApiParts): Route[] {
  return [
    ...accountsRoutes(parts),
    ...keysRoutes(parts),
    ...projectsRoutes(parts),
    ...domainsRoutes(parts),
    // Before the forms, because what follows a form's id in a path may contain slashes.
    ...submissionsRoutes(parts),
    ...emailRoutes(parts),
    ...resendRoutes(parts),
    ...suppressionsRoutes(parts),
    ...formsRoutes(parts),
    ...instantRoutes(parts),
    ...collectionsRoutes(parts),
    ...recipientsRoutes(parts),
    ...analyticsRoutes(parts),
    ...webhooksRoutes(parts),
    ...tenantsRoutes(parts),
    ...queueRoutes(parts),
    ...mailLogRoutes(parts),
    ...doctorRoutes(parts),
    ...configCheckRoutes(parts),
    ...adminDomainsRoutes(parts),
    ...hostKeysRoutes(parts),
    ...backupsRoutes(parts),
  ];
}
