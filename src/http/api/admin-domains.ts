/** What only the operator does with domains and the configuration: move a domain to another account, check the files. */
import { z } from 'zod';
import type { Domains } from '../../domains/domains.ts';
import type { ConfigSource } from '../../config/source.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { defineRoute, type Route } from './route.ts';

export interface AdminDomainsParts {
  readonly domains: Pick<Domains, 'report' | 'check' | 'rotateKeys' | 'move'>;
  /** Checks the configuration files as they are on disk. */
  readonly checkConfig: ConfigSource['check'];
}

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

/** `/admin/domains/{domain}/move` and `/admin/config/check` */
export function adminDomainsRoutes({ domains, checkConfig }: AdminDomainsParts): Route[] {
  return [
    defineRoute({
      ...ADMIN,
      method: 'POST',
      path: '/admin/domains/:domain/move',
      summary: 'Makes an account the owner of a domain, whoever owned it before.',
      description:
        'The account must have the domain in one of its projects. Its DNS records are checked at once; until they are found, its mail of the domain is held. The claims of other accounts stay pending.',
      body: z.strictObject({ tenant: z.string().describe('`ten_…`, the account that is to own it.') }),
      answer: z.object({
        domain: z.string(),
        tenant: z.string(),
        project: z.string(),
        status: z.enum(['pending', 'verified', 'degraded', 'failed']),
      }),
      async handle({ params: { domain: text }, body: { tenant } }) {
        const domain = parseDomain(text);
        const report = domain === undefined ? undefined : await domains.move(domain, tenant);
        if (domain !== undefined && report !== undefined) {
          return json({ domain, tenant, project: report.project, status: report.status });
        }
        const message = `The account ${tenant.slice(0, 60)} has no domain ${text.slice(0, 253)}. It must add the domain to a project first.`;
        return refuse('DOMAIN_NOT_FOUND', { message });
      },
    }),
    defineRoute({
      ...ADMIN,
      method: 'POST',
      path: '/admin/config/check',
      summary: 'Checks server.yml and the project files as the daemon reads them, and changes nothing.',
      answer: z.object({
        file: z.string().describe('The server.yml of the daemon.'),
        projects: z.int(),
        errors: z.array(z.string()),
        warnings: z.array(z.string()),
      }),
      async handle() {
        return json(await checkConfig());
      },
    }),
  ];
}
