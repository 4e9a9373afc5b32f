import { once } from 'node:events';
import { createServer, connect, type Server, Socket } from 'node:net';
import { IncomingMessage } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { clientAddress, splitTarget } from '../../src/http/context.ts';
import { Connections } from '../../src/http/server.ts';
import { watchFreeSpace } from '../../src/store/sqlite.ts';
import { parseListenAddress } from '../../src/lib/sockets.ts';
import { parseFormPath } from '../../src/http/forms/request.ts';
import { silentLog } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';
import { temporaryFolder } from '../harness/store.ts';

describe('the client’s address', () => {
  const from = (remote: string, forwarded: string | undefined, trusted: string[]) => {
    const request = new IncomingMessage(new Socket());
    if (forwarded !== undefined) request.headers['x-forwarded-for'] = forwarded;
    return clientAddress(request, remote, trusted);
  };

  test.each([
    ['no proxy', '203.0.113.7', undefined, [], '203.0.113.7'],
    ['IPv4 in IPv6', '::ffff:203.0.113.7', undefined, [], '203.0.113.7'],
    ['a stranger’s word', '203.0.113.7', '198.51.100.1', ['10.0.0.0/8'], '203.0.113.7'],
    ['a trusted proxy’s', '10.0.0.1', '198.51.100.1', ['10.0.0.0/8'], '198.51.100.1'],
    ['what the client made up is left of it', '10.0.0.1', '1.2.3.4, 198.51.100.1', ['10.0.0.0/8'], '198.51.100.1'],
    ['two trusted proxies', '::ffff:10.0.0.1', '198.51.100.1,10.0.0.2', ['10.0.0.0/8'], '198.51.100.1'],
    ['nothing but trusted ones', '10.0.0.1', '10.0.0.3, 10.0.0.2', ['10.0.0.0/8'], '10.0.0.3'],
    ['IPv6', '2001:db8::1', '2001:db8:1::5', ['2001:db8::/64'], '2001:db8:1::5'],
    ['rubbish', '10.0.0.1', '198.51.100.1, unknown', ['10.0.0.0/8'], '10.0.0.1'],
    ['a trusted proxy that says nothing', '10.0.0.1', undefined, ['10.0.0.0/8'], '10.0.0.1'],
  ])('%s', (_, remote, forwarded, trusted, expected) => {
    expect(from(remote, forwarded, trusted)).toBe(expected);
  });
});

test.each([
  ['/example.com/contact', { kind: 'domain', domain: 'example.com', key: 'contact' }],
  ['/v1/example.com/contact', { kind: 'domain', domain: 'example.com', key: 'contact' }],
  ['/v1/example.com/send', { kind: 'domain', domain: 'example.com', key: undefined }],
  ['/example.com/send', { kind: 'domain', domain: 'example.com', key: 'send' }],
  ['/m%C3%BCller.de/a%20b', { kind: 'domain', domain: 'müller.de', key: 'a b' }],
  ['/api/example.com/contact', undefined],
  ['/example.com/', undefined],
  ['/example.com/a/b', undefined],
  ['/example.com/a%2Fb', undefined],
  ['/x%2Fexample.com/a', undefined],
  ['/.well-known/acme', undefined],
  ['/c/contact', undefined],
  ['/c/site/contact', { kind: 'collection', collection: 'site', key: 'contact' }],
  ['/c/site/contact/', { kind: 'collection', collection: 'site', key: 'contact' }],
  ['/c/site/contact/more', undefined],
  ['/v1/c/site/contact', undefined],
  ['/f/frm_01kdvdna00dygrdbn7kp1hvk3p', { kind: 'own', id: 'frm_01kdvdna00dygrdbn7kp1hvk3p' }],
  ['/f/abcdef', { kind: 'own', id: 'abcdef' }],
  ['/f/example.com/contact', { kind: 'domain', id: 'example.com/contact', domain: 'example.com', key: 'contact' }],
  ['/f/c%2Fsite%2Fcontact', { kind: 'collection', id: 'c/site/contact', collection: 'site', key: 'contact' }],
  ['/f/', undefined],
  ['/v1/f/abcdef', undefined],
  ['/submit/contact', { kind: 'named', name: 'contact' }],
  ['/submit/frm_01kdvdna00dygrdbn7kp1hvk3p', { kind: 'own', id: 'frm_01kdvdna00dygrdbn7kp1hvk3p' }],
  ['/api/submit/contact', undefined],
  ['/%/a', undefined],
  ['/', undefined],
])('the form’s address %s', (path, expected) => {
  expect(parseFormPath(path)).toEqual(expected);
});

test.each([
  ['/a/b?c=d?e', '/a/b', 'c=d?e'],
  ['http://x:80/a?b', '/a', 'b'],
  ['http://x', '/', ''],
  ['*', '*', ''],
])('the request target %s', (target, path, query) => {
  expect(splitTarget(target)).toEqual({ path, query });
});

test('addresses to listen on', () => {
  expect(parseListenAddress('[::]:80')).toEqual({ host: '::', port: 80 });
  expect(parseListenAddress('127.0.0.1:0')).toEqual({ host: '127.0.0.1', port: 0 });
  expect(parseListenAddress('localhost:8080')).toEqual({ host: 'localhost', port: 8080 });
});

test('with too many connections, the client that has most of them loses its oldest', async () => {
  const connections = new Connections(3);
  const server: Server = createServer((socket) => connections.add(socket)).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const open = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    await expect.poll(() => connections.count).toBeGreaterThan(0);
    return socket;
  };
  const other = await open('127.0.0.2');
  const first = await open('127.0.0.1');
  const second = await open('127.0.0.1');
  await expect.poll(() => connections.count).toBe(3);
  const third = await open('127.0.0.3');
  await once(first, 'close');
  await expect.poll(() => connections.count).toBe(3);
  expect([other, second, third].map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
});

test('free space is looked at once a second at most, and known before the first request', async () => {
  const clock = testClock();
  const folder = await temporaryFolder();
  const space = watchFreeSpace(`${folder}/postern.db`, { clock, log: silentLog });
  expect([space.below(1), space.below(Number.MAX_SAFE_INTEGER)]).toEqual([false, true]);
  expect(watchFreeSpace(undefined, { clock, log: silentLog }).below(Number.MAX_SAFE_INTEGER)).toBe(false);
});
