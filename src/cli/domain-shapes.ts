/** Domains as the API shows them. */
import { z } from 'zod';
import type { Client } from './client.ts';
import { queryOf } from './run.ts';

const record = z.looseObject({
  /** `ownership`, `dkim`, `spf`, …: others may come. */
  purpose: z.string(),
  type: z.string(),
  name: z.string(),
  /** One string, unquoted and unsplit; empty: nothing is to be published before more is known. */
  value: z.string(),
  required: z.boolean(),
  /** `ok`, `missing`, `wrong`, `duplicate`, `unknown` */
  status: z.string(),
  found: z.array(z.string()),
  /** What is the matter. */
  problem: z.string().nullish(),
  /** What is worth knowing of it. */
  note: z.string().nullish(),
});

/** With whatever else the daemon says: `--json` shows it all. */
export const domainShape = z.looseObject({
  domain: z.string(),
  project: z.string(),
  verified: z.boolean(),
  status: z.string(),
  /** Why it stays pending, whatever its records say. */
  reason: z.string().nullish(),
  checked_at: z.string().nullable(),
  verified_at: z.string().nullable(),
  records: z.array(record),
});

export type DnsRecord = z.output<typeof record>;
export type Domain = z.output<typeof domainShape>;

const page = z.object({ domains: z.array(domainShape), next_cursor: z.string().nullable() });

/** All domains of the account, by name. */
export async function everyDomain(client: Client): Promise<Domain[]> {
  const all: Domain[] = [];
  for (let cursor: string | undefined; ;) {
    const { domains, next_cursor: next } = page.parse(await client.get(`/domains${queryOf({ limit: 200, cursor })}`));
    all.push(...domains);
    if (next === null) return all;
    cursor = next;
  }
}

/** The address of a domain in the API. */
export function domainPath(name: string): string {
  return `/domains/${encodeURIComponent(name)}`;
}
