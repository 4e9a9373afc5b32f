import { expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { findRoute, type Route } from '../../src/smtp-client/route.ts';
import { startTestDns } from '../harness/dns.ts';
import { configOf } from '../harness/queue.ts';

const RECORDS = [
  { name: 'a.test', type: 'MX', value: '10 mx1.host.test' },
  { name: 'a.test', type: 'MX', value: '10 mx2.host.test' },
  { name: 'b.test', type: 'MX', value: '20 mx2.host.test' },
  { name: 'b.test', type: 'MX', value: '5 mx1.host.test' },
  { name: 'mx1.host.test', type: 'A', value: '127.0.0.1' },
  { name: 'mx2.host.test', type: 'A', value: '127.0.0.2' },
  { name: 'smart.test', type: 'A', value: '127.0.0.3' },
] as const;

async function routes(delivery: object, ...destinations: string[]): Promise<Route[]> {
  const { resolver } = await startTestDns([...RECORDS]);
  const config = configOf({ delivery });
  const options = { resolver, config, ownAddresses: () => false, random: () => 0 };
  return Promise.all(destinations.map((destination) => findRoute(destination, options)));
}

test('domains with the same mail hosts share a pool, in whatever order they prefer them', async () => {
  const [a, b] = await routes({}, 'a.test', 'b.test');
  expect(a).toMatchObject({ kind: 'nextHop', nextHop: { port: 25, tls: 'opportunistic' } });
  expect(b).toMatchObject({ nextHop: { hosts: [{ name: 'mx1.host.test' }, { name: 'mx2.host.test' }] } });
  expect(a?.kind === 'nextHop' && b?.kind === 'nextHop' && a.nextHop.pool === b.nextHop.pool).toBe(true);
});

test.each([
  ['smtp://smart.test', { port: 25, tls: 'opportunistic' }, undefined],
  ['smtp://me:pw@smart.test', { port: 587, tls: 'opportunistic' }, { user: 'me', password: 'pw' }],
  ['smtps://a%40b:c%2Fd@smart.test', { port: 465, tls: 'implicit' }, { user: 'a@b', password: 'c/d' }],
  ['smtp://smart.test:2525', { port: 2525, tls: 'opportunistic' }, undefined],
])('the smarthost %s', async (relay, nextHop, credentials) => {
  const [route] = await routes({ relay }, 'nowhere.test');
  expect(route).toMatchObject({
    kind: 'nextHop',
    nextHop: { ...nextHop, hosts: [{ name: 'smart.test', addresses: ['127.0.0.3'] }] },
  });
  expect(route?.kind === 'nextHop' ? route.nextHop.credentials : undefined).toEqual(credentials);
});

test.each([
  ['127.0.0.9:26', { port: 26, hosts: [{ name: '127.0.0.9', addresses: ['127.0.0.9'] }] }],
  ['[::1]:26', { port: 26, hosts: [{ name: '::1', addresses: ['::1'] }] }],
  ['smart.test:26', { port: 26, hosts: [{ name: 'smart.test', addresses: ['127.0.0.3'] }] }],
])('the route %s comes before the smarthost, on private networks as well', async (route, nextHop) => {
  const [to] = await routes(
    { allow_private_networks: false, relay: 'smtp://smart.test', routes: { 'a.test': route } },
    'a.test',
  );
  expect(to).toMatchObject({ kind: 'nextHop', nextHop });
});

const OWN_LISTENER = { host: '127.0.0.9', port: 2525, mark: 'secret' };

test.each([
  ['our own listener', [], OWN_LISTENER, { port: 2525, hosts: [{ addresses: ['127.0.0.9'] }], mark: 'secret' }],
  [
    'our host name, where the listener is elsewhere',
    [],
    undefined,
    { port: 25, hosts: [{ addresses: ['127.0.0.3'] }] },
  ],
  [
    'our host name, where a proxy stands before the listener',
    ['127.0.0.0/8'],
    OWN_LISTENER,
    { port: 25, hosts: [{ name: 'smart.test' }] },
  ],
])('mail whose mail hosts are we goes to %s', async (_where, proxy_protocol, place, nextHop) => {
  const own = ['taken.test', 'other.test'].map((name) => ({ name, type: 'MX', value: '10 smart.test' }) as const);
  const { resolver } = await startTestDns([...RECORDS, ...own]);
  const config = serverSchema.parse({
    server: { hostname: 'smart.test', operator: 'ops@example.net' },
    inbound: { proxy_protocol },
  });
  const loopback = { takes: (domain: string) => Promise.resolve(domain === 'taken.test'), place: () => place };
  const options = { resolver, config, ownAddresses: () => false, random: () => 0, loopback };
  const route = await findRoute('taken.test', options);
  expect(route).toMatchObject({ kind: 'nextHop', nextHop });
  // Nobody else learns of the mark.
  if (route.kind === 'nextHop' && route.nextHop.port !== OWN_LISTENER.port) expect(route.nextHop.mark).toBeUndefined();
  // Nobody here knows what would become of it.
  const loop = { kind: 'permanent', reply: expect.stringMatching(/^550 5\.4\.6 /) };
  expect(await findRoute('other.test', options)).toEqual(loop);
});
