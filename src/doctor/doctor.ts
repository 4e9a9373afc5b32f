/** `postern doctor`: everything on which mail depends beside the daemon itself, looked at side by side, and what to do. */
import { X509Certificate } from 'node:crypto';
import { hostRecords } from '../domains/rotation.ts';
import { withDeadline, isoTime, type Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import {
  checkBounces,
  checkHostDkim,
  checkHostSpf,
  checkName,
  checkReports,
  checkReverse,
  type Host,
  addressesOf,
  unknownAddresses,
} from './host.ts';
import {
  checkClock,
  checkConfiguration,
  checkDaemon,
  checkDatabase,
  checkDisk,
  checkDnssec,
  checkDomains,
  checkProxies,
  checkQueue,
  checkResolver,
  checkStorage,
  domainsReportingHere,
  type Machine,
} from './machine.ts';
import { checkPort25 } from './port25.ts';
import type { ServerConfig } from '../config/schema.ts';
import { readCertificate, type CertificateKeeper, type CertificateState } from '../lib/certificate.ts';
import { tlsModeOf } from '../config/schema-server.ts';
import { recordsOf } from '../dns/resolver.ts';
import { lookUpBlockList } from './blocklist.ts';
import { LATER, type Result, type Results } from './check.ts';

export interface Inquiry {
  /** Zones of DNS block lists, beside those of `alerts.dnsbl`; no other is asked. */
  readonly dnsbl: readonly string[];
  /** A mail server to try, `host` or `host:port`; default: well-known ones. */
  readonly port25: string | undefined;
}

export interface Check extends Result {
  /** A stable name, such as `reverse_dns`; several checks may have one name. */
  readonly name: string;
}

export interface Diagnosis {
  readonly checks: readonly Check[];
  /** Whether none failed. */
  readonly ok: boolean;
}

/** Never rejects: what cannot be looked at is unknown. */
export type Doctor = (inquiry: Inquiry) => Promise<Diagnosis>;

export interface DoctorParts extends Machine {
  readonly certificate?: Pick<CertificateKeeper, 'states'> | undefined;
}

const NO_NAME: Result = {
  status: 'unknown',
  found: 'server.hostname cannot be read',
  advice: 'Correct server.yml; the DNS checks need the name of the server.',
};

/** More than any look at DNS takes; the one who asked waits for all. */
const DEADLINE_MS = 25_000;

export function createDoctor(machine: DoctorParts): Doctor {
  const { store, clock, snapshot, down } = machine;
  return async ({ dnsbl, port25 }) => {
    const config = snapshot().server;
    const { hostname, public_ips: publicIps } = config.server;
    const resolver = machine.resolver.fresh();
    const host: Host = { hostname, publicIps, resolver };
    const ofHost: Readonly<Record<string, () => Promise<Results>>> = {
      host_name: () => checkName(host),
      reverse_dns: () => checkReverse(host),
      host_spf: () => checkHostSpf(host),
      host_dkim: async () => checkHostDkim(host, await hostRecords(store, hostname)),
      bounces: () => checkBounces(host),
      dmarc_reports: async () => checkReports(host, await domainsReportingHere(machine)),
    };
    const looks: Readonly<Record<string, () => Promise<Results>>> = {
      daemon: async () => (down === undefined ? [] : checkDaemon(down)),
      ...(down?.named === false ? { host_name: async () => NO_NAME } : ofHost),
      port_25: () => checkPort25({ resolver, clock, config }, port25),
      block_list: () => checkBlocklists(host, [...new Set([...config.alerts.dnsbl, ...dnsbl])]),
      resolver: () => checkResolver({ ...machine, resolver }),
      dnssec: () => checkDnssec(machine),
      certificate: async () =>
        tlsModeOf(config) === 'acme'
          ? (machine.certificate?.states() ?? []).map((state) => checkObtained(state, clock))
          : checkCertificate(config, clock),
      clock: () => checkClock(machine),
      disk: () => checkDisk(machine),
      database: () => checkDatabase(machine),
      storage: () => checkStorage(machine),
      queue: () => checkQueue(machine),
      domains: () => checkDomains(machine),
      trusted_proxies: async () => checkProxies(machine),
      configuration: async () => checkConfiguration(machine),
    };
    const checks = (await Promise.all(Object.entries(looks).map(([name, look]) => within(name, look)))).flat();
    return { checks, ok: checks.every(({ status }) => status !== 'failed') };
  };
}

async function within(name: string, look: () => Promise<Results>): Promise<Check[]> {
  const results = await withDeadline(DEADLINE_MS, name, look()).catch((error: unknown): Results => ({
    status: 'unknown',
    found: messageOf(error),
  }));
  return [results].flat().map(({ advice, ...result }) => ({
    name,
    ...result,
    ...(advice === undefined || result.status === 'ok' ? {} : { advice }),
  }));
}

const DAY = 86_400_000;

/** Whoever renews by machine does it earlier. */
const SOON = 14 * DAY;

export async function checkCertificate({ server, tls }: ServerConfig, clock: Clock): Promise<Results> {
  if (tlsModeOf({ server, tls }) === 'off' || tls.files === null) {
    const advice =
      'Set tls.mode to acme, or to files with a certificate in tls.files. Without TLS, some senders refuse to send mail here.';
    const found = tls.files === null ? 'there is no certificate' : 'it is not used: tls.mode is off';
    return { status: 'warning', found, advice };
  }
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate((await readCertificate(tls.files)).cert);
  } catch (error) {
    const advice = 'See tls.files. Until it can be used, the last valid certificate stays in use.';
    return { status: 'failed', found: messageOf(error), advice };
  }
  const until = Date.parse(certificate.validTo);
  const found = `${certificate.subject.replaceAll('\n', ', ')}, until ${isoTime(until).slice(0, 10)}`;
  const left = until - clock.now();
  if (left <= 0) return { status: 'failed', found: `${found}: it has expired`, advice: 'Renew it.' };
  if (certificate.checkHost(server.hostname) === undefined) {
    const advice = `Obtain one for ${server.hostname}: senders that use MTA-STS refuse this one.`;
    return { status: 'warning', found: `${found}, not for ${server.hostname}`, advice };
  }
  const advice = `It expires in ${Math.floor(left / DAY)} days: check whether renewal works.`;
  return { status: left < SOON ? 'warning' : 'ok', found, advice };
}

/** A certificate that the daemon obtains itself. */
function checkObtained({ name, expiresAt, failure }: CertificateState, clock: Clock): Result {
  const retry =
    failure &&
    `Correct the cause, then reload the configuration (systemctl reload postern). The next attempt is at ${isoTime(failure.nextAt).slice(0, 16).replace('T', ' ')} UTC.`;
  const why =
    failure && `the attempt at ${isoTime(failure.at).slice(0, 16).replace('T', ' ')} UTC failed: ${failure.reason}`;
  const left = expiresAt === undefined ? 0 : expiresAt - clock.now();
  if (expiresAt === undefined || left <= 0) {
    const shown = expiresAt === undefined ? 'a self-signed certificate is used' : 'the certificate has expired';
    if (why !== undefined) return { status: 'failed', found: `${name}: ${shown}; ${why}`, advice: retry };
    const advice = 'It is being obtained. Check again in a minute.';
    return { status: 'warning', found: `${name}: ${shown}`, advice };
  }
  const found = `${name}, until ${isoTime(expiresAt).slice(0, 10)}`;
  if (why === undefined) return { status: 'ok', found };
  return { status: 'warning', found: `${found}; ${why}`, advice: retry };
}

/** One check for each address and list. */
async function checkBlocklists(host: Host, zones: readonly string[]): Promise<Results> {
  if (zones.length === 0) return [];
  const answer = await addressesOf(host);
  const checks = await Promise.all(zones.flatMap((zone) => recordsOf(answer).map((ip) => checkOn(zone, ip, host))));
  return [...checks, ...unknownAddresses(answer)];
}

async function checkOn(zone: string, ip: string, { resolver }: Host): Promise<Result> {
  const listing = await lookUpBlockList(zone, ip, resolver);
  switch (listing.kind) {
    case 'clear':
      return { status: 'ok', found: `${ip} is not on ${zone}` };
    case 'unknown':
      return { status: 'unknown', found: listing.words, advice: listing.advice ?? LATER };
    case 'listed': {
      const advice = `Find and correct the cause, then ask ${zone} to remove the address.`;
      return { status: 'failed', found: listing.words, advice };
    }
  }
}
