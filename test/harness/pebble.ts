/** Pebble, the ACME server that Let's Encrypt's authors test clients against, on loopback; and a proxy before it that lies. */
import { writeFile } from 'node:fs/promises';
import { createServer, get, request } from 'node:https';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { answers, freePort, startChild, untilReady } from './child.ts';
import { needPackage } from './debian.ts';
import { startTestDns } from './dns.ts';
import type { Ports } from './secured.ts';
import { temporaryFolder } from './store.ts';

export interface Pebble {
  readonly directory: string;
  /** The file with the certificate that its own HTTPS is checked with. */
  readonly ca: string;
  /** PEM of the root of what it issues. */
  root(): Promise<string>;
}

export interface PebbleOptions {
  /** Where it comes for proofs. */
  readonly ports: Ports;
  /** What it finds in DNS. */
  readonly zone: readonly ZoneRecord[];
  /** `PEBBLE_…` */
  readonly env?: Readonly<Record<string, string>>;
  /** Its external accounts: names and keys. */
  readonly accounts?: Readonly<Record<string, string>>;
  /** Replaces the text of an answer of 200 at this path. */
  readonly lie?: (path: string, text: string) => string;
}

/** Starts it; it ends with the test. */
export async function startPebble({ ports, zone, env, accounts, lie }: PebbleOptions): Promise<Pebble> {
  needPackage('/usr/bin/pebble', 'pebble');
  const folder = await temporaryFolder();
  const { server: dns } = await startTestDns(zone);
  const [port, management] = [await freePort(), await freePort()];
  const own = selfSignedCertificate(['localhost'], Date.now());
  const ca = join(folder, 'cert.pem');
  await writeFile(ca, own.cert);
  await writeFile(join(folder, 'key.pem'), own.key);
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: ca,
    privateKey: join(folder, 'key.pem'),
    httpPort: ports.plain,
    tlsPort: ports.secure,
    externalAccountBindingRequired: accounts !== undefined,
    externalAccountMACKeys: accounts ?? {},
  };
  const config = join(folder, 'pebble.json');
  await writeFile(config, JSON.stringify({ pebble }));
  const child = await startChild('/usr/bin/pebble', ['-strict', '-config', config, '-dnsserver', dns.address], {
    env: { ...process.env, PEBBLE_VA_NOSLEEP: '1', ...env },
  });
  onTestFinished(() => child.stop());
  await untilReady(child, async () => (await answers(port)) && answers(management));
  const front = lie === undefined ? port : await startLiar(port, own, lie);
  return {
    directory: `https://localhost:${front}/dir`,
    ca,
    root: () => read(`https://127.0.0.1:${management}/roots/0`),
  };
}

function read(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { rejectUnauthorized: false }, (response) => {
      textOf(response).then(resolve, reject);
    }).on('error', reject);
  });
}

/** A proxy that changes what the server says. It keeps Host, by which the server names its resources. */
async function startLiar(
  port: number,
  own: { readonly cert: string; readonly key: string },
  lie: (path: string, text: string) => string,
): Promise<number> {
  const proxy = createServer(own, (incoming, outgoing) => {
    const { method, url: path = '', headers } = incoming;
    const forwarded = request({ port, method, path, headers, rejectUnauthorized: false }, (response) => {
      const { 'content-length': _length, ...kept } = response.headers;
      const { statusCode = 502 } = response;
      void textOf(response).then((text) => {
        outgoing.writeHead(statusCode, kept).end(statusCode === 200 ? lie(path, text) : text);
      });
    });
    forwarded.on('error', () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  const at = await freePort();
  await new Promise<void>((done) => void proxy.listen(at, '127.0.0.1', done));
  onTestFinished(() => {
    proxy.closeAllConnections();
    return new Promise((done) => void proxy.close(() => done()));
  });
  return at;
}
