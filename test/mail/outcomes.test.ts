import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { authenticate, createMemory, Outcomes } from '../../src/mail/authenticate.ts';
import { testClock } from '../harness/clock.ts';
import { stubDns } from './stub-dns.ts';

type Zone = Parameters<typeof stubDns>[0];

/** A check that follows `TXT a.example` to another name, and counts how often it was made. */
function following() {
  const outcomes = new Outcomes<string>();
  const made: string[] = [];

  async function find(key: string, zone: Zone): Promise<{ found: string; asked: readonly string[] }> {
    const dns = stubDns(zone);
    const found = await outcomes.of(key, dns.ask, async (ask) => {
      made.push(key);
      const [next = ''] = (await ask('a.example', 'TXT')).flat();
      return ask(next, 'A').then(
        ([address = '']) => `${key} ${String(address)}`,
        (error: unknown) => `${key} ${error instanceof Error ? error.message : ''}`,
      );
    });
    return { found, asked: dns.asked };
  }
  return { find, made };
}

describe('what a check found', () => {
  const zone = { 'TXT a.example': 'b.example', 'A b.example': '192.0.2.1' };
  const all = ['TXT a.example', 'A b.example'];

  test('is remembered while DNS says the same, of each key for itself', async () => {
    const { find, made } = following();
    for (let i = 0; i < 3; i++) {
      await expect(find('x', zone)).resolves.toEqual({ found: 'x 192.0.2.1', asked: all });
    }
    await expect(find('y', zone)).resolves.toMatchObject({ found: 'y 192.0.2.1' });
    expect(made).toEqual(['x', 'y']);
  });

  test('is found anew as soon as an answer is another one, and nothing beyond that is asked', async () => {
    const { find, made } = following();
    await find('x', zone);
    const moved = { 'TXT a.example': 'c.example', 'A c.example': '192.0.2.2' };
    const { found, asked } = await find('x', moved);
    expect(found).toBe('x 192.0.2.2');
    expect([...new Set(asked)]).toEqual(['TXT a.example', 'A c.example']);
    await expect(find('x', { 'TXT a.example': 'c.example' })).resolves.toMatchObject({ found: 'x NXDOMAIN' });
    await expect(find('x', { 'TXT a.example': 'c.example' })).resolves.toMatchObject({ found: 'x NXDOMAIN' });
    expect(made).toHaveLength(3);
  });

  test('is not remembered where DNS did not say, nor where it said a great deal', async () => {
    const { find, made } = following();
    for (const records of [
      { ...zone, 'A b.example': 'SERVFAIL' },
      { ...zone, 'TXT a.example': ['b.example', 'x'.repeat(5000)] },
    ]) {
      await find('x', records);
      await find('x', records);
    }
    expect(made).toHaveLength(4);
  });
});

const SPF = ['v=spf1 ip4:192.0.2.1 -all', 'v=spf1 a:mx.example.com ~all', 'v=spf1 exists:%{l}.example.com -all'];
const DMARC = ['v=DMARC1; p=reject', 'v=DMARC1; p=none; aspf=s', 'SERVFAIL'];
const mx = fc.constantFrom('192.0.2.1', '192.0.2.2', 'SERVFAIL');
const zones = fc.oneof(
  fc.record({ 'TXT example.com': fc.constantFrom(...SPF), 'TXT _dmarc.example.com': fc.constantFrom(...DMARC) }),
  fc.record({ 'TXT example.com': fc.constantFrom(...SPF), 'A mx.example.com': mx }),
  fc.record({ 'TXT _dmarc.example.com': fc.constantFrom(...DMARC), 'A mx.example.com': mx }),
  fc.constant({ 'TXT example.com': SPF[2] ?? '', 'A alice.example.com': '127.0.0.1' }),
);
const mails = fc.record({
  zone: zones,
  ip: fc.constantFrom('192.0.2.1', '192.0.2.2'),
  sender: fc.constantFrom('alice@example.com', 'bob@example.com', 'bob@list.example.com', ''),
  from: fc.constantFrom('alice@example.com', 'bob@sub.example.com', 'a@example.com, b@example.org'),
});

test('whatever came before, a message is judged as if it were the first', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(mails, { minLength: 2, maxLength: 8 }), async (sequence) => {
      const memory = createMemory();
      for (const { zone, ip, sender, from } of sequence) {
        const mail = [Buffer.from(`From: ${from}\r\n\r\nHello\r\n`)];
        const client = { ip, sender, helo: 'client.example.com', mta: 'mail.example.net', trusted: [] };
        const judge = (more: { memory?: typeof memory }) =>
          authenticate(mail, { ...client, ...more, ask: stubDns(zone).ask, clock: testClock(), timeoutMs: 10_000 });
        expect(await judge({ memory })).toEqual(await judge({}));
      }
    }),
  );
});
