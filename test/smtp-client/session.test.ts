/** Which server a message comes to, over which TLS, and what hanging and broken ones cost. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startCarrier, told } from '../harness/smtp-client.ts';
import { CLOSE, HANG, startSmtpPeer, type PeerOptions, type PeerScript, type SmtpPeer } from '../harness/smtp-peer.ts';
import { temporaryFolder } from '../harness/store.ts';

const TAKEN = 'delivered: 250 2.0.0 taken';

describe('with two mail hosts', () => {
  async function two(first: PeerScript | 'down', second: PeerScript | 'down' = {}) {
    const one = await startSmtpPeer(first === 'down' ? {} : { script: first });
    const other = await startSmtpPeer({
      address: '127.0.0.2',
      port: one.port,
      ...(second === 'down' ? {} : { script: second }),
    });
    if (first === 'down') await one.down();
    if (second === 'down') await other.down();
    const hosts = [['127.0.0.1'], ['127.0.0.2']];
    return { one, other, ...startCarrier({ port: one.port, hosts }) };
  }

  test.each<[string, PeerScript | 'down']>([
    ['cannot be reached', 'down'],
    ['says 421 in its greeting', { greeting: { reply: '421 4.3.2 not now', thenClose: true } }],
    ['says 450 in its greeting', { greeting: '450 4.3.2 not now' }],
    ['says 554 in its greeting', { greeting: '554 5.3.2 go away' }],
    ['speaks something else', { greeting: 'HTTP/1.1 400 Bad Request' }],
    ['hangs up at once', { greeting: CLOSE }],
    ['refuses EHLO for now', { ehlo: '451 4.3.0 later' }],
    ['refuses EHLO and HELO', { ehlo: '550 5.7.1 no', helo: '550 5.7.1 no' }],
    ['refuses MAIL for now', { mail: '451 4.3.0 later' }],
    ['refuses MAIL', { mail: '550 5.1.8 not you' }],
    ['refuses RCPT for now', { rcpt: '451 4.7.1 greylisted' }],
    ['refuses DATA for now', { data: '451 4.3.0 later' }],
    ['refuses the message for now', { final: '451 4.3.0 later' }],
    ['hangs up at MAIL', { mail: CLOSE }],
    ['hangs up at RCPT', { rcpt: { reply: '421 4.3.2 shutting down', thenClose: true } }],
  ])('the second takes it when the first %s', async (_, first) => {
    const { other, carry } = await two(first);
    expect(told(await carry('a@example.test'))).toBe(TAKEN);
    expect(other.messages.length).toBe(1);
  });

  test.each<[string, PeerScript]>([
    ['the recipient', { rcpt: '550 5.1.1 unknown' }],
    ['the message', { final: '554 5.6.0 spam' }],
  ])('the second is not asked when the first refuses %s for good', async (_, first) => {
    const { other, carry } = await two(first);
    expect(told(await carry('a@example.test'))).toMatch(/^bounced: 55/);
    expect(other.connections().total).toBe(0);
  });

  test('only both can refuse us as a whole', async () => {
    const no = { greeting: '554 5.3.2 go away' };
    const both = await two(no, no);
    expect(told(await both.carry('a@example.test'))).toBe('bounced: 554 5.3.2 go away');
    const down = await two(no, 'down');
    expect(told(await down.carry('a@example.test'))).toMatch(/^unreachable: 421 4\.4\.1 /);
    const later = await two({ mail: '451 4.3.0 later' }, { mail: '550 5.1.8 not you' });
    expect(told(await later.carry('a@example.test'))).toBe('deferred: 451 4.3.0 later');
    const refused = await two({ mail: '550 5.1.8 not you' }, { mail: '550 5.1.8 nor here' });
    expect(told(await refused.carry('a@example.test'))).toBe('bounced: 550 5.1.8 nor here');
  });

  test('a recipient who is to wait is offered to the second, the others are not', async () => {
    const { one, other, carry } = await two({
      rcpt: ({ line }) => (line.includes('slow') ? '451 4.7.1 greylisted' : undefined),
    });
    expect(told(await carry(['slow@example.test', 'quick@example.test']))).toEqual({
      'slow@example.test': TAKEN,
      'quick@example.test': TAKEN,
    });
    expect(one.messages.map(({ to }) => to)).toEqual([['quick@example.test']]);
    expect(other.messages.map(({ to }) => to)).toEqual([['slow@example.test']]);
  });

  test('the first that could not be reached is tried last for a minute', async () => {
    const { one, other, carry } = await two({ greeting: CLOSE });
    await carry('a@example.test');
    await carry('b@one.test');
    await carry('c@example.test');
    expect(other.messages.length).toBe(3);
    expect(one.connections().total).toBe(2);
  });
});

test('at most two sessions and five addresses a try', async () => {
  const script = { rcpt: '451 4.7.1 greylisted' };
  const first = await startSmtpPeer({ script });
  const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.6', '127.0.0.7'];
  const others = await Promise.all(addresses.map((address) => startSmtpPeer({ address, port: first.port, script })));
  const hosts = ['127.0.0.1', ...addresses].map((address) => [address]);
  const count = () => [first, ...others].filter((peer) => peer.connections().total > 0).length;
  expect(told(await startCarrier({ port: first.port, hosts }).carry('a@example.test'))).toMatch(/^deferred: 451/);
  expect(count()).toBe(2);
  for (const peer of [first, ...others]) peer.script({ greeting: CLOSE });
  expect(told(await startCarrier({ port: first.port, hosts }).carry('a@example.test'))).toMatch(/^unreachable: /);
  expect(count()).toBe(5);
});

describe('a host with both families', () => {
  test.each(['greeting', 'mail', 'rcpt', 'final'] as const)(
    'is asked over the other one after 5.7.x at %s',
    async (step) => {
      const v4 = await startSmtpPeer({ script: { [step]: '550 5.7.1 your address is listed' } });
      const v6 = await startSmtpPeer({ address: '::1', port: v4.port });
      const { carry } = startCarrier({ port: v4.port, hosts: [['127.0.0.1', '::1']] });
      expect(told(await carry('a@example.test'))).toBe(TAKEN);
      expect(v6.messages.length).toBe(1);
    },
  );

  test('is believed when both are refused, or the other cannot be reached', async () => {
    const v4 = await startSmtpPeer({ script: { rcpt: '550 5.7.1 your address is listed' } });
    const v6 = await startSmtpPeer({ address: '::1', port: v4.port, script: { rcpt: '550 5.7.1 this one, too' } });
    const { carry } = startCarrier({ port: v4.port, hosts: [['127.0.0.1', '::1', '127.0.0.2']] });
    expect(told(await carry('a@example.test'))).toBe('bounced: 550 5.7.1 this one, too');
    await v6.down();
    expect(told(await carry('b@example.test'))).toBe('bounced: 550 5.7.1 your address is listed');
  });
});

describe('STARTTLS', () => {
  const features = ['PIPELINING', 'STARTTLS'];

  test('is used where it is offered, with any certificate', async () => {
    const peer = await startSmtpPeer({ features });
    const { carry } = startCarrier({ port: peer.port });
    const result = await carry('a@example.test');
    expect(result).toMatchObject({ recipients: [{ outcome: 'delivered', tls: 'TLSv1.3' }] });
    expect(peer.messages).toMatchObject([{ tls: true }]);
    expect(peer.lines.filter((line) => line.startsWith('EHLO')).length).toBe(2);
  });

  test.each<[string, Parameters<typeof startSmtpPeer>[0]]>([
    ['is refused', { script: { starttls: '454 4.7.0 not available' } }],
    ['leads to a broken handshake', { brokenHandshake: true }],
    ['ends the connection', { script: { starttls: CLOSE } }],
    ['brings more than its answer', { script: { starttls: { raw: '220 go ahead\r\n250 2.1.0 injected\r\n' } } }],
    ['brings half a line more', { script: { starttls: { raw: '220 go ahead\r\n250 2.1' } } }],
  ])('falls back to clear text on a fresh connection when it %s, and remembers', async (_, options) => {
    const peer = await startSmtpPeer({ features, ...options });
    const { carry } = startCarrier({ port: peer.port, delivery: { messages_per_connection: 1 } });
    expect(await carry('a@example.test')).toMatchObject({ recipients: [{ outcome: 'delivered', tls: null }] });
    expect(peer.messages).toMatchObject([{ tls: false, connection: 2 }]);
    expect(await carry('b@example.test')).toMatchObject({ recipients: [{ outcome: 'delivered' }] });
    expect(peer.connections().total).toBe(3);
  });
});

describe('a smarthost', () => {
  const relay = (port: number, scheme = 'smtp') => ({
    relay: `${scheme}://joe%40example.net:p%3Ass@localhost:${port}`,
  });
  const PLAIN = Buffer.from('\0joe@example.net\0p:ss').toString('base64');

  test.each([
    ['PLAIN', 'AUTH LOGIN PLAIN', [`AUTH PLAIN ${PLAIN}`]],
    ['LOGIN', 'AUTH LOGIN', ['AUTH LOGIN', btoa('joe@example.net'), btoa('p:ss')]],
  ])('gets our name and password by AUTH %s under TLS, and mail for everybody', async (_, auth, lines) => {
    const peer = await startSmtpPeer({ features: ['PIPELINING', 'STARTTLS', auth], names: ['localhost'] });
    const { carry } = startCarrier({ port: 25, delivery: relay(peer.port), hosts: [], localhost: '127.0.0.1' });
    expect(told(await carry('a@example.test'))).toBe(TAKEN);
    expect(told(await carry('b@other.test'))).toBe(TAKEN);
    expect(peer.lines).toEqual(expect.arrayContaining(lines));
    expect(peer.messages).toMatchObject([{ tls: true }, { tls: true, connection: 1 }]);
  });

  test('is spoken to under TLS from the first byte with smtps', async () => {
    const peer = await startSmtpPeer({ features: ['AUTH PLAIN'], implicitTls: true });
    const { carry } = startCarrier({ port: 25, delivery: relay(peer.port, 'smtps'), localhost: '127.0.0.1' });
    expect(await carry('a@example.test')).toMatchObject({ recipients: [{ outcome: 'delivered', tls: 'TLSv1.3' }] });
  });

  test.each([
    ['refuses the password', ['STARTTLS', 'AUTH PLAIN'], '535 5.7.8 wrong password'],
    ['offers no AUTH', ['STARTTLS'], '421 4.7.0 the smarthost offers neither AUTH PLAIN nor AUTH LOGIN'],
    [
      'offers no TLS',
      ['AUTH PLAIN'],
      '421 4.7.0 the smarthost offers no TLS, and a password is never sent in clear text',
    ],
  ])('that %s makes mail wait, not bounce', async (_, features, words) => {
    const peer = await startSmtpPeer({ features, script: { auth: '535 5.7.8 wrong password' } });
    // An address of this machine that is no loopback address.
    const { carry } = startCarrier({ port: 25, delivery: relay(peer.port), localhost: '0.0.0.0' });
    expect(told(await carry('a@example.test'))).toBe(`unreachable: ${words}`);
    if (features.length === 1) expect(peer.lines.some((line) => line.startsWith('AUTH'))).toBe(false);
  });

  describe('written as keys', () => {
    const KEYS = { host: 'localhost', user: 'joe@example.net', password: 'p:ss' };
    const AUTH = ['STARTTLS', 'AUTH PLAIN'];

    async function ca(peer: SmtpPeer): Promise<string> {
      const file = join(await temporaryFolder(), 'ca.pem');
      await writeFile(file, peer.certificate);
      return file;
    }

    test('gets the password where its certificate is one of the authorities named, or signed by one', async () => {
      const peer = await startSmtpPeer({ features: AUTH, names: ['localhost'] });
      const keys = { ...KEYS, port: peer.port, ca: await ca(peer) };
      const { carry } = startCarrier({ port: 25, delivery: { relay: keys }, localhost: '127.0.0.1' });
      expect(told(await carry('a@example.test'))).toBe(TAKEN);
      expect(peer.lines).toContain(`AUTH PLAIN ${PLAIN}`);
    });

    test.each<[string, PeerOptions, object, RegExp]>([
      ['is unknown', { features: AUTH, names: ['localhost'] }, {}, /self-signed certificate/],
      ['is for another name', { features: AUTH, names: ['other.test'] }, { ca: 'its own' }, /does not match/],
      ['is missing, there being no TLS', { features: ['AUTH PLAIN'] }, {}, /offers no TLS/],
      ['cannot be checked', { features: AUTH }, { ca: '/nowhere/ca.pem' }, /delivery\.relay\.ca cannot be read/],
    ])('gets nothing where its certificate %s', async (_, options, more, words) => {
      const peer = await startSmtpPeer(options);
      const own = 'ca' in more && more.ca === 'its own' ? { ca: await ca(peer) } : {};
      const keys = { ...KEYS, port: peer.port, ...more, ...own };
      const { carry } = startCarrier({ port: 25, delivery: { relay: keys }, localhost: '127.0.0.1' });
      expect(await carry('a@example.test')).toMatchObject({ kind: 'unreachable', isRelay: true });
      expect(told(await carry('a@example.test'))).toMatch(words);
      expect(peer.lines.some((line) => /^(AUTH|MAIL)/.test(line))).toBe(false);
    });

    test('needs no TLS where the operator says so', async () => {
      const peer = await startSmtpPeer({ features: ['STARTTLS'] });
      const { carry } = startCarrier({
        port: 25,
        delivery: { relay: { host: '127.0.0.1', port: peer.port, tls: 'off' } },
      });
      expect(told(await carry('a@example.test'))).toBe(TAKEN);
      expect(peer.messages).toMatchObject([{ tls: false }]);
    });
  });

  test('gives way to a route of the destination', async () => {
    const peer = await startSmtpPeer();
    const routes = { 'example.test': `127.0.0.1:${peer.port}` };
    const { carry } = startCarrier({ port: 25, delivery: { ...relay(9), routes } });
    expect(told(await carry('a@example.test'))).toBe(TAKEN);
  });

  test('whose name is unknown makes mail wait', async () => {
    const { carry } = startCarrier({ port: 25, delivery: { relay: 'smtp://smtp.other.test' } });
    expect(told(await carry('a@example.test'))).toBe(
      'unreachable: 451 4.4.3 smtp.other.test, named in the configuration, has no IP address',
    );
  });

  test('on this machine is found although no name server knows `localhost`', async () => {
    const peer = await startSmtpPeer();
    const { carry } = startCarrier({
      port: 25,
      delivery: { relay: { host: 'localhost', port: peer.port, tls: 'off' } },
    });
    expect(told(await carry('a@example.test'))).toBe(TAKEN);
  });

  test('tells of the answer that it got, not of its other address where nobody listens', async () => {
    const peer = await startSmtpPeer({ features: ['AUTH PLAIN'], script: { auth: '535 5.7.8 wrong password' } });
    const keys = { host: 'localhost', port: peer.port, user: 'joe', password: 'x', tls: 'off' };
    const { carry } = startCarrier({ port: 25, delivery: { relay: keys } });
    expect(told(await carry('a@example.test'))).toBe('unreachable: 535 5.7.8 wrong password');
  });
});

describe('deadlines', () => {
  const PATIENT = {
    connect: 60_000,
    greeting: 60_000,
    command: 60_000,
    tls: 60_000,
    data: 60_000,
    block: 60_000,
    final: 60_000,
    transaction: 120_000,
  };

  /** Which deadline is over at which step. */
  const STEPS = [
    ['greeting', 'greeting', 'unreachable'],
    ['ehlo', 'command', 'unreachable'],
    ['mail', 'command', 'unreachable'],
    ['rcpt', 'command', 'unreachable'],
    ['data', 'data', 'unreachable'],
    ['final', 'final', 'deferred'],
  ] as const;

  test.each(STEPS)('silence at %s ends the try', async (step, deadline, outcome) => {
    const peer = await startSmtpPeer({ script: { [step]: HANG } });
    const { carry } = startCarrier({ port: peer.port, timeouts: { ...PATIENT, [deadline]: 500 } });
    const began = performance.now();
    expect(told(await carry('a@example.test'))).toBe(`${outcome}: 421 4.4.2 no reply to ${step} within 0.5 s`);
    expect(performance.now() - began).toBeLessThan(50_000);
    await expect.poll(() => peer.connections().open).toBe(0);
  });

  test.each(STEPS)('an answer to %s that drips in stretches nothing', async (step, deadline, outcome) => {
    const peer = await startSmtpPeer({ script: { [step]: { drip: `250-${'x'.repeat(5000)}`, everyMs: 20 } } });
    const { carry } = startCarrier({ port: peer.port, timeouts: { ...PATIENT, [deadline]: 500 } });
    const began = performance.now();
    expect(told(await carry('a@example.test'))).toBe(`${outcome}: 421 4.4.2 no reply to ${step} within 0.5 s`);
    expect(performance.now() - began).toBeLessThan(50_000);
  });

  test('a server that stops to read ends the try', async () => {
    const peer = await startSmtpPeer({ script: { data: { reply: '354 go ahead', thenStall: true } } });
    const { carry } = startCarrier({ port: peer.port, timeouts: { ...PATIENT, data: 200, block: 200 } });
    const block = Buffer.alloc(256 * 1024, 'x');
    async function* pieces() {
      for (let i = 0; i < 100; i++) {
        yield block;
        await Promise.resolve();
      }
    }
    expect(told(await carry('a@example.test', { body: { pieces, size: 1000 } }))).toMatch(
      /^unreachable: 421 4\.4\.2 no reply to data within 0\.2 s/,
    );
  });

  test('the whole message has one, however busy the server looks', async () => {
    const peer = await startSmtpPeer({ features: [], script: { rcpt: { reply: '250 2.1.5 ok', afterMs: 100 } } });
    const { carry } = startCarrier({ port: peer.port, timeouts: { ...PATIENT, transaction: 500 } });
    const result = await carry(Array.from({ length: 20 }, (_, i) => `u${i}@example.test`));
    expect(told(result)).toBe('unreachable: 421 4.4.2 no reply to the message within 0.5 s');
  });

  test('a handshake that hangs leads to clear text', async () => {
    const peer = await startSmtpPeer({
      features: ['STARTTLS'],
      script: {
        starttls: ({ connection }) => (connection === 1 ? { reply: '220 go ahead', thenStall: true } : undefined),
      },
    });
    const { carry } = startCarrier({ port: peer.port, timeouts: { ...PATIENT, tls: 200 } });
    expect(await carry('a@example.test')).toMatchObject({ recipients: [{ outcome: 'delivered', tls: null }] });
  });
});
