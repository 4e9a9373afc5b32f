/** Whether the forms of a domain are served: it is configured, its configuration is in order, and DNS has said that it is its owner's. */
import type { Domains } from '../../access/domains.ts';
import type { Domain } from '../../config/snapshot.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { refuse, unavailable, type Refusal } from '../errors.ts';
import type { Seen } from './outcome.ts';
import type { Visit } from './visit.ts';

/** The domain, or why not; `seen` then knows what a domain that is not verified has to publish. */
export async function servedDomain(
  { exchange, path, domain }: Visit,
  domains: Pick<Domains, 'status' | 'report'>,
  seen: Seen,
): Promise<Domain | Refusal> {
  if (domain === undefined) {
    const name = parseDomain(path.domain);
    const broken = name !== undefined && exchange.snapshot.unavailable.has(name);
    return broken ? unavailable() : refuse('DOMAIN_NOT_FOUND');
  }
  const status = domains.status(domain.name);
  if (status !== undefined && status !== 'pending') return domain;
  seen.records = (await domains.report(domain.name))?.records ?? [];
  return refuse('DOMAIN_NOT_VERIFIED', { members: { domain: domain.name, records: seen.records } });
}
