/**
 * Questions to a validating resolver, which says of each answer whether DNSSEC proves it (the AD flag, RFC 4035 §3.2.3). Node's
 * own look-ups do not tell. The flag travels in clear text: it is believed from a resolver on this machine that sets it
 * for the root, or from those that the operator calls validating. Nothing here rejects.
 */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, isIP } from 'node:net';
import {
  DNSSEC_OK,
  RECURSION_DESIRED,
  decode,
  encode,
  type Answer as ResourceRecord,
  type DecodedPacket,
  type OptAnswer,
} from 'dns-packet';
import { withDeadline, type Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { addressInRanges } from './networks.ts';
import { configuredServers, hostName, remember } from './resolver.ts';

export type CheckedType = 'A' | 'AAAA' | 'CNAME' | 'MX' | 'SOA' | 'TLSA';

export type CheckedAnswer =
  | {
      readonly kind: 'answered';
      /** DNSSEC proves it, also where it says that there is nothing. */
      readonly isSecure: boolean;
      /** With the CNAMEs that lead there. */
      readonly records: readonly ResourceRecord[];
    }
  /** No answer, or one that DNSSEC disproves: never to be read as "there is none". */
  | { readonly kind: 'failed'; readonly reason: string };

export interface Dnssec {
  ask(type: CheckedType, name: string): Promise<CheckedAnswer>;
  /** Whether `isSecure` may be believed. */
  isValidating(): Promise<boolean>;
  /** Why it may not; undefined where it may. */
  objection(): Promise<string | undefined>;
  /** The same, asking past its cache. */
  fresh(): Dnssec;
}

export interface DnssecOptions {
  /** `dns.servers` and `dns.validating`. */
  readonly servers: readonly string[];
  readonly validating: 'auto' | boolean;
  readonly clock: Clock;
  /** For one question with all its tries; default: 5,000 ms. */
  readonly timeoutMs?: number;
}

interface Server {
  readonly host: string;
  readonly port: number;
}

interface Question {
  readonly type: CheckedType;
  readonly name: string;
}

const LOOPBACK = ['127.0.0.0/8', '::1'];
/** Docker's, which passes on what a resolver elsewhere says. */
const FORWARDERS = ['127.0.0.11'];
/** What arrives unfragmented everywhere; longer answers come over TCP (RFC 6891 §6.2.5). */
const UDP_PAYLOAD = 1232;
const ROUNDS = 2;
const MAX_TCP_BYTES = 65_537;
/** More are not worth the memory. */
const MAX_RECORDS = 50;
const POSITIVE_MS = 5 * 60e3;
const NEGATIVE_MS = 60e3;
const SERVERS_MS = 60e3;

export function createDnssec({ servers, validating, clock, timeoutMs = 5000 }: DnssecOptions): Dnssec {
  /** What the resolver last proved. */
  let proven = false;
  let known: { readonly servers: readonly string[]; readonly until: number } | undefined;

  /** The system's may change; to read them takes longer than to ask. */
  function current(): readonly string[] {
    const now = clock.monotonic();
    if (known === undefined || known.until <= now) {
      known = { servers: configuredServers(servers), until: now + SERVERS_MS };
    }
    return known.servers;
  }

  function question(type: CheckedType) {
    return remember(clock, async (name) => {
      const answer = await ask({ type, name });
      return { answer, ms: lifeOf(answer) };
    });
  }
  const byType = {
    A: question('A'),
    AAAA: question('AAAA'),
    CNAME: question('CNAME'),
    MX: question('MX'),
    SOA: question('SOA'),
    TLSA: question('TLSA'),
  };

  async function ask(question: Question): Promise<CheckedAnswer> {
    const all = current().map(serverOf);
    const what = `${question.type} ${question.name}`;
    let reason = 'no DNS server can be reached';
    for (const server of Array.from({ length: ROUNDS }, () => all).flat()) {
      const ending = new AbortController();
      try {
        const reply = exchange(server, question, ending.signal);
        return answerOf(await withDeadline(timeoutMs / ROUNDS / all.length, what, reply), what);
      } catch (error) {
        reason = messageOf(error);
      } finally {
        ending.abort();
      }
    }
    return { kind: 'failed', reason: `${what}: ${reason}` };
  }

  /** Why what it says is not believed, whatever it says. */
  function distrust(): string | undefined {
    if (validating === false) return 'dns.validating is false';
    if (validating === true) return undefined;
    const distant = current().find(
      (each) => !addressInRanges(serverOf(each).host, LOOPBACK) || addressInRanges(serverOf(each).host, FORWARDERS),
    );
    return distant === undefined ? undefined : `${distant} is not a resolver on this machine`;
  }

  /** The root's own records are proven wherever anything is. */
  async function isValidating(past: boolean): Promise<boolean> {
    if (validating !== 'auto') return validating;
    if (distrust() !== undefined) return false;
    const root = await byType.SOA('.', past);
    if (root.kind === 'answered') proven = root.isSecure;
    return proven;
  }

  function view(past: boolean): Dnssec {
    const self: Dnssec = {
      ask: (type, name) => byType[type](hostName(name), past),
      isValidating: () => isValidating(past),
      async objection() {
        const reason = distrust();
        if (reason !== undefined) return reason;
        const root = await byType.SOA('.', true);
        if (root.kind === 'failed') return root.reason;
        const named = current().join(', ');
        return root.isSecure ? undefined : `${named} does not report the root zone as validated (AD flag)`;
      },
      fresh: () => (past ? self : view(true)),
    };
    return self;
  }
  return view(false);
}

/** Answers for their TTL and at most five minutes, "there is none" for one minute, failures not at all. */
function lifeOf(answer: CheckedAnswer): number {
  if (answer.kind === 'failed') return 0;
  const ttls = answer.records.map((record) => ('ttl' in record ? (record.ttl ?? 0) : 0));
  if (ttls.length > MAX_RECORDS) return 0;
  return ttls.length === 0 ? NEGATIVE_MS : Math.min(POSITIVE_MS, ...ttls.map((ttl) => ttl * 1000));
}

function answerOf({ flags = 0, flag_ad: isSecure, answers = [] }: DecodedPacket, what: string): CheckedAnswer {
  const code = RCODES[flags & 0xf];
  if (code !== undefined) return { kind: 'failed', reason: `${what}: the DNS server answers ${code}` };
  return { kind: 'answered', isSecure, records: answers.filter(({ type }) => type !== 'RRSIG') };
}

/** Of answers that are none; a name that does not exist has no records (3), and that is one. */
const RCODES: readonly (string | undefined)[] = [
  undefined,
  'FORMERR',
  'SERVFAIL: it cannot be reached, or DNSSEC validation failed',
  undefined,
  'NOTIMP',
  'REFUSED',
  ...Array.from({ length: 10 }, () => 'with an error'),
];

/** As `dns.servers` has it: with a port or without, an IPv6 address with one in brackets. */
function serverOf(text: string): Server {
  const [, host = text, port = '53'] =
    /^\[(.+)\](?::(\d+))?$/.exec(text) ?? (isIP(text) === 0 ? /^(.+):(\d+)$/.exec(text) : null) ?? [];
  return { host, port: Number(port) };
}

/** Rejects where there is no answer to this very question. */
async function exchange(server: Server, question: Question, signal: AbortSignal): Promise<DecodedPacket> {
  const id = randomInt(65_536);
  const edns: OptAnswer = {
    type: 'OPT',
    name: '.',
    udpPayloadSize: UDP_PAYLOAD,
    extendedRcode: 0,
    ednsVersion: 0,
    // Not the AD flag, which a server might repeat without knowing it (RFC 6840 §5.7).
    flags: DNSSEC_OK,
    flag_do: true,
    options: [],
  };
  const query = encode({ type: 'query', id, flags: RECURSION_DESIRED, questions: [question], additionals: [edns] });
  function isReply(packet: DecodedPacket): boolean {
    const [asked] = packet.questions ?? [];
    const isSame = asked?.type === question.type && asked.name.toLowerCase() === question.name.toLowerCase();
    return packet.flag_qr && packet.id === id && isSame;
  }
  const reply = await overUdp(server, { query, isReply, signal });
  return reply.flag_tc ? overTcp(server, { query, isReply, signal }) : reply;
}

interface Exchange {
  readonly query: Buffer;
  readonly isReply: (packet: DecodedPacket) => boolean;
  readonly signal: AbortSignal;
}

/** Whatever else arrives is waited past: anybody may send it. */
async function overUdp({ host, port }: Server, { query, isReply, signal }: Exchange): Promise<DecodedPacket> {
  const socket = createSocket({ type: isIP(host) === 6 ? 'udp6' : 'udp4', signal });
  socket.connect(port, host);
  await once(socket, 'connect', { signal });
  return new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('message', (message) => {
      const packet = decoded(message);
      if (packet !== undefined && isReply(packet)) resolve(packet);
    });
    socket.send(query);
  });
}

/** With two octets of length in front (RFC 1035 §4.2.2). */
async function overTcp({ host, port }: Server, { query, isReply, signal }: Exchange): Promise<DecodedPacket> {
  const socket = connect({ host, port, signal });
  const length = Buffer.alloc(2);
  length.writeUInt16BE(query.length);
  socket.write(Buffer.concat([length, query]));
  let received = Buffer.alloc(0);
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk]);
    if (received.length > MAX_TCP_BYTES) break;
    if (received.length < 2 || received.length < 2 + received.readUInt16BE()) continue;
    const packet = decoded(received.subarray(2, 2 + received.readUInt16BE()));
    if (packet !== undefined && isReply(packet)) return packet;
    break;
  }
  throw new Error('the DNS server sent an invalid response');
}

function decoded(message: Buffer): DecodedPacket | undefined {
  try {
    return decode(message);
  } catch {
    return undefined; // not DNS
  }
}
