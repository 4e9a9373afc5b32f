/** `postern doctor`: everything on which mail depends beside the daemon itself, looked at side by side, and what to do. */
import { hostRecords } from '../access/host-key.ts';
import { withDeadline } from '../lib/abort.ts';
import { messageOf } from '../lib/errors.ts';
import { checkBlocklists } from './blocklists.ts';
import { checkCertificate } from './certificate.ts';
import { check, type Check } from './check.ts';
import { checkBounces, checkHostDkim, checkHostSpf, checkName, checkReverse, type Host } from './host.ts';
import {
  checkClock,
  checkConfiguration,
  checkDatabase,
  checkDisk,
  checkDomains,
  checkQueue,
  checkResolver,
  type Machine,
} from './machine.ts';
import { checkPort25 } from './port25.ts';

export interface Inquiry {
  /** Zones of DNS block lists; none is asked that is not named. */
  readonly dnsbl: readonly string[];
  /** A mail server to try, `host` or `host:port`; well-known ones unless told. */
  readonly port25: string | undefined;
}

export interface Diagnosis {
  readonly checks: readonly Check[];
  /** Whether none failed. */
  readonly ok: boolean;
}

/** Never rejects: what cannot be looked at is unknown. */
export type Doctor = (inquiry: Inquiry) => Promise<Diagnosis>;

/** More than any look at DNS takes; the one who asked waits for all. */
const DEADLINE_MS = 25_000;

export function createDoctor(machine: Machine): Doctor {
  const { store, clock, snapshot } = machine;
  return async ({ dnsbl, port25 }) => {
    const config = snapshot().server;
    const { hostname, public_ips: publicIps } = config.server;
    const resolver = machine.resolver.fresh();
    const host: Host = { hostname, publicIps, resolver };
    const looks: Readonly<Record<string, () => Promise<Check[]>>> = {
      host_name: () => checkName(host),
      reverse_dns: () => checkReverse(host),
      host_spf: () => checkHostSpf(host),
      host_dkim: async () => checkHostDkim(host, await hostRecords(store, hostname)),
      bounces: () => checkBounces(host),
      port_25: () => checkPort25({ resolver, clock, config }, port25),
      block_list: () => checkBlocklists(host, dnsbl),
      resolver: () => checkResolver({ ...machine, resolver }),
      certificate: () => checkCertificate(config, clock),
      clock: () => checkClock(machine),
      disk: () => checkDisk(machine),
      database: () => checkDatabase(machine),
      queue: () => checkQueue(machine),
      domains: () => checkDomains(machine),
      configuration: () => checkConfiguration(machine),
    };
    const checks = (await Promise.all(Object.entries(looks).map(([name, look]) => within(name, look)))).flat();
    return { checks, ok: checks.every(({ status }) => status !== 'failed') };
  };
}

async function within(name: string, look: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await withDeadline(DEADLINE_MS, name, look());
  } catch (error) {
    return [check(name, { status: 'unknown', found: messageOf(error) })];
  }
}
