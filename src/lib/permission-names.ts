/** What an API key may do, by name: the daemon decides by these, the command line offers them. */
export const PERMISSIONS = [
  'forms.read',
  'forms.write',
  'forms.submit',
  'domains.read',
  'domains.write',
  'collections.read',
  'collections.write',
  'analytics.read',
  'projects.read',
  'projects.write',
  'email.send',
  'keys.read',
  'keys.write',
  'admin',
] as const;

/** What else a permission allows. */
export const CONTAINED: Readonly<Record<string, readonly Permission[]>> = { 'forms.write': ['forms.submit'] };

export type Permission = (typeof PERMISSIONS)[number];

/** Names that stand for all of their kind. */
export const COARSE = ['forms', 'domains', 'collections', 'analytics', 'projects', 'keys'] as const;

export type PermissionName = Permission | (typeof COARSE)[number];
