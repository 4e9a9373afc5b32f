/**
 * Certificates from Pebble, the ACME server that Let's Encrypt's authors test clients against: obtained, renewed and swapped
 * while clients come, and what the daemon does when it refuses, is slow, or lies.
 */
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { checkServerIdentity, connect, type ConnectionOptions } from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import { freePort } from '../harness/child.ts';
import { startPebble, type Pebble, type PebbleOptions } from '../harness/pebble.ts';
import { HOSTNAME, settled, shownAt, startSecured, statesOf, type Ports, type Secured } from '../harness/secured.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Pebble's certificates last five years. */
const LATE = 4 * 365 * DAY;
const OTHER = 'forms.postern.test';
const EAB = { key_id: 'kid-1', hmac_key: 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W' };

interface Certified extends Secured {
  readonly pebble: Pebble;
}

interface Settings extends Pick<PebbleOptions, 'env' | 'accounts' | 'lie'> {
  readonly acme?: object;
  /** To which of our ports Pebble cannot connect. */
  readonly blocked?: readonly (keyof Ports)[];
  readonly plain?: boolean;
}

async function start({ acme = {}, blocked = [], plain, ...options }: Settings = {}): Promise<Certified> {
  const ports = { plain: await freePort(), secure: await freePort() };
  const elsewhere = await freePort();
  const pebble = await startPebble({
    ...options,
    ports: { ...ports, ...Object.fromEntries(blocked.map((port) => [port, elsewhere])) },
    zone: [HOSTNAME, OTHER].map((name) => ({ name, type: 'A', value: '127.0.0.1' })),
  });
  const secured = await startSecured({
    ports,
    ...(plain === undefined ? {} : { plain }),
    acme: { directory: pebble.directory, ca: pebble.ca, ...acme },
    server: { limits: { smtp: { connections: 1000, per_address: 1000 } } },
  });
  return { ...secured, pebble };
}

interface Handshake {
  readonly port: number;
  /** The name that the client asks for; undefined: it asks for none, and expects the host name. */
  readonly servername: string | undefined;
  /** PEM of the only root that is trusted. */
  readonly ca: string;
}

/** The serial number of the certificate; rejects where the handshake fails or the certificate is not for the name. */
async function shakeHands({ servername, ca }: Handshake, options: ConnectionOptions): Promise<string> {
  const name = servername ?? HOSTNAME;
  const socket = connect({
    ca,
    ...(servername === undefined ? {} : { servername }),
    checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    ...options,
  });
  try {
    await once(socket, 'secureConnect');
    return socket.getPeerCertificate().serialNumber;
  } finally {
    socket.destroy();
  }
}

const byHttps = (handshake: Handshake) => shakeHands(handshake, { host: '127.0.0.1', port: handshake.port });

async function byStartTls(handshake: Handshake): Promise<string> {
  const socket: Socket = connectTcp(handshake.port, '127.0.0.1');
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  async function reply(): Promise<string> {
    for (;;) {
      const { value, done } = await lines.next();
      if (done === true) throw new Error('hung up');
      if (value[3] === ' ') return value;
    }
  }
  await reply();
  socket.write('EHLO client.test\r\n');
  await reply();
  socket.write('STARTTLS\r\n');
  expect(await reply()).toMatch(/^220 /);
  socket.removeAllListeners('data');
  return shakeHands(handshake, { socket });
}

interface Load {
  /** Serial numbers of the certificates that clients saw, by name and protocol. */
  readonly seen: ReadonlyMap<string, Set<string>>;
  readonly failed: readonly unknown[];
  count(): number;
  stop(): Promise<void>;
}

const loads: Load[] = [];
afterEach(() => Promise.all(loads.splice(0).map((load) => load.stop())));

/** Clients that come one after the other, four at a time for each name and for none, by HTTPS and SMTP. */
function startLoad({ world, port }: Secured, ca: string): Load {
  const smtp = world.daemon.smtp[0]?.port ?? 0;
  const seen = new Map<string, Set<string>>();
  const failed: unknown[] = [];
  let count = 0;
  let isOver = false;
  async function client(servername: string | undefined): Promise<void> {
    while (!isOver) {
      for (const [protocol, shake, at] of [
        ['HTTPS', byHttps, port],
        ['SMTP', byStartTls, smtp],
      ] as const) {
        const key = `${protocol} ${servername ?? 'without SNI'}`;
        const serials = seen.get(key) ?? new Set();
        seen.set(key, serials);
        await shake({ port: at, servername, ca }).then(
          (serial) => serials.add(serial),
          (error: unknown) => failed.push(error),
        );
        count++;
      }
    }
  }
  const clients = [HOSTNAME, OTHER, undefined].flatMap((name) => Array.from({ length: 4 }, () => client(name)));
  const load: Load = {
    seen,
    failed,
    count: () => count,
    async stop() {
      isOver = true;
      await Promise.all(clients);
    },
  };
  loads.push(load);
  return load;
}

async function obtained(secured: Secured): Promise<void> {
  for (const state of await settled(secured)) expect(state).toMatchObject({ failure: null });
}

const issuer = async (port: number) => (await shownAt(port)).issuer.CN;

test.each([
  ['HTTP-01', true],
  ['TLS-ALPN-01', false],
])('by %s: obtained, renewed and swapped under load, with no failed handshake', async (_challenge, plain) => {
  const accounts = { [EAB.key_id]: EAB.hmac_key };
  const secured = await start({ acme: { names: [OTHER], eab: EAB }, accounts, plain });
  const { clock, pebble } = secured;
  await obtained(secured);
  const load = startLoad(secured, await pebble.root());
  async function moreClients(): Promise<void> {
    const before = load.count();
    await expect.poll(() => load.count()).toBeGreaterThan(before + 40);
  }
  await moreClients();
  await clock.later(LATE);
  for (let i = 0; i < 4; i++) {
    await moreClients();
    await clock.later(2 * HOUR);
    // One after the other.
    await clock.later(0);
  }
  await moreClients();
  await load.stop();
  expect(load.failed).toEqual([]);
  expect([...load.seen.keys()].toSorted()).toEqual(
    ['HTTPS', 'SMTP'].flatMap((protocol) => [OTHER, HOSTNAME, 'without SNI'].map((name) => `${protocol} ${name}`)),
  );
  for (const serials of load.seen.values()) expect(serials.size).toBeGreaterThan(3);
});

test.each<[string, Record<string, string>]>([
  ['rejects good nonces', { PEBBLE_WFE_NONCEREJECT: '30' }],
  ['is slow with its visits', { PEBBLE_VA_NOSLEEP: '0', PEBBLE_VA_SLEEPTIME: '3' }],
])('an authority that %s: a certificate all the same', async (_what, env) => {
  const secured = await start({ env });
  await obtained(secured);
  expect(await issuer(secured.port)).toMatch(/^Pebble Intermediate/);
});

test.each<[string, Settings, RegExp]>([
  [
    'cannot reach this server',
    { blocked: ['plain', 'secure'] },
    /HTTP-01: .*connection refused.* port 80 .* TLS-ALPN-01: .* port 443 /,
  ],
  ['rejects every nonce', { env: { PEBBLE_WFE_NONCEREJECT: '100' } }, /nonce/],
  ['knows other accounts only', { accounts: { [EAB.key_id]: EAB.hmac_key } }, /Set tls\.acme\.eab/],
])('an authority that %s: the reason, and no storm', async (_what, settings, reason) => {
  const secured = await start(settings);
  const [state] = await settled(secured);
  expect(state).toMatchObject({ name: HOSTNAME, failure: { reason: expect.stringMatching(reason) } });
  expect(await issuer(secured.port)).toBe(HOSTNAME);
  const next = state?.failure?.next;
  for (let i = 0; i < 3; i++) await secured.clock.later(1000);
  expect(await statesOf(secured)).toMatchObject([{ failure: { next } }]);
});

test('TLS-ALPN-01 proves the name where the authority cannot come by port 80', async () => {
  const secured = await start({ blocked: ['plain'] });
  await obtained(secured);
  expect(await issuer(secured.port)).toMatch(/^Pebble Intermediate/);
});

/** Answers with the first certificate for ever. */
function repeating(): (path: string, text: string) => string {
  let first: string | undefined;
  return (path, text) => (path.startsWith('/certZ/') ? (first ??= text) : text);
}

test('an authority that certifies another key: the old certificate goes on, and the next try waits longer', async () => {
  const secured = await start({ lie: repeating() });
  const { clock, port } = secured;
  await obtained(secured);
  const { serialNumber } = await shownAt(port);
  await clock.later(LATE);
  const [first] = await statesOf(secured);
  expect(first).toMatchObject({ failure: { reason: expect.stringContaining('is for another key') } });
  const wait = Date.parse(first?.failure?.next ?? '') - clock.now();
  await clock.later(wait);
  const [second] = await statesOf(secured);
  expect(Date.parse(second?.failure?.next ?? '') - clock.now()).toBeGreaterThan(2 * wait);
  expect(await shownAt(port)).toMatchObject({ serialNumber });
});

test('an authority whose order never gets ready is given up', async () => {
  let isLying = false;
  const secured = await start({
    lie: (path, text) =>
      isLying && path.startsWith('/my-order/') ? text.replace(/"status": *"\w+"/, '"status":"processing"') : text,
  });
  const { clock, port } = secured;
  await obtained(secured);
  const { serialNumber } = await shownAt(port);
  isLying = true;
  const looked = clock.later(LATE);
  await clock.sleep(2000);
  clock.pass(HOUR);
  await looked;
  expect(await statesOf(secured)).toMatchObject([{ failure: { reason: 'It did not finish within 120 s.' } }]);
  expect(await shownAt(port)).toMatchObject({ serialNumber });
});
