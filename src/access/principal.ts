/** Who asks: a tenant by one of its keys, or the operator, who has none. */
import { z } from 'zod';
import type { ApiKeyRow, TenantRow } from '../store/tables-accounts.ts';
import type { Permission } from '../lib/permission-names.ts';

const restrictions = z.object({
  ip_whitelist: z.array(z.string()).optional(),
  domain_restrictions: z.array(z.string()).optional(),
  rate_limit: z.int().optional(),
  burst_limit: z.int().optional(),
  expires_at: z.string().optional(),
});

/** Networks (CIDR) and addresses, domain names (lower case, A-labels), requests per hour and per minute, ISO 8601. */
export type Restrictions = Readonly<z.output<typeof restrictions>>;

export interface Principal {
  /** Whose things are meant; the operator may name another than its own. */
  readonly tenant: TenantRow;
  /** Undefined for the operator over the Unix socket. */
  readonly key: ApiKeyRow | undefined;
  readonly permissions: ReadonlySet<Permission>;
  readonly environment: 'live' | 'test';
  readonly restrictions: Restrictions;
}

/** Whether the principal may touch what belongs to this domain; `undefined` belongs to none. */
export function mayTouch({ restrictions }: Principal, domain: string | undefined): boolean {
  const { domain_restrictions: only } = restrictions;
  return only === undefined || (domain !== undefined && only.includes(domain));
}

/** The restrictions as a key's row has them. */
export function restrictionsOf(json: string): Restrictions {
  return restrictions.parse(JSON.parse(json));
}
