/** The challenge of certificate authorities within the TLS handshake, beside visitors on the same port. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, createServer, type AddressInfo, type Socket } from 'node:net';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { insertChallenge } from '../../src/store/certificates.ts';
import { startAcmeServer } from '../harness/acme.ts';
import { HOSTNAME, startSecured, type Secured } from '../harness/secured.ts';

async function start(): Promise<Secured> {
  const { directory } = await startAcmeServer({ hang: true });
  return startSecured({ acme: { directory } });
}

async function shake(options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', rejectUnauthorized: false, servername: HOSTNAME, ...options });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

const ALPN = { ALPNProtocols: ['acme-tls/1'] };

test('an authority gets the proof of the newest challenge, and nothing else', async () => {
  const { world, port, clock } = await start();
  const { store } = world.daemon;
  for (const [token, age] of [
    ['old', 1000],
    ['new', 0],
  ] as const)
    await store.write([
      insertChallenge({ token, name: HOSTNAME, response: `${token}.x`, created_at: clock.now() - age }),
    ]);
  const socket = await shake({ port, ...ALPN, servername: HOSTNAME.toUpperCase() });
  expect(socket.alpnProtocol).toBe('acme-tls/1');
  const certificate = socket.getPeerCertificate();
  expect(certificate.subjectaltname).toBe(`DNS:${HOSTNAME}`);
  const proof = createHash('sha256').update('new.x').digest('hex');
  expect(certificate.raw.toString('hex')).toContain(`06082b0601050507011f0101ff04220420${proof}`);
  let text = '';
  socket.on('data', (data) => (text += String(data)));
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(socket, 'close');
  expect(text).toBe('');
});

test('without a challenge there is no handshake, and visitors are served as before', async () => {
  const { port } = await start();
  await expect(shake({ port, ...ALPN })).rejects.toThrow(/ECONNRESET|alert|disconnected/i);
  expect((await shake({ port, ALPNProtocols: ['http/1.1'] })).getPeerCertificate().subject.CN).toBe(HOSTNAME);
});

async function drip(from: Socket, to: Socket): Promise<void> {
  for await (const chunk of from) {
    if (!Buffer.isBuffer(chunk)) continue;
    for (const byte of chunk) {
      to.write(Buffer.of(byte));
      await setImmediate();
    }
  }
}

/** A way to the port on which each byte travels alone. */
async function startDripping(port: number): Promise<number> {
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connectTcp(port, '127.0.0.1').setNoDelay();
    for (const socket of [client, server]) sockets.add(socket.on('error', () => undefined));
    server.pipe(client);
    drip(client, server).catch(() => undefined);
  });
  await new Promise<void>((done) => void proxy.listen(0, '127.0.0.1', done));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((done) => void proxy.close(() => done()));
  });
  return (proxy.address() as AddressInfo).port;
}

test('a ClientHello may come in pieces, and a request right behind the handshake', async () => {
  const { port } = await start();
  const socket = await shake({ port: await startDripping(port) });
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  let text = '';
  socket.on('data', (data) => (text += String(data)));
  await once(socket, 'close');
  expect(text).toMatch(/^HTTP\/1\.1 200 /);
});

test.each([
  ['clear text', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['half a ClientHello', '\u0016\u0003\u0001\u0002'],
])('%s and the end of the connection: hung up on, and the next one is served', async (_what, bytes) => {
  const { port } = await start();
  const socket = connectTcp(port, '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.end(Buffer.from(bytes, 'latin1'));
  await once(socket, 'close');
  expect((await shake({ port })).encrypted).toBe(true);
});
