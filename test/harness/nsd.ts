/** NSD, an authoritative name server that shares no code with us, on a port of 127.0.0.1. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promises as dns } from 'node:dns';
import { startChild, untilReady } from './child.ts';
import { needPackage } from './debian.ts';

export interface Nsd {
  /** Fits `dns.servers`. */
  readonly address: string;
  close(): Promise<void>;
}

export interface NsdOptions {
  readonly port: number;
  /** Zone to its records in the syntax of zone files, without SOA and NS. */
  readonly zones: Readonly<Record<string, readonly string[]>>;
  /** Zone to the text of its whole file, such as a signed one. */
  readonly files?: Readonly<Record<string, string>>;
  /** Zones of which it is a secondary that never got them: it answers SERVFAIL. */
  readonly expired: readonly string[];
}

/** Serves the zones; UDP and TCP. */
export async function startNsd({ port, zones, files = {}, expired }: NsdOptions): Promise<Nsd> {
  needPackage('/usr/sbin/nsd', 'nsd');
  const folder = await mkdtemp(join(tmpdir(), 'postern-nsd-'));
  for (const [name, records] of Object.entries(zones)) {
    await writeFile(join(folder, `${name}.zone`), zoneFile(name, records));
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, `${name}.zone`), text);
  await writeFile(join(folder, 'nsd.conf'), configuration({ folder, port, zones, files, expired }));
  const child = await startChild('/usr/sbin/nsd', ['-d', '-c', join(folder, 'nsd.conf')]);
  const address = `127.0.0.1:${port}`;
  const asking = new dns.Resolver({ timeout: 200, tries: 1 });
  asking.setServers([address]);
  const [first = ''] = Object.keys(zones);
  try {
    await untilReady(child, () =>
      asking.resolveSoa(first).then(
        () => true,
        () => false,
      ),
    );
  } catch (error) {
    await close();
    throw error;
  }
  return { address, close };

  async function close(): Promise<void> {
    await child.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The text of a zone's file. */
export function zoneFile(name: string, records: readonly string[]): string {
  const head = [
    `$ORIGIN ${name === '.' ? '' : name}.`,
    '$TTL 60',
    '@ SOA ns.nsd.test. ops.nsd.test. 1 3600 600 86400 60',
    '@ NS ns.nsd.test.',
  ];
  return [...head, ...records, ''].join('\n');
}

function configuration({ folder, port, zones, files = {}, expired }: NsdOptions & { readonly folder: string }): string {
  return [
    'server:',
    `  ip-address: 127.0.0.1`,
    `  port: ${port}`,
    '  server-count: 1',
    '  username: ""',
    '  database: ""',
    `  zonesdir: "${folder}"`,
    `  pidfile: "${join(folder, 'nsd.pid')}"`,
    `  xfrdfile: "${join(folder, 'xfrd.state')}"`,
    `  zonelistfile: "${join(folder, 'zone.list')}"`,
    `  xfrdir: "${folder}"`,
    '  rrl-ratelimit: 0',
    'remote-control:',
    '  control-enable: no',
    ...Object.keys({ ...zones, ...files }).flatMap((name) => [
      'zone:',
      `  name: "${name}"`,
      `  zonefile: "${name}.zone"`,
    ]),
    // Nobody listens on port 1.
    ...expired.flatMap((name) => [
      'zone:',
      `  name: "${name}"`,
      `  zonefile: "${name}.secondary"`,
      '  request-xfr: AXFR 127.0.0.1@1 NOKEY',
      '  allow-notify: 127.0.0.1 NOKEY',
    ]),
    '',
  ].join('\n');
}

/** A TXT record of one text, cut into strings of `size` characters, as consoles cut it. */
export function txtRecord(name: string, text: string, size = 255): string {
  const parts = Array.from({ length: Math.max(1, Math.ceil(text.length / size)) }, (_, i) =>
    text.slice(i * size, (i + 1) * size),
  );
  return `${name} TXT ${parts.map((part) => `"${part}"`).join(' ')}`;
}
