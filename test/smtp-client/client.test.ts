/** How many connections there are, who gets them, and what becomes of them. */
import { describe, expect, test } from 'vitest';
import { startCarrier, told, type Carrier } from '../harness/smtp-client.ts';
import { HANG, startSmtpPeer } from '../harness/smtp-peer.ts';

const TAKEN = 'delivered: 250 2.0.0 taken';

async function carryMany({ carry }: Carrier, count: number, domain = 'example.test'): Promise<string[]> {
  const results = await Promise.all(Array.from({ length: count }, (_, i) => carry(`u${i}@${domain}`)));
  return results.flatMap((result) => Object.values(each(told(result))));
}

function each(said: string | Record<string, string>): Record<string, string> {
  return typeof said === 'string' ? { said } : said;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

describe('a connection', () => {
  test('carries message after message', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: peer.port });
    for (let i = 0; i < 10; i++) expect(await carryMany(carrier, 1)).toEqual([TAKEN]);
    expect(peer.messages.length).toBe(10);
    expect(peer.connections().total).toBe(1);
  });

  test('carries no more messages than configured', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: peer.port, delivery: { messages_per_connection: 3 } });
    for (let i = 0; i < 7; i++) await carryMany(carrier, 1);
    expect(peer.connections().total).toBe(3);
    expect(peer.lines.filter((line) => line === 'QUIT').length).toBe(2);
  });

  test('is not used beyond its age', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: peer.port, timeouts: { connection: 50 } });
    await carryMany(carrier, 1);
    await pause(60);
    await carryMany(carrier, 1);
    expect(peer.connections().total).toBe(2);
  });

  test('without work ends with QUIT', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: peer.port, timeouts: { idle: 200 } });
    await carryMany(carrier, 1);
    await expect.poll(() => carrier.client.connections(), { interval: 1 }).toEqual({ open: 1, busy: 0 });
    await expect.poll(() => peer.connections().open).toBe(0);
    expect(peer.lines.at(-1)).toBe('QUIT');
    expect(carrier.client.connections()).toEqual({ open: 0, busy: 0 });
  });

  test('that the server ended meanwhile costs nothing: the next message goes by another', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: peer.port });
    await carryMany(carrier, 1);
    await peer.down();
    await peer.up();
    expect(await carryMany(carrier, 1)).toEqual([TAKEN]);
  });

  test('on which the server says goodbye unasked is not used again', async () => {
    const peer = await startSmtpPeer({
      script: {
        final: ({ connection }) =>
          connection === 1 ? { reply: '250 2.0.0 taken', thenReply: '421 4.4.2 idle', afterMs: 10 } : undefined,
      },
    });
    const carrier = startCarrier({ port: peer.port });
    await carryMany(carrier, 1);
    await pause(40);
    expect(await carryMany(carrier, 1)).toEqual([TAKEN]);
    expect(peer.connections().total).toBe(2);
  });

  test('is shared by all domains with the same mail hosts', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: 25, delivery: { relay: `smtp://127.0.0.1:${peer.port}` } });
    for (const domain of ['a.test', 'b.test', 'c.test']) await carryMany(carrier, 1, domain);
    expect(peer.connections().total).toBe(1);
  });
});

describe('connections to one site', () => {
  test('begin with two and grow with success, up to the configured number', async () => {
    const peer = await startSmtpPeer({ script: { final: { reply: '250 2.0.0 taken', afterMs: 5 } } });
    const carrier = startCarrier({ port: peer.port, delivery: { per_destination: 6 } });
    const most: number[] = [];
    peer.script({
      final: ({ messages }) => {
        if (messages === 0) most.push(peer.connections().most);
        return { reply: '250 2.0.0 taken', afterMs: 5 };
      },
    });
    expect(new Set(await carryMany(carrier, 100))).toEqual(new Set([TAKEN]));
    expect(most[0]).toBeLessThanOrEqual(2);
    expect(peer.connections().most).toBe(6);
  });

  test('shrink when the server wants fewer, and nothing waits for it', async () => {
    const peer = await startSmtpPeer({
      script: {
        greeting: () =>
          peer.connections().open > 3 ? { reply: '421 4.7.0 too many connections', thenClose: true } : undefined,
        final: { reply: '250 2.0.0 taken', afterMs: 5 },
      },
    });
    const carrier = startCarrier({ port: peer.port });
    expect(new Set(await carryMany(carrier, 200))).toEqual(new Set([TAKEN]));
    expect(peer.messages.length).toBe(200);
    // It found the limit once or twice, and did not knock on at every success.
    expect(peer.connections().total).toBeLessThan(10);
  });

  test('that says 421 to every message is left alone', async () => {
    const peer = await startSmtpPeer({ script: { mail: { reply: '421 4.3.2 closing', thenClose: true } } });
    const carrier = startCarrier({ port: peer.port });
    const results = await carryMany(carrier, 50);
    expect(results).toContain('unreachable: 421 4.3.2 closing');
    expect(results.filter((each) => each === 'untouched: ').length).toBeGreaterThan(40);
    expect(peer.connections().total).toBeLessThan(10);
  });

  test('that cannot be reached is dialled for one message, not for all', async () => {
    const peer = await startSmtpPeer();
    await peer.down();
    const results = await carryMany(startCarrier({ port: peer.port }), 50);
    expect(results.filter((each) => each.startsWith('unreachable: 421 4.4.1')).length).toBeLessThanOrEqual(2);
    expect(results.filter((each) => each === 'untouched: ').length).toBeGreaterThanOrEqual(48);
  });
});

describe('connections in all', () => {
  test('are as many as configured, in turns by site', async () => {
    const peers = [await startSmtpPeer()];
    const port = peers[0]?.port ?? 0;
    for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.4']) peers.push(await startSmtpPeer({ address, port }));
    // In a transaction: a connection that says goodbye may be seen beside the one that takes its place.
    const busy = new Set<string>();
    let most = 0;
    for (const [i, peer] of peers.entries())
      peer.script({
        mail({ connection }) {
          most = Math.max(most, busy.add(`${i}-${connection}`).size);
          return { reply: '250 2.1.0 ok', afterMs: 3 };
        },
        final({ connection }) {
          busy.delete(`${i}-${connection}`);
          return '250 2.0.0 taken';
        },
      });
    const routes = Object.fromEntries(peers.map(({ address }, i) => [`d${i}.test`, `${address}:${port}`]));
    const carrier = startCarrier({ port: 25, delivery: { concurrency: 4, routes } });
    for (const i of peers.keys()) await carryMany(carrier, 1, `d${i}.test`);
    most = 0;
    const counts = () => peers.map(({ messages }) => messages.length);
    const domains = peers.map((_, i) => `d${i}.test`);
    const progress = await Promise.all(domains.map((domain) => carryMany(carrier, 40, domain).then(counts)));
    // When the first was through, nobody was far behind.
    expect(Math.min(...(progress.toSorted((a, b) => sum(a) - sum(b))[0] ?? []))).toBeGreaterThan(20);
    expect(most).toBe(4);
    expect(counts()).toEqual([41, 41, 41, 41]);
  });

  test('are left to those that answer, however many hang', async () => {
    const healthy = await startSmtpPeer();
    const { port } = healthy;
    const hanging = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        startSmtpPeer({ address: `127.0.1.${i + 1}`, port, script: { greeting: HANG } }),
      ),
    );
    const routes = Object.fromEntries([
      ['healthy.test', `127.0.0.1:${port}`],
      ...hanging.map(({ address }, i) => [`h${i}.test`, `${address}:${port}`]),
    ]);
    const carrier = startCarrier({ port: 25, delivery: { concurrency: 8, routes } });
    for (let i = 0; i < 8; i++) void carryMany(carrier, 10, `h${i}.test`);
    await expect.poll(() => hanging.every((peer) => peer.connections().open > 0)).toBe(true);
    expect(new Set(await carryMany(carrier, 100, 'healthy.test'))).toEqual(new Set([TAKEN]));
    expect(hanging.every((peer) => peer.connections().open > 0)).toBe(true);
  });

  test('that hang are given up early while others wait for one', async () => {
    const hanging = await startSmtpPeer({ script: { greeting: HANG } });
    let isPressed = false;
    const carrier = startCarrier({
      port: hanging.port,
      timeouts: { pressedFirst: 50 },
      isPressed: () => isPressed,
    });
    let isOver = false;
    const hung = carrier.carry('a@hanging.test').finally(() => (isOver = true));
    await expect.poll(() => hanging.connections().open).toBe(1);
    await pause(200);
    expect(isOver).toBe(false);
    isPressed = true;
    expect(told(await hung)).toMatch(/^unreachable: 421 4\.4\.2 no reply to greeting/);
  });

  test('to a server that is silent leave the next one soon', async () => {
    const silent = await startSmtpPeer({ script: { greeting: HANG } });
    const other = await startSmtpPeer({ address: '127.0.0.2', port: silent.port });
    const hosts = [['127.0.0.1'], ['127.0.0.2']];
    const carrier = startCarrier({ port: silent.port, hosts, timeouts: { elsewhere: 50 } });
    expect(told(await carrier.carry('a@example.test'))).toBe(TAKEN);
    expect([silent.connections().total, other.messages.length]).toEqual([1, 1]);
  });

  test('without work make room for others at once', async () => {
    const one = await startSmtpPeer();
    const other = await startSmtpPeer({ address: '127.0.0.2', port: one.port });
    const routes = { 'one.test': `127.0.0.1:${one.port}`, 'other.test': `127.0.0.2:${one.port}` };
    const carrier = startCarrier({ port: 25, delivery: { concurrency: 1, routes }, timeouts: { idle: 60_000 } });
    await carryMany(carrier, 1, 'one.test');
    expect(await carryMany(carrier, 1, 'other.test')).toEqual([TAKEN]);
    expect(other.messages.length).toBe(1);
  });
});

describe('a stop', () => {
  test('lets what is on its way arrive and gives back the rest', async () => {
    const peer = await startSmtpPeer({ script: { final: { reply: '250 2.0.0 taken', afterMs: 100 } } });
    const carrier = startCarrier({ port: peer.port });
    const all = carryMany(carrier, 10);
    await expect.poll(() => peer.lines.filter((line) => line === 'DATA').length).toBe(2);
    await carrier.client.stop(5000);
    const results = await all;
    expect(results.filter((each) => each === TAKEN).length).toBe(2);
    expect(results.filter((each) => each === 'untouched: ').length).toBe(8);
    expect(peer.messages.length).toBe(2);
    await expect.poll(() => peer.connections().open).toBe(0);
  });

  test('cuts what takes longer: before the message has left it is untouched, after it uncertain', async () => {
    const peer = await startSmtpPeer({ script: { final: HANG } });
    const carrier = startCarrier({ port: peer.port });
    const after = carrier.carry('a@example.test');
    const before = await startSmtpPeer({ script: { rcpt: HANG } });
    const other = startCarrier({ port: before.port });
    const asked = other.carry('a@example.test');
    await expect
      .poll(() => peer.lines.includes('DATA') && before.lines.includes('RCPT TO:<a@example.test>'))
      .toBe(true);
    await pause(20);
    await Promise.all([carrier.client.stop(10), other.client.stop(10)]);
    expect(told(await after)).toMatch(/^interrupted: /);
    expect(told(await asked)).toBe('untouched: ');
  });

  test('takes nothing afterwards', async () => {
    const peer = await startSmtpPeer();
    const carrier = startCarrier({ port: peer.port });
    await carrier.client.stop(10);
    expect(await carryMany(carrier, 1)).toEqual(['untouched: ']);
    expect(peer.connections().total).toBe(0);
  });
});

test('a message begins only when the end of the one before it on its connection is on the disk', async () => {
  const peer = await startSmtpPeer();
  const carrier = startCarrier({ port: peer.port, delivery: { per_destination: 1, concurrency: 1 } });
  const { promise: written, resolve: write } = Promise.withResolvers<void>();
  const first = carrier.carry('a@example.test', { settled: written });
  await first;
  const second = carrier.carry('b@example.test');
  await pause(30);
  expect(peer.lines.filter((line) => line === 'DATA').length).toBe(1);
  write();
  expect(told(await second)).toBe(TAKEN);
});
