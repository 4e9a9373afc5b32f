import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import {
  AUTHENTIC_DATA,
  TRUNCATED_RESPONSE,
  decode,
  encode,
  streamDecode,
  streamEncode,
  type DecodedPacket,
  type Packet,
} from 'dns-packet';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createDnssec, type DnssecOptions } from '../../src/dns/dnssec.ts';
import { freePort } from '../harness/child.ts';
import { testClock } from '../harness/clock.ts';

interface Said extends Partial<Packet> {
  readonly isSecure?: boolean;
  readonly rcode?: number;
  /** Over UDP: that it is too long. */
  readonly isLong?: boolean;
}

const ADDRESS: Said = { answers: [{ type: 'A', name: 'host.test', ttl: 600, data: '192.0.2.1' }] };

/** A resolver on loopback that answers this, over UDP and TCP; null: nothing. Datagrams of `before` come first. */
async function startResolver(
  answer: (name: string, type: string) => Said | null,
  before: (query: DecodedPacket) => readonly Packet[] = () => [],
) {
  const asked: string[] = [];
  function replyTo(query: Packet, overTcp: boolean): Packet | undefined {
    const [question] = query.questions ?? [];
    if (question === undefined) return undefined;
    asked.push(`${question.type} ${question.name}${overTcp ? ' over TCP' : ''}`);
    const said = answer(question.name, question.type);
    if (said === null) return undefined;
    const { isSecure = true, rcode = 0, isLong = false, ...rest } = said;
    const isCut = isLong && !overTcp;
    const flags = (isSecure ? AUTHENTIC_DATA : 0) | (isCut ? TRUNCATED_RESPONSE : 0) | rcode;
    const reply: Packet = { type: 'response', id: query.id, flags, questions: query.questions, ...rest };
    return isCut ? { ...reply, answers: [] } : reply;
  }
  const tcp = createServer((socket) =>
    socket.once('data', (bytes: Buffer) => {
      const reply = replyTo(streamDecode(bytes), true);
      if (reply === undefined) return;
      const message = streamEncode(reply);
      socket.write(message.subarray(0, 5));
      setImmediate(() => socket.end(message.subarray(5)));
    }),
  );
  const port = await freePort();
  tcp.listen(port, '127.0.0.1');
  await once(tcp, 'listening');
  const udp = createSocket('udp4', (message, from) => {
    const query = decode(message);
    const reply = replyTo(query, false);
    for (const each of before(query)) udp.send(encode(each), from.port, from.address);
    if (reply !== undefined) udp.send(encode(reply), from.port, from.address);
  });
  udp.bind(port, '127.0.0.1');
  await once(udp, 'listening');
  onTestFinished(() => {
    udp.close();
    tcp.close();
  });
  return { address: `127.0.0.1:${port}`, asked };
}

function dnssec(servers: readonly string[], options: Partial<DnssecOptions> = {}) {
  return createDnssec({ servers, validating: 'auto', clock: testClock(), ...options });
}

describe('the AD flag', () => {
  test('is believed of a resolver on this machine that sets it for the root', async () => {
    const { address } = await startResolver(() => ADDRESS);
    const checked = dnssec([address]);
    expect(await checked.isValidating()).toBe(true);
    expect(await checked.objection()).toBeUndefined();
    expect(await checked.ask('A', 'Host.Test.')).toMatchObject({
      kind: 'answered',
      isSecure: true,
      records: [{ data: '192.0.2.1' }],
    });
  });

  test('is not believed of one that does not set it there', async () => {
    const { address } = await startResolver((name) => ({ isSecure: name !== '.' }));
    expect(await dnssec([address]).isValidating()).toBe(false);
    expect(await dnssec([address]).objection()).toContain('does not report the root zone as validated');
  });

  test.each(['192.0.2.53', '[2001:db8::53]:53', '127.0.0.11'])(
    'is not believed of %s, which is not asked',
    async (one) => {
      const { address, asked } = await startResolver(() => ADDRESS);
      expect(await dnssec([address, one]).isValidating()).toBe(false);
      expect(await dnssec([address, one]).objection()).toBe(`${one} is not a resolver on this machine`);
      expect(asked).toEqual([]);
    },
  );

  test('is believed of all, or of none, where the operator says so', async () => {
    const { address, asked } = await startResolver(() => ADDRESS);
    expect(await dnssec(['192.0.2.53'], { validating: true }).isValidating()).toBe(true);
    expect(await dnssec([address], { validating: false }).isValidating()).toBe(false);
    expect(await dnssec([address], { validating: false }).objection()).toBe('dns.validating is false');
    expect(asked).toEqual([]);
  });

  test('is looked for again, and a resolver that is silent for a while changes nothing', async () => {
    let said: Said | null = {};
    const { address } = await startResolver(() => said);
    const clock = testClock();
    const checked = dnssec([address], { clock, timeoutMs: 200 });
    expect(await checked.isValidating()).toBe(true);
    said = null;
    clock.advance(10 * 60_000);
    expect(await checked.isValidating()).toBe(true);
    said = { isSecure: false };
    expect(await checked.isValidating()).toBe(false);
  });
});

describe('a question', () => {
  test('is asked again over TCP where the answer is too long', async () => {
    const { address, asked } = await startResolver(() => ({ ...ADDRESS, isLong: true }));
    expect(await dnssec([address]).ask('A', 'host.test')).toMatchObject({ records: [{ data: '192.0.2.1' }] });
    expect(asked).toEqual(['A host.test', 'A host.test over TCP']);
  });

  test('is answered by its own answer alone', async () => {
    const { address } = await startResolver(
      () => ADDRESS,
      ({ id = 0, questions }) => {
        const forged = [{ type: 'A', name: 'host.test', data: '192.0.2.66' }] as const;
        return [
          { type: 'response', id: (id + 1) % 65_536, flags: AUTHENTIC_DATA, questions, answers: [...forged] },
          {
            type: 'response',
            id,
            flags: AUTHENTIC_DATA,
            questions: [{ type: 'A', name: 'other.test' }],
            answers: [...forged],
          },
          { type: 'query', id, questions },
        ];
      },
    );
    expect(await dnssec([address]).ask('A', 'host.test')).toMatchObject({ records: [{ data: '192.0.2.1' }] });
  });

  test.each<[string, Said | null, string]>([
    ['SERVFAIL', { rcode: 2 }, 'SERVFAIL'],
    ['REFUSED', { rcode: 5 }, 'REFUSED'],
    ['silence', null, 'took longer than'],
  ])('fails with %s', async (_, said, words) => {
    const { address } = await startResolver(() => said);
    const answer = await dnssec([address], { timeoutMs: 200 }).ask('TLSA', '_25._tcp.host.test');
    expect(answer).toEqual({ kind: 'failed', reason: expect.stringContaining(words) });
  });

  test('fails where nobody listens, and goes on to the next resolver', async () => {
    const { address } = await startResolver(() => ADDRESS);
    expect(await dnssec(['127.0.0.1:1']).ask('A', 'host.test')).toMatchObject({ kind: 'failed' });
    expect(await dnssec(['127.0.0.1:1', address]).ask('A', 'host.test')).toMatchObject({ kind: 'answered' });
  });

  test('is asked once while its answer holds, and anew by whoever wants it fresh', async () => {
    const { address, asked } = await startResolver(() => ADDRESS);
    const clock = testClock();
    const checked = dnssec([address], { clock });
    await Promise.all([checked.ask('A', 'host.test'), checked.ask('A', 'host.test')]);
    await checked.ask('A', 'HOST.test');
    expect(asked.length).toBe(1);
    await checked.fresh().ask('A', 'host.test');
    expect(asked.length).toBe(2);
    clock.advance(5 * 60_000);
    await checked.ask('A', 'host.test');
    expect(asked.length).toBe(3);
  });
});
