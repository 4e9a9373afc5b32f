/** What an API key may do, by name, with what that allows: the daemon decides by these, the command line offers them. */
export const PERMISSION_TEXTS = {
  'forms.read': 'List and show forms, recipients and submissions.',
  'forms.write': 'Create, change and delete forms; release, resend and delete submissions.',
  'forms.submit': 'Post to forms that require an API key. Part of `forms.write`.',
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
} as const;

export type Permission = keyof typeof PERMISSION_TEXTS;

export const PERMISSIONS: readonly Permission[] = namesOf(PERMISSION_TEXTS);

/** What else a permission allows. */
export const CONTAINED: Readonly<Record<string, readonly Permission[]>> = { 'forms.write': ['forms.submit'] };

/** Names that stand for all of their kind. */
export const COARSE = ['forms', 'domains', 'collections', 'analytics', 'projects', 'keys'] as const;

export type PermissionName = Permission | (typeof COARSE)[number];

/** The names of a table, in its order. */
export function namesOf<Name extends string>(table: Readonly<Record<Name, unknown>>): Name[] {
  const names: Name[] = [];
  for (const name in table) names.push(name);
  return names;
}
