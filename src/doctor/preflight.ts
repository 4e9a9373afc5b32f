/**
 * What a server needs from outside before it starts for the first time: a name that leads here and back, port 25 in both
 * directions, and nobody else at its ports. Nothing is needed but the configuration; only another listener ends in `failed`,
 * because DNS and providers may follow later.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { promisify } from 'node:util';
import { httpPlaces } from '../config/schema-server.ts';
import type { ServerConfig } from '../config/schema.ts';
import { checkDkim } from '../dns/check.ts';
import { isPublicAddress, reverseName } from '../dns/networks.ts';
import { reportConsent } from '../dns/records.ts';
import { recordsOf, silenceOf, type Answer, type Resolver } from '../dns/resolver.ts';
import { adviseSpf } from '../dns/spf.ts';
import type { Clock } from '../lib/clock.ts';
import { parseListenAddress, type ListenAddress } from '../lib/sockets.ts';
import type { Result } from './check.ts';
import type { Check } from './doctor.ts';
import { checkName, checkReverse } from './host.ts';
import { checkPort25 } from './port25.ts';

interface PreflightParts {
  readonly config: ServerConfig;
  readonly resolver: Resolver;
  readonly clock: Clock;
  /** Of the machine's interfaces. */
  readonly interfaces?: readonly string[];
}

export interface Preflight {
  readonly checks: readonly Check[];
  /** Public addresses of this machine, as far as its interfaces and DNS know them. */
  readonly addresses: readonly string[];
  /** Whether the host name has one of them. */
  readonly isNamed: boolean;
}

const OWN_UNITS: ReadonlySet<string | undefined> = new Set(['postern.service', 'postern.socket']);

/** Looks at everything side by side. */
export async function checkBeforeStart(parts: PreflightParts): Promise<Preflight> {
  const { config, resolver, interfaces = interfaceAddresses() } = parts;
  const { hostname, public_ips: configured } = config.server;
  const own = interfaces.filter(isPublicAddress);
  const named = recordsOf(await resolver.addresses(hostname));
  const addresses = [...new Set([...configured, ...named.filter(isPublicAddress), ...own])];
  const host = { hostname, resolver };
  const [name, reverse, out, listeners] = await Promise.all([
    checkName({ ...host, publicIps: [] }),
    checkReverse({ ...host, publicIps: addresses }),
    checkPort25(parts, undefined),
    listenersOn(placesOf(config)),
  ]);
  const otherListeners = listeners.filter(({ unit }) => !OWN_UNITS.has(unit));
  const incoming = await checkWayIn({ config, addresses, own, isServing: listeners.length > 0 });
  const all: [name: string, results: readonly Result[]][] = [
    ['host_name', [...[name].flat(), ...strangers(hostname, named, own)]],
    ['reverse_dns', [reverse].flat()],
    ['port_25_out', [out].flat()],
    ['port_25_in', incoming],
    ['ports', portResults(config, otherListeners)],
  ];
  const checks = all.flatMap(([check, results]) =>
    results.map(({ advice, ...result }) => ({
      name: check,
      ...result,
      // What is missing may come later; another listener has to go first.
      status: check !== 'ports' && result.status === 'failed' ? ('warning' as const) : result.status,
      ...(advice === undefined || result.status === 'ok' ? {} : { advice }),
    })),
  );
  return { checks, addresses, isNamed: named.some((ip) => addresses.includes(ip)) };
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
}

function placesOf(config: ServerConfig): ListenAddress[] {
  const { smtp } = config.server;
  const submission = smtp.submission.enabled ? smtp.submission.listen : [];
  const http = httpPlaces(config).map(({ address }) => address);
  return [...smtp.listen, ...submission, ...http].map(parseListenAddress).filter(({ port }) => port !== 0);
}

/** Mail may leave from any address of the machine, so each must be one of the host name. */
function strangers(hostname: string, named: readonly string[], own: readonly string[]): Result[] {
  if (named.length === 0) return [];
  return own
    .filter((ip) => !named.includes(ip))
    .map((ip) => ({
      status: 'warning',
      found: `this machine has ${ip}, which is not an address of ${hostname}`,
      advice: `Publish ${ip.includes(':') ? 'AAAA' : 'A'} ${hostname} ${ip}, or remove ${ip} from this machine: mail may be sent from it.`,
    }));
}

function portResults(config: ServerConfig, otherListeners: readonly Listener[]): Result[] {
  const ports = [...new Set(placesOf(config).map(({ port }) => port))].toSorted((a, b) => a - b);
  if (otherListeners.length === 0) return [{ status: 'ok', found: `${ports.join(', ')}: not used by other programs` }];
  return otherListeners.map((other) => {
    const { port, program = 'another program' } = other;
    return { status: 'failed', found: `port ${port} is used by ${program}`, advice: adviceOn(other) };
  });
}

/** How to free the port. */
function adviceOn({ port, program, pid, unit }: Listener): string {
  if (program === 'docker-proxy') return `Find the container to stop: docker ps --filter publish=${port}`;
  if (unit !== undefined) return `Stop it: systemctl disable --now ${unit}`;
  return pid === undefined ? `Find it as root: ss -ltnp 'sport = :${port}'` : `Stop it: kill ${pid}`;
}

const PATIENCE_MS = 4000;

/**
 * Whether strangers can reach the port that receives mail. Addresses of this machine's own interfaces never leave it, so that
 * only those behind NAT can be tried from here.
 */
async function checkWayIn({
  config,
  addresses,
  own,
  isServing,
}: {
  readonly config: ServerConfig;
  readonly addresses: readonly string[];
  readonly own: readonly string[];
  readonly isServing: boolean;
}): Promise<Result[]> {
  const { port } = config.delivery;
  const place = config.server.smtp.listen.map(parseListenAddress).find((each) => each.port === port);
  if (place === undefined) return [];
  const elsewhere = isServing ? [] : addresses.filter((ip) => !own.includes(ip));
  const reached = await reachedThrough(elsewhere, place);
  const unseen = addresses.filter((ip) => !reached.has(ip));
  const results: Result[] = [...reached].map((ip) => ({
    status: 'ok',
    found: `port ${port} of ${ip} reaches this machine`,
  }));
  if (unseen.length === 0) return results;
  const found = `whether port ${port} of ${unseen.join(' and ')} is open to others cannot be tested from this machine`;
  const advice = `Open TCP ports 25, 80 and 443 in the firewalls of this machine and of its provider. Once the server runs, test it from another machine: nc -vz ${unseen[0]} ${port}`;
  return [...results, { status: 'unknown', found, advice }];
}

/** Those of the addresses through which a connection comes back to this machine. */
async function reachedThrough(addresses: readonly string[], place: ListenAddress): Promise<ReadonlySet<string>> {
  if (addresses.length === 0) return new Set();
  const word = randomUUID();
  const server = createServer((socket) => socket.on('error', () => undefined).end(word));
  const isOpen = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(place, () => resolve(true));
  });
  if (!isOpen) return new Set();
  const reached = await Promise.all(
    addresses.map(async (ip) => ((await firstWords(ip, place.port)) === word ? [ip] : [])),
  );
  await new Promise((resolve) => server.close(resolve));
  return new Set(reached.flat());
}

function firstWords(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    let said = '';
    const socket = connect({ host, port, timeout: PATIENCE_MS });
    socket.setEncoding('utf8').on('data', (text: string) => (said += text));
    socket.on('timeout', () => socket.destroy());
    // A refusal is an answer as well: nothing was said.
    socket.on('error', () => undefined).on('close', () => resolve(said));
  });
}

/** A record of the server's own name, as `domainRecords` has those of a domain. */
interface HostRecord {
  readonly purpose: 'address' | 'reverse' | 'spf' | 'dkim' | 'reports';
  readonly type: 'A' | 'AAAA' | 'PTR' | 'TXT';
  readonly name: string;
  readonly value: string;
  readonly required: boolean;
  readonly status: 'ok' | 'missing' | 'wrong' | 'duplicate' | 'unknown';
  readonly found: readonly string[];
  readonly problem?: string;
}

/** The records of the server's own name, and what DNS has of them; `keys` are the names and values of its DKIM records. */
export async function checkHostRecords(
  { config, resolver }: Pick<PreflightParts, 'config' | 'resolver'>,
  addresses: readonly string[],
  keys: readonly { readonly name: string; readonly value: string }[],
): Promise<HostRecord[]> {
  const { hostname } = config.server;
  const hostAddresses = await resolver.addresses(hostname);
  const texts = await resolver.txt(hostname);
  const consent = reportConsent(hostname);
  const consents = await resolver.txt(consent.name.replace('*', 'any'));
  const spf = await adviseSpf(hostname, recordsOf(texts), { resolver, hostname, hostAddresses, publicIps: addresses });
  return [
    ...addresses.map((ip): HostRecord => {
      const type = ip.includes(':') ? 'AAAA' : 'A';
      // Several may be beside each other.
      const found = recordsOf(hostAddresses).filter((each) => each === ip);
      return {
        purpose: 'address',
        type,
        name: hostname,
        value: ip,
        required: true,
        ...standing(ip, found, hostAddresses),
      };
    }),
    ...(await Promise.all(
      addresses.map(async (ip): Promise<HostRecord> => {
        const name = reverseName(ip);
        const answer = await resolver.lookup(name, 'PTR');
        const state = standing(hostname, recordsOf(answer), answer);
        const who = state.status === 'ok' ? {} : { problem: `Only the provider of ${ip} can set it.` };
        return { purpose: 'reverse', type: 'PTR', name, value: `${hostname}.`, required: true, ...who, ...state };
      }),
    )),
    {
      purpose: 'spf',
      type: 'TXT',
      name: hostname,
      required: true,
      ...spf,
      // Before the host name has an address, it is the one that it will have.
      value: spf.found.length === 0 && spf.status !== 'ok' ? 'v=spf1 a -all' : (spf.value ?? ''),
    },
    ...(await Promise.all(
      keys.map(async (key): Promise<HostRecord> => ({
        purpose: 'dkim',
        type: 'TXT',
        required: true,
        ...key,
        ...(await checkDkim(key, resolver)),
        value: key.value,
      })),
    )),
    {
      purpose: 'reports',
      required: false,
      ...consent,
      type: 'TXT',
      ...standing(consent.value, recordsOf(consents), consents),
    },
  ];
}

function standing(
  wanted: string,
  found: readonly string[],
  answer: Answer<string>,
): Pick<HostRecord, 'status' | 'found'> & { problem?: string } {
  if (found.includes(wanted)) return { status: 'ok', found: [wanted] };
  const silence = silenceOf(answer);
  if (silence !== undefined) return { status: 'unknown', found, problem: `DNS did not answer: ${silence}` };
  return { status: found.length === 0 ? 'missing' : 'wrong', found };
}

// Who listens on a port of this machine, by program and unit, as the kernel has it (proc(5)). Without the rights to look into
// other processes, a listener is found and not named.

interface Listener {
  readonly port: number;
  /** `exim4`; undefined where this user may not see. */
  readonly program: string | undefined;
  readonly pid: number | undefined;
  /** `exim4.service`: what systemd stops. */
  readonly unit: string | undefined;
}

interface Bound {
  readonly port: number;
  /** As the kernel writes it, in hex. */
  readonly address: string;
  readonly inode: string;
}

/** The listeners that are in the way of one at these addresses, one for each port and program. */
async function listenersOn(places: readonly ListenAddress[]): Promise<Listener[]> {
  const bound = (await listening()).filter((each) => places.some((place) => isInTheWay(each, place)));
  if (bound.length === 0) return [];
  const pids = await pidsByInode(new Set(bound.map(({ inode }) => inode)));
  const found = await Promise.all(bound.map(({ port, inode }) => listenerOf(port, pids.get(inode) ?? [])));
  const byName = new Map(found.map((each) => [`${each.port} ${each.unit ?? each.program}`, each]));
  return [...byName.values()].toSorted((a, b) => a.port - b.port);
}

const LISTEN = '0A';

async function listening(): Promise<Bound[]> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => readFile(file, 'utf8').catch(() => '')),
  );
  return tables.flatMap((table) =>
    table.split('\n').flatMap((line) => {
      const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
      const [address = '', port = ''] = local.split(':');
      return state === LISTEN ? [{ address, port: Number.parseInt(port, 16), inode }] : [];
    }),
  );
}

/** A listener at one IPv4 address is in nobody's way at another one; of all else that is not worth the look. */
function isInTheWay({ address, port }: Bound, place: ListenAddress): boolean {
  if (port !== place.port) return false;
  const octets = place.host.split('.');
  if (octets.length !== 4 || address.length !== 8 || /^0+$/.test(address) || place.host === '0.0.0.0') return true;
  return Buffer.from(address, 'hex').reverse().join('.') === place.host;
}

async function pidsByInode(inodes: ReadonlySet<string>): Promise<ReadonlyMap<string, number[]>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = new Map<string, number[]>();
  for (const pid of pids.toSorted((a, b) => a - b)) {
    const links = await readdir(`/proc/${pid}/fd`).catch(() => []);
    // A process may end, and a descriptor be closed, while this looks.
    const targets = await Promise.all(links.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
    for (const [, inode = ''] of targets.map((target) => /^socket:\[(\d+)\]$/.exec(target) ?? []))
      if (inodes.has(inode)) found.set(inode, [...(found.get(inode) ?? []), pid]);
  }
  return found;
}

/** Of several processes that share it, the eldest: those that it started have it from there. */
async function listenerOf(port: number, pids: readonly number[]): Promise<Listener> {
  const pid = pids.find((each) => each !== 1) ?? pids[0];
  if (pid === undefined) return { port, program: undefined, pid, unit: undefined };
  const [program, cgroup] = await Promise.all(
    ['comm', 'cgroup'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '')),
  );
  const unit = pid === 1 ? await socketUnit(port) : /\/([^/\n]+\.service)$/m.exec(cgroup ?? '')?.[1];
  // Debian starts Postfix as an instance, postfix@-.service, of which postfix.service is the handle.
  return { port, program: program?.trim() || undefined, pid, unit: unit?.replace(/@-?(?=\.service$)/, '') };
}

const run = promisify(execFile);

/** The socket unit for which systemd itself holds a port. */
async function socketUnit(port: number): Promise<string | undefined> {
  const { stdout } = await run('systemctl', ['list-sockets', '--no-legend', '--full', '--plain']).catch(() => ({
    stdout: '',
  }));
  return new RegExp(`:${port}\\s+(\\S+\\.socket)`).exec(stdout)?.[1];
}
