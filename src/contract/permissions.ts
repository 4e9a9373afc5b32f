/** What each permission of an API key allows. */
import type { Permission } from '../lib/permission-names.ts';

export const PERMISSION_TEXTS: Readonly<Record<Permission, string>> = {
  'forms.read': 'List and show forms, recipients and submissions.',
  'forms.write': 'Create, change and delete forms; release, resend and delete submissions.',
  'forms.submit': 'Post to forms that require a key. Part of `forms.write`.',
  'domains.read': 'List and show domains and their DNS records.',
  'domains.write': 'Add, verify and remove domains; rotate DKIM keys.',
  'collections.read': 'List and show collections of forms.',
  'collections.write': 'Create and delete collections.',
  'analytics.read': 'Read statistics and events.',
  'projects.read': 'List and show projects and their configuration.',
  'projects.write': 'Create, push, roll back and delete projects; manage webhooks.',
  'email.send': 'Send mail, show it, and manage the suppression list.',
  'keys.read': 'List and show API keys.',
  'keys.write': 'Create and revoke API keys.',
  admin: 'Operate the server: accounts, billing, queue, backups. Must be named when a key is created.',
};
