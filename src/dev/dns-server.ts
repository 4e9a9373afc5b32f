/**
 * An authoritative DNS server for a zone that may change while it runs, on loopback only, over UDP and TCP. It is what
 * makes verification and delivery of the dev world and of the tests the real thing: nothing in the daemon is told to
 * skip DNS.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type Socket, createServer } from 'node:net';
import { type DecodedPacket, type Packet, AUTHORITATIVE_ANSWER, TRUNCATED_RESPONSE, decode, encode } from 'dns-packet';
import { type ZoneRecord, askZone } from './zone.ts';

export type { ZoneRecord } from './zone.ts';

export interface DnsServer {
  /** `127.0.0.1:PORT`, for UDP and TCP alike; fits `dns.servers`. */
  readonly address: string;
  /** Replaces the whole zone. */
  set(records: readonly ZoneRecord[]): void;
  /** What was asked so far, as `TXT example.test`, in order; the newest 10,000. */
  questions(): readonly string[];
  close(): Promise<void>;
}

const RCODES = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const;
const MOST_QUESTIONS = 10_000;
const MOST_TCP_BYTES = 64 * 1024;

/** Starts on a free port of 127.0.0.1, or on `port`. */
export async function startDnsServer(options: {
  readonly records: readonly ZoneRecord[];
  readonly port?: number;
}): Promise<DnsServer> {
  let zone = options.records;
  const asked: string[] = [];
  const sockets = new Set<Socket>();

  function reply(message: Buffer, overUdp: boolean): Buffer | undefined {
    const query = decoded(message);
    if (query === undefined) return undefined;
    const question = query.questions?.[0];
    if (question !== undefined && asked.push(`${question.type} ${question.name.toLowerCase()}`) > MOST_QUESTIONS) {
      asked.shift();
    }
    return replyTo(query, zone, overUdp);
  }

  const tcp = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serveTcp(socket, (message) => reply(message, false));
  });
  tcp.listen(options.port ?? 0, '127.0.0.1');
  await once(tcp, 'listening');
  const bound = tcp.address();
  if (bound === null || typeof bound === 'string') throw new Error('the DNS server has no port');

  const udp = createSocket('udp4', (message, from) => {
    const bytes = reply(message, true);
    if (bytes !== undefined) udp.send(bytes, from.port, from.address);
  });
  udp.bind(bound.port, '127.0.0.1');
  await once(udp, 'listening');

  let closed: Promise<unknown> | undefined;
  function close(): Promise<unknown> {
    for (const socket of sockets) socket.destroy();
    return Promise.all([
      new Promise((resolve) => tcp.close(resolve)),
      new Promise<void>((resolve) => udp.close(resolve)),
    ]);
  }

  return {
    address: `127.0.0.1:${bound.port}`,
    set(records) {
      zone = records;
    },
    questions: () => asked,
    async close() {
      closed ??= close();
      await closed;
    },
  };
}

/** Each message comes with two octets of length in front of it, many on one connection (RFC 1035 §4.2.2). */
function serveTcp(socket: Socket, reply: (message: Buffer) => Buffer | undefined): void {
  let waiting = Buffer.alloc(0);
  socket.setTimeout(10_000, () => socket.destroy());
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    waiting = Buffer.concat([waiting, chunk]);
    if (waiting.length > MOST_TCP_BYTES) socket.destroy();
    for (let size = lengthOf(waiting); size !== undefined; size = lengthOf(waiting)) {
      const bytes = reply(waiting.subarray(2, 2 + size));
      waiting = waiting.subarray(2 + size);
      if (bytes === undefined) continue;
      const prefix = Buffer.alloc(2);
      prefix.writeUInt16BE(bytes.length);
      socket.write(Buffer.concat([prefix, bytes]));
    }
  });
}

function lengthOf(waiting: Buffer): number | undefined {
  if (waiting.length < 2) return undefined;
  const size = waiting.readUInt16BE();
  return waiting.length < 2 + size ? undefined : size;
}

function decoded(message: Buffer): DecodedPacket | undefined {
  try {
    return decode(message);
  } catch {
    return undefined; // not DNS: a server on UDP does not answer noise
  }
}

function replyTo(query: DecodedPacket, zone: readonly ZoneRecord[], overUdp: boolean): Buffer | undefined {
  if (query.flag_qr) return undefined;
  const questions = query.questions ?? [];
  const [question] = questions;
  const opcode = ((query.flags ?? 0) >> 11) & 0xf;
  if (opcode !== 0) return packed(query, { rcode: 'NOTIMP', overUdp });
  if (question === undefined || questions.length > 1) return packed(query, { rcode: 'FORMERR', overUdp });
  const said = askZone(zone, question.name, question.type);
  if (said.rcode === 'SILENT') return undefined;
  const answers = 'answers' in said ? said.answers : [];
  return packed(query, { rcode: said.rcode, answers, overUdp });
}

interface Reply {
  readonly rcode: keyof typeof RCODES;
  readonly answers?: Packet['answers'];
  readonly overUdp: boolean;
}

function packed(query: DecodedPacket, { rcode, answers = [], overUdp }: Reply): Buffer {
  const edns = query.additionals?.find((record) => record.type === 'OPT');
  const recursionDesired = (query.flags ?? 0) & 0x0100;
  const reply: Packet = {
    type: 'response',
    id: query.id,
    flags: AUTHORITATIVE_ANSWER | recursionDesired | RCODES[rcode],
    questions: query.questions,
    answers,
    additionals: edns === undefined ? [] : [{ ...edns, udpPayloadSize: 1232, extendedRcode: 0, options: [] }],
  };
  const bytes = encode(reply);
  // RFC 6891 §6.2.3: without EDNS a UDP message holds 512 octets; with it what the asker takes. The rest goes over TCP.
  const room = edns === undefined ? 512 : Math.max(512, Math.min(edns.udpPayloadSize, 1232));
  if (!overUdp || bytes.length <= room) return bytes;
  return encode({ ...reply, flags: (reply.flags ?? 0) | TRUNCATED_RESPONSE, answers: [] });
}
