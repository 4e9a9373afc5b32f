import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type DecodedPacket, type Packet, RECURSION_DESIRED, decode, encode } from 'dns-packet';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const ZONE: readonly ZoneRecord[] = [
  { name: 'example.test', type: 'A', value: '192.0.2.1', ttl: 7 },
  { name: 'example.test', type: 'MX', value: '10 mail.example.test' },
  { name: 'big.test', type: 'TXT', value: 'x'.repeat(900) },
  { name: 'huge.test', type: 'TXT', value: 'x'.repeat(2000) },
  { name: '*.wild.test', type: 'A', value: '192.0.2.2' },
  { name: 'own.wild.test', type: 'TXT', value: 'own' },
  { name: 'silent.test', fault: 'SILENT' },
];
const EDNS: Packet['additionals'] = [
  {
    type: 'OPT',
    name: '.',
    udpPayloadSize: 1232,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  },
];

function question(name: string, type: 'A' | 'TXT' | 'MX' = 'A', more: Partial<Packet> = {}): Buffer {
  return encode({ type: 'query', id: 4711, flags: RECURSION_DESIRED, questions: [{ name, type }], ...more });
}

async function overUdp(address: string, ...messages: Buffer[]): Promise<DecodedPacket> {
  const socket = createSocket('udp4');
  onTestFinished(() => void socket.close());
  for (const message of messages) socket.send(message, Number(address.split(':')[1]), '127.0.0.1');
  const [reply] = await once(socket, 'message');
  return decode(reply);
}

function rcode(packet: DecodedPacket): number {
  return (packet.flags ?? 0) & 0xf;
}

test('a wildcard for everything stands for every name that has no records of its own', async () => {
  const { resolver } = await startTestDns([
    { name: '*', type: 'MX', value: '10 mx.inbox.test' },
    { name: 'mx.inbox.test', type: 'A', value: '127.0.0.1' },
  ]);
  const caught = { kind: 'found', records: [{ preference: 10, exchange: 'mx.inbox.test' }] };
  expect(await resolver.mx('else.where.example')).toEqual(caught);
  expect(await resolver.mx('inbox.test')).toEqual(caught);
  expect(await resolver.mx('mx.inbox.test')).toEqual({ kind: 'nodata' });
  expect(await resolver.addresses('else.where.example')).toEqual({ kind: 'nodata' });
});

describe('over UDP', () => {
  test('an answer is authoritative, with the question as it was asked', async () => {
    const { server } = await startTestDns(ZONE);
    const packet = await overUdp(server.address, question('ExAmPlE.test'));
    expect(packet).toMatchObject({
      id: 4711,
      type: 'response',
      flag_aa: true,
      flag_rd: true,
      questions: [{ name: 'ExAmPlE.test', type: 'A' }],
      answers: [{ name: 'ExAmPlE.test', type: 'A', ttl: 7, data: '192.0.2.1' }],
    });
  });

  test.each([
    ['no such name', 'none.test', 3],
    ['no such type', 'big.test', 0],
    ['a wildcard', 'any.wild.test', 0],
    ['below a wildcard', 'a.b.wild.test', 0],
    ['beside a wildcard, a name of its own', 'own.wild.test', 0],
    ['above a wildcard', 'wild.test', 0],
  ])('%s', async (_what, name, code) => {
    const { server } = await startTestDns(ZONE);
    const packet = await overUdp(server.address, question(name));
    expect(rcode(packet)).toBe(code);
    const wild = name === 'any.wild.test' || name === 'a.b.wild.test';
    expect(packet.answers).toHaveLength(wild ? 1 : 0);
  });

  test('what does not fit is cut: 512 octets without EDNS, 1,232 with it', async () => {
    const { server } = await startTestDns(ZONE);
    expect(await overUdp(server.address, question('big.test', 'TXT'))).toMatchObject({ flag_tc: true, answers: [] });
    const whole = await overUdp(server.address, question('big.test', 'TXT', { additionals: EDNS }));
    expect(whole).toMatchObject({ flag_tc: false, answers: [{ type: 'TXT' }], additionals: [{ type: 'OPT' }] });
    const cut = await overUdp(server.address, question('huge.test', 'TXT', { additionals: EDNS }));
    expect(cut).toMatchObject({ flag_tc: true, answers: [] });
  });

  test('noise, responses and silent names get nothing; the next question gets its answer', async () => {
    const { server } = await startTestDns(ZONE);
    const noise = [Buffer.from('noise'), Buffer.alloc(0), Buffer.alloc(12, 0xff)];
    const response = encode({ type: 'response', id: 1, questions: [{ name: 'example.test', type: 'A' }] });
    const packet = await overUdp(server.address, ...noise, response, question('silent.test'), question('example.test'));
    expect(packet).toMatchObject({ id: 4711, answers: [{ data: '192.0.2.1' }] });
  });

  test('other operations are not implemented, two questions are a format error', async () => {
    const { server } = await startTestDns(ZONE);
    const update = question('example.test', 'A', { flags: 5 << 11 });
    expect(rcode(await overUdp(server.address, update))).toBe(4);
    const two = question('', 'A', {
      questions: [
        { name: 'example.test', type: 'A' },
        { name: 'big.test', type: 'A' },
      ],
    });
    expect(rcode(await overUdp(server.address, two))).toBe(1);
  });
});

test('over TCP: many questions on one connection, in pieces', async () => {
  const { server } = await startTestDns(ZONE);
  const socket = connect(Number(server.address.split(':')[1]), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const stream = Buffer.concat(
    [question('huge.test', 'TXT'), question('example.test', 'MX')].flatMap((message) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(message.length);
      return [length, message];
    }),
  );
  socket.setNoDelay(true);
  for (const byte of stream) socket.write(Buffer.of(byte));
  const replies: DecodedPacket[] = [];
  let waiting = Buffer.alloc(0);
  for await (const chunk of socket) {
    waiting = Buffer.concat([waiting, chunk]);
    while (waiting.length >= 2 && waiting.length >= 2 + waiting.readUInt16BE()) {
      const end = 2 + waiting.readUInt16BE();
      replies.push(decode(waiting.subarray(2, end)));
      waiting = waiting.subarray(end);
    }
    if (replies.length === 2) break;
  }
  expect(replies).toMatchObject([
    { flag_tc: false, answers: [{ type: 'TXT' }] },
    { answers: [{ type: 'MX', data: { preference: 10, exchange: 'mail.example.test' } }] },
  ]);
});

test('the zone can be replaced while the server runs', async () => {
  const { server } = await startTestDns([]);
  expect(rcode(await overUdp(server.address, question('example.test')))).toBe(3);
  server.set(ZONE);
  expect(rcode(await overUdp(server.address, question('example.test')))).toBe(0);
  expect(server.questions()).toEqual(['A example.test', 'A example.test']);
});
