import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import type { Answer } from '../../src/dns/resolver.ts';
import { createHttpClient, type HttpClientOptions } from '../../src/dns/guarded-fetch.ts';

/** A server on loopback that counts whoever connects, before it says a word. */
async function listen(answer: RequestListener = (_request, response) => response.end('thanks')) {
  let connections = 0;
  const server = createServer(answer);
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

/** Names by what DNS says of them, question after question. */
function client(names: Record<string, string[][]>, options: Partial<HttpClientOptions> = {}) {
  const asked: string[] = [];
  const resolver = {
    addresses: (name: string): Promise<Answer<string>> => {
      asked.push(name);
      const answers = names[name];
      const records = answers !== undefined && answers.length > 1 ? answers.shift() : answers?.[0];
      return Promise.resolve(records === undefined ? { kind: 'nxdomain' } : { kind: 'found', records });
    },
  };
  return {
    asked,
    ...createHttpClient({ resolver, allowPrivate: () => false, userAgent: 'Postern/test', ...options }),
  };
}

const post = (url: string) => ({ method: 'POST', url, body: '{}' }) as const;

describe('a private target gets no packet', () => {
  test.each([
    ['an address', 'http://127.0.0.1:PORT/'],
    ['as a number', 'http://2130706433:PORT/'],
    ['in hexadecimal', 'http://0x7f.1:PORT/'],
    ['in octal', 'http://0177.0.0.1:PORT/'],
    ['mapped into IPv6', 'http://[::ffff:127.0.0.1]:PORT/'],
    ['through NAT64', 'http://[64:ff9b::7f00:1]:PORT/'],
    ['IPv6 loopback', 'http://[::1]:PORT/'],
    ['unspecified', 'http://0.0.0.0:PORT/'],
    ['link-local', 'http://169.254.169.254:PORT/latest/meta-data'],
    ['with a dot at its end', 'http://127.0.0.1.:PORT/'],
    ['localhost', 'http://localhost:PORT/'],
    ['a name below localhost', 'http://a.localhost.:PORT/'],
    ['a name with a private address', 'http://inside.example:PORT/'],
    ['a name with a public and a private address', 'http://both.example:PORT/'],
    ['full-width digits', 'http://１２７.0.0.1:PORT/'],
  ])('%s', async (_what, target) => {
    const { port, connections } = await listen();
    const names = { 'inside.example': [['127.0.0.1']], 'both.example': [['93.184.215.14', '127.0.0.1']] };
    const url = target.replace('PORT', String(port));
    const { request, objection } = client(names);
    expect(await request(post(url))).toEqual({ kind: 'refused', reason: 'leads to a private network' });
    expect(await objection(url)).toBe('leads to a private network');
    expect(connections()).toBe(0);
  });

  test('a name that rebinds to one', async () => {
    const { port, connections } = await listen();
    const { request, objection } = client({ 'rebind.example': [['93.184.215.14'], ['127.0.0.1']] });
    const url = `http://rebind.example:${port}/`;
    expect(await objection(url)).toBeUndefined();
    expect(await request(post(url))).toMatchObject({ kind: 'refused' });
    expect(connections()).toBe(0);
  });
});

test.each([
  ['ftp://example.com/', 'must be an http or https URL'],
  ['not an address', 'must be an http or https URL'],
  ['http://', 'must be an http or https URL'],
  ['http://user:secret@example.com/', 'must not contain a user name or password'],
  ['http://example.com:25/', 'must not use port 25'],
])('%s %s', async (url, reason) => {
  const { request, asked } = client({ 'example.com': [['93.184.215.14']] });
  expect(await request(post(url))).toEqual({ kind: 'refused', reason });
  expect(asked).toEqual([]);
});

test('with private networks allowed, the one look-up decides what is dialled, by whatever name', async () => {
  const heard: IncomingMessage[] = [];
  const { port } = await listen((request, response) => {
    heard.push(request);
    response.writeHead(202).end('taken');
  });
  const names = { 'hooks.example': [['127.0.0.1'], ['192.0.2.1']] };
  const { request, asked } = client(names, { allowPrivate: () => true });
  const answered = await request({ ...post(`http://hooks.example:${port}/in?a=b`), headers: { 'x-one': '1' } });
  expect(answered).toEqual({
    kind: 'answered',
    status: 202,
    headers: expect.any(Object),
    retryAfter: undefined,
    text: 'taken',
  });
  expect(asked).toEqual(['hooks.example']);
  expect(heard.map(({ method, url, headers }) => [method, url, headers.host, headers['user-agent']])).toEqual([
    ['POST', '/in?a=b', `hooks.example:${port}`, 'Postern/test'],
  ]);
  expect(heard[0]?.headers['x-one']).toBe('1');
  expect(await request(post(`http://localhost:${port}/`))).toMatchObject({ kind: 'answered', status: 202 });
});

test('its own listeners are refused even then', async () => {
  const { port, connections } = await listen();
  const isOwn = (address: string, at: number) => address === '127.0.0.1' && at === port;
  const { request } = client({}, { allowPrivate: () => true, isOwn });
  expect(await request(post(`http://127.0.0.1:${port}/`))).toEqual({
    kind: 'refused',
    reason: 'leads back to this server',
  });
  expect(connections()).toBe(0);
});

test('a redirect is an answer and is not followed', async () => {
  const { port, connections } = await listen((_request, response) =>
    response.writeHead(302, { Location: '/elsewhere', 'Retry-After': '7' }).end(),
  );
  const { request } = client({}, { allowPrivate: () => true });
  expect(await request(post(`http://127.0.0.1:${port}/`))).toEqual({
    kind: 'answered',
    status: 302,
    headers: expect.any(Object),
    retryAfter: '7',
    text: '',
  });
  expect(connections()).toBe(1);
});

test('a long answer is read to 64 KiB, and one that drips ends with the time', async () => {
  const { port } = await listen((request, response) => {
    if (request.url === '/long') for (let i = 0; i < 1000; i++) response.write('x'.repeat(1024));
    else if (request.url === '/drip') response.write('begun');
  });
  const { request } = client({}, { allowPrivate: () => true, wholeMs: 300 });
  const long = await request(post(`http://127.0.0.1:${port}/long`));
  expect(long.kind === 'answered' && long.text.length).toBe(64 * 1024);
  expect(await request(post(`http://127.0.0.1:${port}/drip`))).toMatchObject({ kind: 'answered', text: 'begun' });
  expect(await request(post(`http://127.0.0.1:${port}/silent`))).toEqual({
    kind: 'failed',
    reason: 'no answer within 0.3 s',
  });
});

test('what cannot be reached says why', async () => {
  const { request, objection } = client({}, { allowPrivate: () => true });
  expect(await request(post('http://nowhere.example/'))).toEqual({
    kind: 'failed',
    reason: 'nowhere.example has no address',
  });
  expect(await objection('http://nowhere.example/')).toBeUndefined();
  expect(await request(post('http://127.0.0.1:1999/'))).toMatchObject({
    kind: 'failed',
    reason: expect.stringContaining('ECONNREFUSED'),
  });
});

test('over TLS the name is what is asked for and verified, whatever address is dialled', async () => {
  const asked: string[] = [];
  const server = createTlsServer({
    ...selfSignedCertificate(['hooks.example'], Date.now()),
    SNICallback: (name, done) => {
      asked.push(name);
      done(null);
    },
  });
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { request } = client({ 'hooks.example': [['127.0.0.1']] }, { allowPrivate: () => true });
  expect(await request(post(`https://hooks.example:${port}/`))).toMatchObject({
    kind: 'failed',
    reason: expect.stringContaining('self-signed certificate'),
  });
  expect(asked).toEqual(['hooks.example']);
});
