/** A validating resolver over a signed root zone of the test's own: Debian's unbound, nsd and ldnsutils, on loopback. */
import { execFileSync } from 'node:child_process';
import { promises as dns } from 'node:dns';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, startChild, untilReady } from './child.ts';
import { needPackage } from './debian.ts';
import { startNsd, zoneFile } from './nsd.ts';

export interface SignedDns {
  /** The resolver; fits `dns.servers`. */
  readonly address: string;
  /** The name server behind it, which proves nothing. */
  readonly authority: string;
  close(): Promise<void>;
}

export interface SignedDnsOptions {
  /** Of the root zone, in the syntax of zone files; they are all proven. */
  readonly signed: readonly string[];
  /** Zones below it that are not signed, and need not be. */
  readonly unsigned?: Readonly<Record<string, readonly string[]>>;
  /** Zones below it that should be signed and are not: nothing of them is believed. */
  readonly bogus?: Readonly<Record<string, readonly string[]>>;
}

export async function startSignedDns({ signed, unsigned = {}, bogus = {} }: SignedDnsOptions): Promise<SignedDns> {
  needPackage('/usr/bin/ldns-signzone', 'ldnsutils');
  needPackage('/usr/sbin/unbound', 'unbound');
  const folder = await mkdtemp(join(tmpdir(), 'postern-unbound-'));
  const [authorityPort, port] = [await freePort(), await freePort()];
  const delegations = [
    ...Object.keys({ ...unsigned, ...bogus }).map((zone) => `${zone}. NS ns.nsd.test.`),
    ...Object.keys(bogus).map((zone) => `${zone}. DS 1 13 2 ${'0'.repeat(64)}`),
  ];
  const root = await signedRoot(folder, ['ns.nsd.test. A 127.0.0.1', ...signed, ...delegations]);
  const zones = { ...unsigned, ...bogus };
  const nsd = await startNsd({ port: authorityPort, zones, files: { '.': root.zone }, expired: [] });
  await writeFile(join(folder, 'root.ds'), root.anchor);
  await writeFile(join(folder, 'unbound.conf'), configuration({ folder, port, authorityPort, zones }));
  const child = await startChild('/usr/sbin/unbound', ['-d', '-p', '-c', join(folder, 'unbound.conf')]);
  const address = `127.0.0.1:${port}`;
  const asking = new dns.Resolver({ timeout: 500, tries: 1 });
  asking.setServers([address]);
  async function close(): Promise<void> {
    await child.stop();
    await nsd.close();
    await rm(folder, { recursive: true, force: true });
  }
  try {
    await untilReady(child, () =>
      asking.resolve4('ns.nsd.test').then(
        () => true,
        () => false,
      ),
    );
  } catch (error) {
    await close();
    throw error;
  }
  return { address, authority: nsd.address, close };
}

/** The text of the zone, and the DS record of its key. */
async function signedRoot(folder: string, records: readonly string[]): Promise<{ zone: string; anchor: string }> {
  const keys = join(folder, 'keys');
  await mkdir(keys);
  await writeFile(join(keys, 'root'), zoneFile('.', records));
  const run = (command: string, args: readonly string[]) =>
    execFileSync(command, args, { cwd: keys, encoding: 'utf8' });
  const key = run('ldns-keygen', ['-k', '-a', 'ECDSAP256SHA256', '-r', '/dev/urandom', '.']).trim();
  run('ldns-signzone', ['-o', '.', '-f', 'signed', 'root', key]);
  const anchor = (await readdir(keys)).find((name) => name.endsWith('.ds')) ?? '';
  return { zone: await readFile(join(keys, 'signed'), 'utf8'), anchor: await readFile(join(keys, anchor), 'utf8') };
}

interface Configured {
  readonly folder: string;
  readonly port: number;
  readonly authorityPort: number;
  readonly zones: Readonly<Record<string, unknown>>;
}

function configuration({ folder, port, authorityPort, zones }: Configured): string {
  return [
    'server:',
    '  interface: 127.0.0.1',
    `  port: ${port}`,
    '  num-threads: 1',
    '  username: ""',
    '  chroot: ""',
    `  directory: "${folder}"`,
    '  use-syslog: no',
    '  module-config: "validator iterator"',
    `  trust-anchor-file: "${join(folder, 'root.ds')}"`,
    '  do-not-query-localhost: no',
    '  local-zone: "test." nodefault',
    'remote-control:',
    '  control-enable: no',
    ...['.', ...Object.keys(zones)].flatMap((zone) => [
      'stub-zone:',
      `  name: "${zone}"`,
      `  stub-addr: 127.0.0.1@${authorityPort}`,
    ]),
    '',
  ].join('\n');
}
