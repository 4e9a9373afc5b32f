/** A real DNS server on loopback for a test, and a resolver that asks it. */
import { onTestFinished } from 'vitest';
import { type DnsServer, type ZoneRecord, startDnsServer } from '../../src/dev/dns-server.ts';
import { type Resolver, type ResolverOptions, createResolver } from '../../src/dns/resolver.ts';

export type { DnsServer, ZoneRecord } from '../../src/dev/dns-server.ts';

/** Where a record never answers, ms; else a busy machine has the product's own time. */
const SOON = 300;

/** Stops by itself when the test is over. Where one of these records is silent, questions are given up soon. */
export async function startTestDns(
  records: readonly ZoneRecord[],
  options: Partial<ResolverOptions> = {},
): Promise<{ server: DnsServer; resolver: Resolver }> {
  const server = await startDnsServer(records);
  onTestFinished(() => server.close());
  const patience = records.some((record) => 'fault' in record && record.fault === 'SILENT') ? { timeoutMs: SOON } : {};
  return { server, resolver: createResolver({ servers: [server.address], ...patience, ...options }) };
}
