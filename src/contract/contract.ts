/**
 * The API, described once. Each resource has a file: the schemas of what is sent and answered, and its routes. Here they
 * are together, in the order of the reference.
 */
import { analytics } from './analytics.ts';
import { adminDomains, domains, hostKeys } from './domains.ts';
import { emails, resendEmails, suppressions } from './email.ts';
import { erasure } from './erase.ts';
import { collections, forms, formTools, instantForms, recipients } from './forms.ts';
import { keys } from './keys.ts';
import { messages } from './messages.ts';
import { projects } from './projects.ts';
import { backups, configCheck, doctor, serverConfig, serverLog } from './server.ts';
import { inbound, mailLog, queue } from './queue.ts';
import { consoleLink, sessions, totp } from './sessions.ts';
import { submissions } from './submissions.ts';
import { accounts, tenants } from './tenants.ts';
import { webhooks } from './webhooks.ts';

export const API = {
  accounts,
  keys,
  sessions,
  totp,
  projects,
  domains,
  submissions,
  erasure,
  messages,
  inbound,
  emails,
  resendEmails,
  suppressions,
  formTools,
  forms,
  instantForms,
  collections,
  recipients,
  analytics,
  webhooks,
  tenants,
  queue,
  mailLog,
  doctor,
  configCheck,
  serverConfig,
  serverLog,
  adminDomains,
  hostKeys,
  backups,
  consoleLink,
};
