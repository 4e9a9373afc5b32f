/** The pages of the console by their addresses. Each page's module is fetched when it is first shown. */
import type { ComponentChildren } from '../lib.ts';
import type { PageProps } from '../router.ts';

type PageComponent = (props: PageProps) => ComponentChildren;

export interface PageEntry {
  /** `/submissions/:id`; the first pattern that matches counts. */
  readonly pattern: string;
  readonly load: () => Promise<PageComponent>;
  /** In the list of pages at the side. */
  readonly menu?: {
    readonly name: string;
    readonly group: 'Forms' | 'Mail' | 'Account' | 'Server';
    readonly permission: string;
  };
}

/** The list, and a submission beside it: one page, which stays when one of them is opened. */
async function submissions(): Promise<PageComponent> {
  return (await import('./submissions.ts')).Submissions;
}

/** The operator's pages. */
const SERVER: readonly PageEntry[] = [
  {
    pattern: '/server/live',
    load: async () => (await import('./operator/server.ts')).Server,
    menu: { name: 'Live', group: 'Server', permission: 'admin' },
  },
  {
    pattern: '/server/queue',
    load: async () => (await import('./operator/queue.ts')).Queue,
    menu: { name: 'Queue', group: 'Server', permission: 'admin' },
  },
  { pattern: '/server/queue/:destination', load: async () => (await import('./operator/queue.ts')).QueueOf },
  {
    pattern: '/server/accounts',
    load: async () => (await import('./operator/accounts.ts')).Accounts,
    menu: { name: 'Accounts', group: 'Server', permission: 'admin' },
  },
  { pattern: '/server/accounts/:id', load: async () => (await import('./operator/accounts.ts')).Account },
  {
    pattern: '/server/doctor',
    load: async () => (await import('./operator/checks.ts')).Doctor,
    menu: { name: 'Doctor', group: 'Server', permission: 'admin' },
  },
  {
    pattern: '/server/config',
    load: async () => (await import('./operator/checks.ts')).Configuration,
    menu: { name: 'Configuration', group: 'Server', permission: 'admin' },
  },
  {
    pattern: '/server/logs',
    load: async () => (await import('./operator/checks.ts')).Logs,
    menu: { name: 'Log', group: 'Server', permission: 'admin' },
  },
];

export const PAGES: readonly PageEntry[] = [
  ...SERVER,
  { pattern: '/', load: async () => (await import('./overview.ts')).Overview },
  { pattern: '/sign-in', load: async () => (await import('./sign-in.ts')).SignIn },
  { pattern: '/account', load: async () => (await import('./account.ts')).Account },
  {
    pattern: '/submissions',
    load: submissions,
    menu: { name: 'Submissions', group: 'Forms', permission: 'forms.read' },
  },
  { pattern: '/submissions/:id', load: submissions },
  {
    pattern: '/forms',
    load: async () => (await import('./forms.ts')).Forms,
    menu: { name: 'Forms', group: 'Forms', permission: 'forms.read' },
  },
  { pattern: '/forms/*id', load: async () => (await import('./forms.ts')).FormPage },
  {
    pattern: '/projects',
    load: async () => (await import('./project.ts')).Projects,
    menu: { name: 'Projects', group: 'Forms', permission: 'projects.read' },
  },
  { pattern: '/projects/:slug', load: async () => (await import('./project.ts')).ProjectPage },
  {
    pattern: '/webhooks',
    load: async () => (await import('./webhooks.ts')).Webhooks,
    menu: { name: 'Webhooks', group: 'Account', permission: 'projects.write' },
  },
  { pattern: '/webhooks/:id', load: async () => (await import('./webhooks.ts')).WebhookPage },
  {
    pattern: '/keys',
    load: async () => (await import('./keys.ts')).Keys,
    menu: { name: 'API keys', group: 'Account', permission: 'keys.read' },
  },
  { pattern: '/keys/:id', load: async () => (await import('./keys.ts')).KeyPage },
  {
    pattern: '/mail',
    load: async () => (await import('./mail.ts')).MailList,
    menu: { name: 'Mail', group: 'Mail', permission: 'forms.read' },
  },
  {
    pattern: '/inbound',
    load: async () => (await import('./inbound.ts')).Inbound,
    menu: { name: 'Inbound', group: 'Mail', permission: 'forms.read' },
  },
  {
    pattern: '/domains',
    load: async () => (await import('./domains.ts')).DomainList,
    menu: { name: 'Domains', group: 'Mail', permission: 'domains.read' },
  },
  { pattern: '/domains/:domain', load: async () => (await import('./domains.ts')).DomainPage },
  { pattern: '/mail/:id', load: async () => (await import('./mail.ts')).MailMessage },
  {
    pattern: '/suppressions',
    load: async () => (await import('./suppressions.ts')).Suppressions,
    menu: { name: 'Suppressions', group: 'Mail', permission: 'email.send' },
  },
  {
    pattern: '/reference',
    load: async () => (await import('./reference.ts')).Reference,
    menu: { name: 'API reference', group: 'Account', permission: 'analytics.read' },
  },
];
