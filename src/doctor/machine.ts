/** What the daemon stands on: clock, disk, database, queue, resolver, domains, configuration. */
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { checkServer } from '../config/checks.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Dnssec } from '../dns/dnssec.ts';
import { reportAddress } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { allDomains } from '../store/domains.ts';
import { newestEventAt } from '../store/events.ts';
import { readFigures } from '../store/figures.ts';
import { probeStore } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import type { Result, Results } from './check.ts';
import type { ServiceState } from './service.ts';

export interface Machine {
  readonly store: Store;
  readonly clock: Clock;
  readonly resolver: Resolver;
  /** Undefined where name servers are not asked. */
  readonly dnssec?: Dnssec | undefined;
  readonly snapshot: () => Snapshot;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  readonly queueProblem: () => string | undefined;
  /** Undefined where the database is a server's. */
  readonly databaseFile: string | undefined;
  /** Who has lately sent `X-Forwarded-For` without being trusted. */
  readonly forwardedBy: () => readonly string[];
  /** What is known of a daemon that does not run, where the checks are made without it; the store is read only then. */
  readonly down?: DaemonDown | undefined;
}

export interface DaemonDown {
  readonly service: ServiceState;
  /** What keeps it from starting: errors of server.yml. */
  readonly errors: readonly string[];
  /** Whether the name of the server is known. */
  readonly named: boolean;
}

/** It does not run, and why. */
export function checkDaemon({ service: { words, start }, errors }: DaemonDown): Result {
  const advice = errors.length > 0 ? `Correct server.yml (see configuration below). ${start}` : start;
  return { status: 'failed', found: `is not running. ${words}`, advice };
}

const MINUTE = 60_000;
/** Due work that nobody takes for so long is a fault of ours, not of its destination. */
const LONG_DUE = 10 * MINUTE;
const MOST_NAMED = 10;

/** It is not behind what was written down before. Mail that is dated wrongly counts as spam. */
export async function checkClock({ clock, store }: Machine): Promise<Results> {
  const now = clock.now();
  const newest = (await newestEventAt(store)) ?? 0;
  const found = isoTime(now);
  if (newest <= now + MINUTE) return { status: 'ok', found };
  const advice = 'Set the clock, and keep it accurate with NTP (apt install systemd-timesyncd).';
  return { status: 'failed', found: `${found}, but the latest event is from ${isoTime(newest)}`, advice };
}

/** The file system of the database has room. */
export async function checkDisk({ databaseFile, snapshot }: Machine): Promise<Results> {
  if (databaseFile === undefined) return [];
  const folder = dirname(databaseFile);
  const { bavail, blocks, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const least = snapshot().server.limits.free_disk;
  const found = `${inGigabytes(free)} of ${inGigabytes(blocks * bsize)} free under ${folder}`;
  const status = free < least ? 'failed' : free < 4 * least ? 'warning' : 'ok';
  const advice = `Below limits.free_disk (${inGigabytes(least)}) nothing is accepted: free up disk space, or shorten retention.`;
  return { status, found, advice };
}

/** It takes a real write; without the daemon it is only read. */
export async function checkDatabase({ store, down }: Machine): Promise<Results> {
  try {
    if (down !== undefined) {
      await newestEventAt(store);
      return { status: 'ok', found: `${store.dialect} can be read` };
    }
    await probeStore(store);
    return { status: 'ok', found: `${store.dialect} can be written` };
  } catch (error) {
    const advice = 'Until this is fixed, nothing is accepted. Check the log, the disk and the file permissions.';
    return { status: 'failed', found: messageOf(error), advice };
  }
}

/** The bucket, where there is one. It takes a real write; without the daemon it is not asked. */
export async function checkStorage({ store }: Machine): Promise<Results> {
  const { bucket } = store.blobs;
  if (bucket === undefined) return [];
  try {
    await bucket.probe();
    return { status: 'ok', found: `${bucket.name} can be written and read` };
  } catch (error) {
    const advice =
      'Until this is fixed, large posts and messages are not accepted, and mail with stored files waits. Check the storage settings.';
    return { status: 'failed', found: messageOf(error), advice };
  }
}

/** What is due leaves. */
export async function checkQueue({ store, clock, queueProblem, down }: Machine): Promise<Results> {
  const now = clock.now();
  const { deliveries, dueSince, paused, held } = await readFigures(store, now);
  const waiting = deliveries.filter(({ state }) => state === 'queued' || state === 'deferred');
  const count = waiting.reduce((sum, each) => sum + each.count, 0);
  const late = dueSince === null ? 0 : now - dueSince;
  const found = `${count} ${count === 1 ? 'delivery' : 'deliveries'} waiting, the oldest due for ${Math.round(late / 1000)} s; ${paused} destinations paused, ${held} held`;
  if (down !== undefined) {
    const advice = 'They are delivered once the daemon runs. To see them, run postern queue list.';
    return { status: count > 0 ? 'warning' : 'ok', found, advice };
  }
  const problem = queueProblem();
  if (problem !== undefined) {
    return {
      status: 'failed',
      found: problem,
      advice: 'See the log. To see the waiting mail, run postern queue list.',
    };
  }
  if (late > LONG_DUE) {
    const advice =
      'More mail arrives than is delivered: check postern queue list, delivery.concurrency and the machine’s load.';
    return { status: 'failed', found, advice };
  }
  const advice = 'To deliver mail to a held destination, run postern queue release.';
  return { status: held > 0 ? 'warning' : 'ok', found, advice };
}

/** A question that any resolver can answer (RFC 6761 §6.5: example.com is always there). */
export async function checkResolver({ resolver, snapshot }: Machine): Promise<Results> {
  const { servers } = snapshot().server.dns;
  const where = servers.length === 0 ? 'the system’s resolver' : servers.join(', ');
  const answer = await resolver.mx('example.com');
  if (answer.kind !== 'failed') return { status: 'ok', found: `${where} answers` };
  const advice = 'Without DNS, nothing is delivered or verified: set dns.servers to resolvers that answer.';
  return { status: 'failed', found: `${where}: ${answer.reason}`, advice };
}

/** Whether DNSSEC is believed, and so DANE obeyed. Mail leaves without it as well. */
export async function checkDnssec({ dnssec, snapshot }: Machine): Promise<Results> {
  if (dnssec === undefined) return [];
  const objection = await dnssec.objection();
  if (objection === undefined) return { status: 'ok', found: 'the resolver validates DNSSEC: DANE is used' };
  if (snapshot().server.dns.validating !== true) return { status: 'ok', found: `DANE is not used: ${objection}` };
  const advice = 'Correct the resolver, or set dns.validating to auto.';
  return { status: 'failed', found: `dns.validating is true, but ${objection}`, advice };
}

/** Those whose records have broken. */
export async function checkDomains({ store, snapshot }: Machine): Promise<Results> {
  const { claims } = snapshot();
  const names = new Set([...claims.values()].map(({ name }) => name));
  const rows = (await allDomains(store)).filter(({ name, project }) => names.has(name) && project !== '');
  const broken = rows.filter(({ status }) => status === 'degraded' || status === 'failed');
  const verified = rows.filter(({ status }) => status === 'verified').length;
  const named = broken.slice(0, MOST_NAMED).map(({ name, status }) => `${name} is ${status}`);
  const found = [`${verified} of ${rows.length} verified`, ...named].join(', ');
  const advice = 'To see their DNS problems, run postern domains status. Mail from failed domains is held.';
  return { status: broken.length === 0 ? 'ok' : 'warning', found, advice };
}

/** Domains whose DMARC records, as last found, send reports to this server. */
export async function domainsReportingHere({ store, snapshot }: Machine): Promise<string[]> {
  const address = `mailto:${reportAddress(snapshot().server.server.hostname)}`;
  const rows = await allDomains(store);
  const names = rows
    .filter(({ project }) => project !== '')
    .filter(({ records }) => dmarcOf(records).some((text) => text.toLowerCase().includes(address)))
    .map(({ name }) => name);
  return [...new Set(names)];
}

const checked = z.array(z.object({ purpose: z.string(), found: z.array(z.string()) }));

/** The DMARC records that the last check found. */
function dmarcOf(records: string | null): string[] {
  return checked.parse(JSON.parse(records ?? '[]')).flatMap(({ purpose, found }) => (purpose === 'dmarc' ? found : []));
}

/** A proxy that is not trusted gives all its visitors one address. */
export function checkProxies({ forwardedBy }: Machine): Results {
  const peers = forwardedBy();
  if (peers.length === 0) return [];
  const found = `X-Forwarded-For came from ${peers.slice(0, MOST_NAMED).join(', ')}, not in server.http.trusted_proxies`;
  const advice =
    'Add your own proxies there: until then, all their visitors share one IP address and its limits. From others, the header is rightly ignored.';
  return { status: 'warning', found, advice };
}

/** What a reload refused or put off, and what the limits contradict. The first line about a file says what is active. */
export function checkConfiguration({ snapshot, down }: Machine): Results {
  const { problems, waiting, server } = snapshot();
  const doubts = checkServer(server).map(({ path, message }) => `${path.join('.')} ${message}`);
  const where = 'To see the file and line, run postern config check.';
  const errors = (down?.errors ?? []).map((found): Result => {
    return { status: 'failed', found, advice: 'The daemon does not start until this is corrected.' };
  });
  const results = [
    ...errors,
    ...[...problems, ...doubts].map((found) => ({ found, advice: where })),
    ...waiting.map((key) => ({
      found: `the new value of ${key} takes effect after a restart`,
      advice: 'Restart the daemon.',
    })),
  ].map((words): Result => ({ status: 'warning', ...words }));
  return results.length > 0 ? results : { status: 'ok', found: down === undefined ? 'is active' : 'is valid' };
}

function inGigabytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}
