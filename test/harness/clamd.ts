/**
 * Debian's clamd with one signature, that of the EICAR test file; and one of our own that speaks its protocol as far as
 * INSTREAM goes and refuses a stream that is longer than its limit, as clamd does. What that does beyond is for the tests:
 * to be silent, or to go away.
 */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { startChild, untilReady } from './child.ts';
import { needPackage } from './debian.ts';
import { temporaryFolder } from './store.ts';

/** The test file of eicar.org, in two parts, so that no scanner finds it here. */
export const EICAR = ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$', 'EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'].join('');

/** Starts Debian's clamd, which ends with the test. Resolves to its place, as `uploads.clamd` names it. */
export async function startDebianClamd(): Promise<string> {
  needPackage('/usr/sbin/clamd', 'clamav-daemon');
  const folder = await temporaryFolder();
  const signatures = join(folder, 'signatures');
  const path = join(folder, 'clamd.ctl');
  await mkdir(signatures);
  // Its own are downloaded, which needs the net.
  await writeFile(join(signatures, 'eicar.ndb'), `Eicar-Test:0:*:${Buffer.from(EICAR).toString('hex')}\n`);
  const file = join(folder, 'clamd.conf');
  await writeFile(file, `DatabaseDirectory ${signatures}\nLocalSocket ${path}\nForeground yes\nUser root\n`);
  const child = await startChild('/usr/sbin/clamd', ['-c', file]);
  onTestFinished(() => child.stop());
  await untilReady(child, () =>
    access(path).then(
      () => true,
      () => false,
    ),
  );
  return `unix:${path}`;
}

export interface FakeClamd {
  /** As `uploads.clamd` names it. */
  readonly place: string;
  /** What was scanned, in the order received. */
  readonly streams: Buffer[];
  /** Connections that are open. */
  open(): number;
}

interface Behaviour {
  readonly kind?: 'unix' | 'tcp';
  /** `silent`: takes everything and never replies. `gone`: closes every connection at once. */
  readonly fault?: 'silent' | 'gone';
  /** StreamMaxLength, bytes. */
  readonly limit?: number;
}

const COMMAND = Buffer.from('zINSTREAM\0');

/** Starts it; it ends with the test. */
export async function startClamd({
  kind = 'unix',
  fault,
  limit = 25 * 1024 * 1024,
}: Behaviour = {}): Promise<FakeClamd> {
  const streams: Buffer[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
    if (fault === 'gone') return void socket.destroy();
    let received = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (fault === 'silent') return;
      const content = contentOf(received);
      if (content === undefined) return;
      if (content.length > limit) return void socket.end('INSTREAM size limit exceeded. ERROR\0');
      streams.push(content);
      socket.end(content.includes(EICAR) ? 'stream: Eicar-Signature FOUND\0' : 'stream: OK\0');
    });
  });
  const path = join(await temporaryFolder(), 'clamd.ctl');
  server.listen(kind === 'unix' ? { path } : { host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { place: kind === 'unix' ? `unix:${path}` : `127.0.0.1:${port}`, streams, open: () => sockets.size };
}

/** The stream once it is complete. Throws where the client does not follow the protocol. */
function contentOf(received: Buffer): Buffer | undefined {
  if (received.length < COMMAND.length) return undefined;
  if (!received.subarray(0, COMMAND.length).equals(COMMAND)) throw new Error('no INSTREAM');
  const chunks: Buffer[] = [];
  for (let at = COMMAND.length; at + 4 <= received.length;) {
    const length = received.readUInt32BE(at);
    if (length === 0) return Buffer.concat(chunks);
    chunks.push(received.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return undefined;
}
