/** What the client says to a server, whatever the server says to it. */
import { describe, expect, test } from 'vitest';
import { bodyOf, startCarrier, told, type CarrierOptions } from '../harness/smtp-client.ts';
import { CLOSE, startSmtpPeer, type PeerOptions, type PeerScript } from '../harness/smtp-peer.ts';

async function world(script: PeerScript, peerOptions: PeerOptions = {}, options: Partial<CarrierOptions> = {}) {
  const peer = await startSmtpPeer({ script, ...peerOptions });
  return { peer, ...startCarrier({ port: peer.port, ...options }) };
}

describe('the commands', () => {
  test('of one message go together where the server takes pipelining', async () => {
    const chunks: number[] = [];
    // A server that answers nothing before it has seen DATA: only a client that sends all at once gets on.
    const { peer, carry } = await world({
      mail: { reply: '250 ok', afterMs: 20 },
      data: () => void chunks.push(peer.lines.length),
    });
    expect(told(await carry(['a@example.test', 'b@example.test']))).toEqual({
      'a@example.test': 'delivered: 250 2.0.0 taken',
      'b@example.test': 'delivered: 250 2.0.0 taken',
    });
    expect(peer.lines).toEqual([
      'EHLO mail.example.net',
      expect.stringMatching(/^MAIL FROM:<b@mail\.example\.net> SIZE=\d+$/),
      'RCPT TO:<a@example.test>',
      'RCPT TO:<b@example.test>',
      'DATA',
    ]);
  });

  test('go one by one where it does not', async () => {
    const { peer, carry } = await world({}, { features: [] });
    expect(told(await carry('a@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.lines[1]).toBe('MAIL FROM:<b@mail.example.net>');
  });

  test('begin with HELO where EHLO is unknown', async () => {
    const { peer, carry } = await world({ ehlo: '502 5.5.1 not implemented' });
    expect(told(await carry('a@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.lines.slice(0, 3)).toEqual([
      'EHLO mail.example.net',
      'HELO mail.example.net',
      'MAIL FROM:<b@mail.example.net>',
    ]);
  });

  test('carry the null sender', async () => {
    const { peer, carry } = await world({}, { features: [] });
    await carry('a@example.test', { body: { sender: '' } });
    expect(peer.lines[1]).toBe('MAIL FROM:<>');
  });

  test('say 8BITMIME where the message needs it and the server knows it', async () => {
    const { peer, carry } = await world({});
    await carry('a@example.test', { body: { encoding: '8bit' } });
    expect(peer.lines[1]).toMatch(/ BODY=8BITMIME$/);
  });

  test('begin with RSET after a message that failed, on the same connection', async () => {
    const { peer, carry } = await world({
      final: ({ messages, to }) => (to[0] === 'bad@example.test' && messages === 0 ? '554 5.6.0 no' : undefined),
    });
    expect(told(await carry('bad@example.test'))).toBe('bounced: 554 5.6.0 no');
    expect(told(await carry('good@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.lines.map((line) => line.split(' ')[0])).toEqual([
      'EHLO',
      'MAIL',
      'RCPT',
      'DATA',
      'RSET',
      'MAIL',
      'RCPT',
      'DATA',
    ]);
    expect(peer.connections().total).toBe(1);
  });
});

describe('addresses beyond ASCII', () => {
  test('go with SMTPUTF8', async () => {
    const { peer, carry } = await world({});
    expect(told(await carry('jürgen@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.lines[1]).toMatch(/ BODY=8BITMIME SMTPUTF8$/);
  });

  test('bounce where the server does not know it, and harm nobody else', async () => {
    const { carry } = await world({}, { features: ['PIPELINING'] });
    expect(told(await carry(['jürgen@example.test', 'john@example.test']))).toEqual({
      'jürgen@example.test': 'bounced: 550 5.6.7 the server does not accept non-ASCII addresses (no SMTPUTF8)',
      'john@example.test': 'delivered: 250 2.0.0 taken',
    });
  });

  test('in the message bounce for everybody', async () => {
    const { peer, carry } = await world({}, { features: ['PIPELINING'] });
    expect(told(await carry('john@example.test', { body: { encoding: 'smtputf8' } }))).toMatch(
      /^bounced: 550 5\.6\.7 /,
    );
    expect(peer.lines).toEqual(['EHLO mail.example.net']);
  });
});

describe('a message that is larger than the server takes', () => {
  test('is not offered', async () => {
    const { peer, carry } = await world({}, { features: ['SIZE 10'] });
    expect(told(await carry('a@example.test'))).toMatch(
      /^bounced: 552 5\.3\.4 message of \d+ bytes exceeds the 10 bytes/,
    );
    expect(peer.lines).toEqual(['EHLO mail.example.net']);
  });

  test.each([
    [20, /^delivered: 250 /],
    [19, /^bounced: 552 5\.3\.4 message of 20 bytes exceeds the 19 bytes/],
  ])('a message of 20 bytes, where the server takes %i', async (size, expected) => {
    const { carry } = await world({}, { features: [`SIZE ${size}`] });
    const body = bodyOf('Subject: x\r\n\r\n1234\r\n');
    expect(body.size).toBe(20);
    expect(told(await carry('a@example.test', { body }))).toMatch(expected);
  });

  test('is offered where the limit is unknown', async () => {
    const { carry } = await world({}, { features: ['SIZE'] });
    expect(told(await carry('a@example.test'))).toBe('delivered: 250 2.0.0 taken');
  });
});

describe('recipients', () => {
  test('beyond what the server takes at once go in the next transaction of the same connection', async () => {
    const { peer, carry } = await world({
      rcpt: ({ to }) => (to.length >= 2 ? '452 4.5.3 too many recipients' : undefined),
    });
    const result = await carry([
      'a@example.test',
      'b@example.test',
      'c@example.test',
      'd@example.test',
      'e@example.test',
    ]);
    expect(Object.values(told(result))).toEqual(Array.from({ length: 5 }, () => 'delivered: 250 2.0.0 taken'));
    expect(peer.messages.map(({ to }) => to.length)).toEqual([2, 2, 1]);
    expect(peer.connections().total).toBe(1);
  });

  test('may all be refused by a server that wants a message all the same', async () => {
    const { peer, carry } = await world({ rcpt: '550 5.1.1 unknown', data: '354 go ahead', final: '554 5.5.1 nobody' });
    expect(told(await carry('a@example.test'))).toBe('bounced: 550 5.1.1 unknown');
    peer.script({});
    expect(told(await carry('b@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.connections().total).toBe(1);
  });

  test('keep their own verdicts when the message itself is refused', async () => {
    const { carry } = await world({
      rcpt: ({ line }) => (line.includes('bad') ? '550 5.1.1 unknown' : undefined),
      final: '554 5.6.0 spam',
    });
    expect(told(await carry(['bad@example.test', 'good@example.test']))).toEqual({
      'bad@example.test': 'bounced: 550 5.1.1 unknown',
      'good@example.test': 'bounced: 554 5.6.0 spam',
    });
  });

  test('are two hundred', async () => {
    const { peer, carry } = await world({});
    const all = Array.from({ length: 200 }, (_, i) => `u${i}@example.test`);
    const result = await carry(all);
    expect(new Set(Object.values(told(result)))).toEqual(new Set(['delivered: 250 2.0.0 taken']));
    expect(peer.messages.map(({ to }) => to.length)).toEqual([100, 100]);
  });
});

describe('the message', () => {
  test('arrives as it is when it comes in pieces', async () => {
    const { peer, carry } = await world({});
    const pieces = ['Subject: x\r\n\r\n', '.one\r', '\n.', '\r\n..two\r\n', 'end'];
    async function* slowly() {
      for (const piece of pieces) {
        await Promise.resolve();
        yield Buffer.from(piece);
      }
    }
    expect(told(await carry('a@example.test', { body: { pieces: slowly } }))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.messages[0]?.data).toBe(pieces.join(''));
  });

  test('of some megabytes arrives', async () => {
    const { peer, carry } = await world({});
    const text = `Subject: x\r\n\r\n${'.a line with a dot\r\n'.repeat(200_000)}`;
    expect(told(await carry('a@example.test', { opened: bodyOf(text) }))).toBe('delivered: 250 2.0.0 taken');
    expect(`${peer.messages[0]?.data}\r\n`).toBe(text);
  });

  test('ends in the middle when the server has had enough of it, and so does the connection', async () => {
    const { peer, carry } = await world({
      data: { reply: '354 go ahead', thenReply: '552 5.3.4 too much', afterMs: 1 },
    });
    async function* pieces() {
      for (let i = 0; i < 100; i++) {
        yield Buffer.from('more and more\r\n');
        await new Promise((resolve) => {
          setTimeout(resolve, 5);
        });
      }
    }
    expect(told(await carry('a@example.test', { body: { pieces } }))).toBe('bounced: 552 5.3.4 too much');
    peer.script({});
    expect(told(await carry('a@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.connections().total).toBe(2);
    expect(peer.messages.length).toBe(1);
  });

  test('was not delivered when the server says so before it has it', async () => {
    const { peer, carry } = await world({ data: { raw: '354 go ahead\r\n250 2.0.0 already taken\r\n' } });
    expect(told(await carry('a@example.test'))).toBe(
      'unreachable: 421 4.5.0 the server replied before it had the message',
    );
    expect(peer.messages).toEqual([]);
  });

  test('may have arrived when the connection ends after it: it is tried later, not at once elsewhere', async () => {
    const second = await startSmtpPeer({ address: '127.0.0.2' });
    const { carry } = await world({ final: CLOSE }, { port: second.port }, { hosts: [['127.0.0.1'], ['127.0.0.2']] });
    const result = await carry('a@example.test');
    expect(told(result)).toBe('deferred: 421 4.4.2 the server closed the connection');
    expect(second.messages).toEqual([]);
  });

  test('does not leave when its lease is lost', async () => {
    const { peer, carry } = await world({}, {}, { mayLeave: () => false });
    expect(told(await carry('a@example.test'))).toBe('untouched: ');
    expect(peer.messages).toEqual([]);
    expect(peer.lines).toContain('DATA');
  });

  test('that cannot be made bounces or waits, and the connection goes on', async () => {
    const { peer, carry } = await world({});
    expect(told(await carry('a@example.test', { opened: { kind: 'unrenderable', reason: 'gone' } }))).toBe(
      'bounced: 550 5.6.0 gone',
    );
    const opened = { kind: 'unavailable', reason: 'no key' } as const;
    expect(told(await carry('a@example.test', { opened: { ...opened, isPassing: false } }))).toBe(
      'deferred: 451 4.3.0 no key',
    );
    expect(told(await carry('a@example.test', { opened: { ...opened, isPassing: true } }))).toBe(
      'postponed: 451 4.3.0 no key',
    );
    expect(told(await carry('a@example.test'))).toBe('delivered: 250 2.0.0 taken');
    expect(peer.connections().total).toBe(1);
  });
});

test('an address that would be a command is sent by no means', async () => {
  const { peer, carry } = await world({});
  expect(told(await carry('a@x.test>\r\nRCPT TO:<victim@example.test'))).toBe(
    'deferred: 451 4.3.0 an error on this server',
  );
  expect(peer.lines.filter((line) => line.startsWith('RCPT'))).toEqual([]);
});
