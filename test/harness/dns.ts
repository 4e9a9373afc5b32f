/** A real DNS server on loopback for a test, and a resolver that asks it. */
import { onTestFinished } from 'vitest';
import { type DnsServer, type ZoneRecord, startDnsServer } from '../../src/dev/dns-server.ts';
import { type Resolver, type ResolverOptions, createResolver } from '../../src/dns/resolver.ts';

export type { DnsServer, ZoneRecord } from '../../src/dev/dns-server.ts';

/** Stops by itself when the test is over. Questions that hang are given up after 300 ms unless told. */
export async function startTestDns(
  records: readonly ZoneRecord[],
  options: Partial<ResolverOptions> = {},
): Promise<{ server: DnsServer; resolver: Resolver }> {
  const server = await startDnsServer({ records });
  onTestFinished(() => server.close());
  return { server, resolver: createResolver({ servers: [server.address], timeoutMs: 300, ...options }) };
}
