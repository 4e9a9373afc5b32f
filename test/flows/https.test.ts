/** HTTPS with the operator's certificate, by real TLS clients. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import type { IncomingHttpHeaders } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { freePort } from '../harness/child.ts';
import { temporaryFolder } from '../harness/store.ts';

const HOSTNAME = 'mail.postern.test';

interface Secured {
  readonly world: TestWorld;
  /** Of the listener that speaks TLS. */
  readonly port: number;
  readonly files: { readonly cert: string; readonly key: string };
  /** Of the certificate that was there at the start. */
  readonly ca: string;
}

async function startSecured(http: object = {}): Promise<Secured> {
  const folder = await temporaryFolder();
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  const { cert, key } = selfSignedCertificate([HOSTNAME], Date.now());
  await writeFile(files.cert, cert);
  await writeFile(files.key, key);
  const listen = ['127.0.0.1:0', 'https://127.0.0.1:0'];
  const world = await startTestWorld({
    server: { tls: { mode: 'files', files }, server: { http: { listen, ...http } } },
  });
  return { world, files, ca: cert, port: world.daemon.addresses?.tcp[1]?.port ?? 0 };
}

interface Asked {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Trusts this certificate alone, and checks its name. */
function askSecurely({ port, ca }: Pick<Secured, 'port' | 'ca'>, path: string, body?: string): Promise<Asked> {
  const method = body === undefined ? 'GET' : 'POST';
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'text/html, */*' };
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port, path, ca, servername: HOSTNAME, method, headers, agent: false });
    asking.on('error', reject).on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    asking.end(body);
  });
}

async function shakeHands(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

test('a form posted by TLS is delivered, and its page is served there', async () => {
  const secured = await startSecured();
  const page = await askSecurely(secured, '/example.test/contact');
  expect(page).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } });
  expect(page.text).toContain(`https://127.0.0.1:${secured.port}/example.test/contact`);
  const posted = await askSecurely(secured, '/example.test/contact', 'message=by+TLS');
  expect(posted.status).toBe(200);
  const [mail] = (await secured.world.caught(1)).list();
  expect(mail).toBeDefined();
});

test('TLS 1.2 and 1.3 are spoken, older ones are not, and clear text is hung up on', async () => {
  const { port } = await startSecured();
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = await shakeHands(port, { maxVersion: version });
    expect(socket.getProtocol()).toBe(version);
    socket.destroy();
  }
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' } as const;
  await expect(shakeHands(port, old)).rejects.toThrow('alert protocol version');
  await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow('fetch failed');
});

test('a renewed certificate is shown after a reload, a broken one is not and nothing is cut', async () => {
  const { world, port, files } = await startSecured();
  const open = await shakeHands(port);
  const renewed = selfSignedCertificate([HOSTNAME, 'renewed.test'], Date.now());
  await writeFile(files.cert, renewed.cert);
  await writeFile(files.key, renewed.key);
  await world.daemon.reload();
  const next = await shakeHands(port);
  expect(next.getPeerX509Certificate()?.subjectAltName).toContain('renewed.test');
  await writeFile(files.cert, 'broken');
  await world.daemon.reload();
  const after = await shakeHands(port);
  expect(after.getPeerX509Certificate()?.subjectAltName).toContain('renewed.test');
  open.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const [answer] = (await once(open, 'data')) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 /);
  for (const socket of [open, next, after]) socket.destroy();
});

test('a client that begins to shake hands and says no more does not hold up the end', async () => {
  const { world, port } = await startSecured();
  const silent = connectTcp(port, '127.0.0.1');
  await once(silent, 'connect');
  silent.write(Buffer.from('16030100', 'hex'));
  const cut = once(silent, 'close');
  await world.daemon.close();
  await expect(cut).resolves.toBeDefined();
});

test('port 443 is left alone without a certificate', async () => {
  const port = await freePort();
  const listen = [`127.0.0.1:${port}`, '127.0.0.1:443'];
  const world = await startTestWorld({ server: { server: { http: { listen } } } });
  expect(world.daemon.addresses?.tcp).toEqual([{ host: '127.0.0.1', port }]);
});

test('a page asked for in clear text is by TLS, where there is a base_url to find it; forms, programs and proxies stay', async () => {
  const { world } = await startSecured({ base_url: `https://${HOSTNAME}` });
  const browser = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
  function ask(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(world.url + path, { redirect: 'manual', ...init });
  }
  const page = await ask('/example.test/contact?a=b', { headers: browser });
  expect(page.status).toBe(307);
  expect(page.headers.get('location')).toBe(`https://${HOSTNAME}/example.test/contact?a=b`);
  expect((await ask('/healthz')).status).toBe(200);
  expect((await ask('/example.test/contact', { headers: { ...browser, 'X-Forwarded-Proto': 'https' } })).status).toBe(
    405,
  );
  const body = new URLSearchParams({ message: 'in clear text' });
  const posted = await ask('/example.test/contact', { method: 'POST', body, headers: browser });
  expect(posted.status).toBe(200);
});
