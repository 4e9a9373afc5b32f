/** Whether what stands at the address is served: its configuration is in order, DNS has said that its domain is its owner's, and its owner is not suspended. */
import type { Domains } from '../../domains/domains.ts';
import { isServed } from '../../accounts/tenants.ts';
import { environmentOf } from '../../lib/ids.ts';
import { OPERATOR } from '../../store/revisions.ts';
import type { Store } from '../../store/store.ts';
import { refuse, type Refusal } from '../errors.ts';
import type { Seen } from './outcome.ts';
import { outageOf, type Visit } from './request.ts';

export interface ServedParts {
  readonly domains: Pick<Domains, 'status' | 'report'>;
  readonly store: Store;
}

/** Why nothing is served at the address, or nothing; `seen` then knows what a domain that is not verified has to publish. */
export async function refuseUnserved(
  visit: Visit,
  { domains, store }: ServedParts,
  seen: Seen,
): Promise<Refusal | undefined> {
  const { domain, form, path } = visit;
  const outage = outageOf(visit);
  if (outage !== undefined) return outage;
  if (domain === undefined && path.kind === 'domain') return refuse('DOMAIN_NOT_FOUND');
  const tenant = domain?.project.tenant ?? form?.tenant;
  // The operator's own is always served; asking would cost each of its forms a turn.
  if (tenant !== undefined && tenant !== OPERATOR && !(await isServed(store, tenant))) return refuse('INACTIVE');
  // A domain that only a test key added needs no records: its mail does not leave.
  if (domain === undefined || environmentOf(domain.project.tenant) === 'test') return undefined;
  const status = domains.status(domain.name);
  if (status !== undefined && status !== 'pending') return undefined;
  seen.records = (await domains.report(domain.name))?.records ?? [];
  return refuse('DOMAIN_NOT_VERIFIED', { members: { domain: domain.name, records: seen.records } });
}
