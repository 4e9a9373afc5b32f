/**
 * An authoritative DNS server for a zone that may change while it runs, on loopback only, over UDP and TCP. It is what
 * makes verification and delivery of the dev world and of the tests the real thing: nothing in the daemon is told to
 * skip DNS.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type Server, type Socket, createServer } from 'node:net';
import {
  type DecodedPacket,
  type Packet,
  AUTHORITATIVE_ANSWER,
  TRUNCATED_RESPONSE,
  decode,
  encode,
  type Answer,
  type RecordType,
} from 'dns-packet';
import { codeOf } from '../lib/errors.ts';

export interface DnsServer {
  /** `HOST:PORT`, for UDP and TCP alike; fits `dns.servers`. */
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

/** Starts on a free port of 127.0.0.1, or at this place. */
export async function startDnsServer(
  records: readonly ZoneRecord[],
  { host, port: wanted }: { readonly host: string; readonly port: number } = { host: '127.0.0.1', port: 0 },
): Promise<DnsServer> {
  let zone = records;
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

  const { tcp, udp, port } = await bindBoth(
    () =>
      createServer((socket) => {
        sockets.add(socket);
        socket.on('close', () => sockets.delete(socket));
        serveTcp(socket, (message) => reply(message, false));
      }),
    () =>
      createSocket('udp4', function answer(this: UdpSocket, message, from) {
        const bytes = reply(message, true);
        if (bytes !== undefined) this.send(bytes, from.port, from.address);
      }),
    { host, port: wanted },
  );

  let closed: Promise<unknown> | undefined;
  function close(): Promise<unknown> {
    for (const socket of sockets) socket.destroy();
    return Promise.all([
      new Promise((resolve) => tcp.close(resolve)),
      new Promise<void>((resolve) => udp.close(resolve)),
    ]);
  }

  return {
    address: `${host}:${port}`,
    set(next) {
      zone = next;
    },
    questions: () => asked,
    async close() {
      closed ??= close();
      await closed;
    },
  };
}

const MAX_BINDS = 10;

/** Sockets at one port, a free one where it is 0: one that is free for TCP may be in use for UDP. */
async function bindBoth(
  makeTcp: () => Server,
  makeUdp: () => UdpSocket,
  { host, port: wanted }: { readonly host: string; readonly port: number },
) {
  for (let tries = 1; ; tries++) {
    const tcp = makeTcp().listen(wanted, host);
    await once(tcp, 'listening');
    const bound = tcp.address();
    if (bound === null || typeof bound === 'string') throw new Error('the DNS server has no port');
    const { port } = bound;
    const udp = makeUdp();
    try {
      udp.bind(port, host);
      await once(udp, 'listening');
      return { tcp, udp, port };
    } catch (error) {
      tcp.close();
      udp.close();
      if (codeOf(error) !== 'EADDRINUSE' || tries === MAX_BINDS) throw error;
    }
  }
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

// * A DNS zone as plain data, and what an authoritative server says of it: exact names first, then wildcards, CNAMEs
// followed inside the zone, names that only have names below them told apart from names that are not there. A fault makes
// a name fail the way real servers do.

type ZoneType = 'A' | 'AAAA' | 'CNAME' | 'MX' | 'NS' | 'PTR' | 'TXT';

export type ZoneRecord =
  | {
      /** `example.test`, or a wildcard: `*.example.test`, `*` for every name that nothing else stands for. */
      readonly name: string;
      readonly type: ZoneType;
      /** As in a zone file, unquoted: `10 mail.example.test` for an MX, `0 .` for a null MX. A TXT of any length. */
      readonly value: string;
      /** Seconds; default: 60. */
      readonly ttl?: number;
    }
  | {
      readonly name: string;
      readonly fault: 'SERVFAIL' | 'REFUSED' | 'SILENT';
      /** The one type that fails; default: every type. */
      readonly only?: ZoneType;
    };

export type ZoneAnswer =
  | { readonly rcode: 'NOERROR' | 'NXDOMAIN'; readonly answers: Answer[] }
  | { readonly rcode: 'SERVFAIL' | 'REFUSED' | 'SILENT' };

const MOST_CNAMES = 8;

/** What the zone says to one question. */
function askZone(zone: readonly ZoneRecord[], name: string, type: RecordType): ZoneAnswer {
  const answers: Answer[] = [];
  let owner = name;
  for (let step = 0; step <= MOST_CNAMES; step++) {
    const here = standingFor(zone, owner.toLowerCase().replace(/\.$/, ''));
    if (here === undefined) return { rcode: 'NXDOMAIN', answers };
    const fault = here.find((record) => 'fault' in record && (record.only === undefined || record.only === type));
    if (fault !== undefined && 'fault' in fault) return { rcode: fault.fault };
    const rows = here.filter((record) => 'type' in record);
    const asked = rows.filter((record) => record.type === type);
    const alias = rows.find((record) => record.type === 'CNAME');
    if (asked.length > 0 || alias === undefined) {
      return { rcode: 'NOERROR', answers: [...answers, ...asked.map((record) => answerOf(record, owner))] };
    }
    answers.push(answerOf(alias, owner));
    owner = alias.value;
  }
  // Recursive resolvers give up on a loop this way.
  return { rcode: 'SERVFAIL' };
}

/**
 * The records that answer for a name: its own, else the nearest wildcard's; none at all if the name does not exist. Unlike
 * RFC 4592 a wildcard stands for a name that only has names below it, too: `*` is every name that nobody wrote down.
 */
function standingFor(zone: readonly ZoneRecord[], name: string): readonly ZoneRecord[] | undefined {
  const labels = name.split('.');
  const wildcards = labels.map((_, i) => ['*', ...labels.slice(i + 1)].join('.'));
  for (const owner of [name, ...wildcards]) {
    const here = zone.filter((record) => record.name.toLowerCase() === owner);
    if (here.length > 0) return here;
  }
  return zone.some((record) => record.name.toLowerCase().endsWith(`.${name}`)) ? [] : undefined;
}

function answerOf({ type, value, ttl = 60 }: Extract<ZoneRecord, { type: string }>, name: string): Answer {
  switch (type) {
    case 'TXT':
      return { name, ttl, type, data: characterStrings(value) };
    case 'MX': {
      const [preference = '0', exchange = '.'] = value.split(/\s+/);
      return { name, ttl, type, data: { preference: Number(preference), exchange } };
    }
    case 'A':
    case 'AAAA':
    case 'CNAME':
    case 'NS':
    case 'PTR':
      return { name, ttl, type, data: value };
  }
}

/** A TXT record holds strings of at most 255 octets (RFC 1035 §3.3). */
function characterStrings(value: string): Buffer[] {
  const bytes = Buffer.from(value);
  const parts: Buffer[] = [];
  for (let at = 0; at === 0 || at < bytes.length; at += 255) parts.push(bytes.subarray(at, at + 255));
  return parts;
}
