/**
 * All DNS look-ups; the only file that imports node:dns. Every look-up ends within an absolute time-out, equal
 * questions are asked once at a time, and answers are remembered for a short while. Whatever DNS says is a
 * value: nothing here rejects.
 */
import { promises as dns } from 'node:dns';
import { DeadlineError, withDeadline, type Clock, systemClock } from '../lib/clock.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';

export interface ResolverOptions {
  /** `address` or `address:port` (IPv6 with a port in brackets); empty: the system's. */
  readonly servers: readonly string[];
  /** For one question with all its tries; default: 5,000 ms. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  readonly log?: Log;
}

/** Whom to ask: those that are configured, else the system's. */
export function configuredServers(servers: readonly string[]): readonly string[] {
  return servers.length > 0 ? servers : new dns.Resolver().getServers();
}

interface Found<T> {
  readonly record: T;
  readonly ttl?: number;
}

/** A resolver with a cache of its own. */
export function createResolver(options: ResolverOptions): Resolver {
  const { servers, timeoutMs = 5000, clock = systemClock, log = silentLog } = options;
  let client: dns.Resolver | undefined;

  function connected(): dns.Resolver {
    if (client !== undefined) return client;
    // c-ares doubles the wait on its second round: a third and two thirds fill the time-out.
    client = new dns.Resolver({ timeout: Math.ceil(timeoutMs / 3), tries: 2 });
    if (servers.length > 0) client.setServers(servers);
    return client;
  }

  async function ask<T>(what: string, query: (client: dns.Resolver) => Promise<Found<T>[]>): Promise<Timed<Answer<T>>> {
    try {
      const found = await withDeadline(timeoutMs, what, query(connected()));
      if (found.length === 0) return { answer: { kind: 'nodata' }, ms: NEGATIVE_MS };
      const answer = { kind: 'found', records: found.map(({ record }) => record) } as const;
      const ttl = Math.min(...found.map(({ ttl = Infinity }) => ttl));
      return { answer, ms: found.length > MAX_RECORDS ? 0 : Math.min(POSITIVE_MS, ttl * 1000) };
    } catch (error) {
      const answer = failure(error, what);
      if (answer.kind !== 'failed') return { answer, ms: NEGATIVE_MS };
      log.debug('dns.failed', { reason: answer.reason });
      // The system's servers may have changed since they were read; the next question reads them anew.
      if (servers.length === 0) client = undefined;
      return { answer, ms: 0 };
    }
  }

  function question<T>(type: string, query: (client: dns.Resolver, name: string) => Promise<Found<T>[]>): Ask<T> {
    return remember(clock, (name) => ask(`${type} ${name}`, (client) => query(client, name)));
  }

  // Node reads each octet of a text as a character; what people write there is UTF-8.
  const txt = question('TXT', async (at, name) =>
    (await at.resolveTxt(name)).map((parts) => ({ record: Buffer.from(parts.join(''), 'latin1').toString() })),
  );
  const mx = question('MX', async (at, name) =>
    (await at.resolveMx(name)).map(({ priority, exchange }) => ({
      record: { preference: priority, exchange: hostName(exchange) },
    })),
  );

  function addresses(type: 'A' | 'AAAA', method: 'resolve4' | 'resolve6'): Ask<string> {
    return question(type, async (at, name) =>
      (await at[method](name, { ttl: true })).map(({ address, ttl }) => ({ record: address, ttl })),
    );
  }

  function names(type: 'CNAME' | 'PTR', method: 'resolveCname' | 'resolvePtr'): Ask<string> {
    return question(type, async (at, name) => (await at[method](name)).map((host) => ({ record: hostName(host) })));
  }

  const byType = {
    A: addresses('A', 'resolve4'),
    AAAA: addresses('AAAA', 'resolve6'),
    CNAME: names('CNAME', 'resolveCname'),
    PTR: names('PTR', 'resolvePtr'),
  };

  function view(past: boolean): Resolver {
    const self: Resolver = {
      txt: (name) => txt(hostName(name), past),
      mx: (name) => mx(hostName(name), past),
      lookup: (name, type) => byType[type](hostName(name), past),
      addresses: async (name) => together(await Promise.all([self.lookup(name, 'A'), self.lookup(name, 'AAAA')])),
      fresh: () => (past ? self : view(true)),
    };
    return self;
  }
  return view(false);
}

const WORDS: Readonly<Record<string, string>> = {
  ESERVFAIL: 'the DNS server answered SERVFAIL',
  EREFUSED: 'the DNS server refused the query',
  ENOTIMP: 'the DNS server does not support this query',
  EFORMERR: 'the DNS server could not parse the query',
  EBADRESP: 'the DNS server sent an invalid response',
  ECONNREFUSED: 'no DNS server can be reached',
  ETIMEOUT: 'no answer from DNS in time',
};

function failure(error: unknown, what: string): Exclude<Answer<never>, { kind: 'found' }> {
  const code = codeOf(error) ?? '';
  if (code === 'ENODATA') return { kind: 'nodata' };
  // EBADNAME: what cannot be asked cannot exist (an empty label, a label of more than 63 octets).
  if (code === 'ENOTFOUND' || code === 'EBADNAME') return { kind: 'nxdomain' };
  const words = error instanceof DeadlineError ? WORDS['ETIMEOUT'] : WORDS[code];
  return { kind: 'failed', reason: `${what}: ${words ?? messageOf(error)}` };
}

/** As names are compared: lower case, no trailing dot. */
export function hostName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/**
 * What DNS says to a question, in the four ways that matter: records, "no such name", "the name is there, this type is
 * not", and "nobody could say". The last one never proves anything.
 */
export type Answer<T> =
  | {
      readonly kind: 'found';
      readonly records: readonly T[];
      /** There may be more: why not all could be asked. That something is not among these is not proven then. */
      readonly partial?: string;
    }
  | { readonly kind: 'nxdomain' }
  | { readonly kind: 'nodata' }
  | { readonly kind: 'failed'; readonly reason: string };

export type Failed = Extract<Answer<never>, { kind: 'failed' }>;

export interface MxRecord {
  readonly preference: number;
  /** Lower case, no trailing dot; empty for the null MX (RFC 7505). */
  readonly exchange: string;
}

export type LookupType = 'A' | 'AAAA' | 'CNAME' | 'PTR';

export interface Resolver {
  /** Each record as one string, its parts joined. */
  txt(name: string): Promise<Answer<string>>;
  mx(name: string): Promise<Answer<MxRecord>>;
  /** IPv4 and IPv6 addresses. Found if one family is, partial if the other could not be asked; failed if neither is then. */
  addresses(name: string): Promise<Answer<string>>;
  /** Addresses of one family, or the names that a CNAME or PTR record points to. */
  lookup(name: string, type: LookupType): Promise<Answer<string>>;
  /** The same resolver, asking past its cache. */
  fresh(): Resolver;
}

/** Answers to several questions as one: all that was found, and whether there may be more. */
export function together<T>(answers: readonly Answer<T>[]): Answer<T> {
  const records = answers.flatMap(recordsOf);
  const silence = answers.map(silenceOf).find((reason) => reason !== undefined);
  if (records.length > 0) return { kind: 'found', records, ...(silence === undefined ? {} : { partial: silence }) };
  if (silence !== undefined) return { kind: 'failed', reason: silence };
  return { kind: answers.some(({ kind }) => kind === 'nodata') ? 'nodata' : 'nxdomain' };
}

/** What was found; nothing where nothing was. */
export function recordsOf<T>(answer: Answer<T>): readonly T[] {
  return answer.kind === 'found' ? answer.records : [];
}

/** Why this is not all that DNS has to say; undefined where it is. */
export function silenceOf(answer: Answer<unknown>): string | undefined {
  if (answer.kind === 'failed') return answer.reason;
  return answer.kind === 'found' ? answer.partial : undefined;
}

// * A short, bounded memory for answers: found ones for their TTL and at most five minutes, "there is none" for one minute,
// failures not at all. Equal questions that are asked at the same time are asked once.

/** An answer, and for how long it is remembered. */
interface Timed<A> {
  readonly answer: A;
  readonly ms: number;
}

/** Answers a name from memory, unless `past` asks DNS anew; either way the answer is remembered. */
type Remembered<A> = (name: string, past: boolean) => Promise<A>;
type Ask<T> = Remembered<Answer<T>>;

const POSITIVE_MS = 5 * 60e3;
const NEGATIVE_MS = 60e3;
const MAX_ENTRIES = 1000;
/** Nobody's mail needs more records than this: what is that large is not worth the memory. */
const MAX_RECORDS = 50;

/** Puts such a memory in front of `ask`. */
export function remember<A>(clock: Clock, ask: (name: string) => Promise<Timed<A>>): Remembered<A> {
  const kept = new LruMap<{ answer: A; until: number }>(MAX_ENTRIES);
  const pending = new Map<string, Promise<A>>();

  async function askAndKeep(name: string): Promise<A> {
    try {
      const { answer, ms } = await ask(name);
      if (ms > 0) kept.set(name, { answer, until: clock.monotonic() + ms });
      else kept.delete(name);
      return answer;
    } finally {
      pending.delete(name);
    }
  }

  return (name, past) => {
    const entry = past ? undefined : kept.get(name);
    if (entry !== undefined && entry.until > clock.monotonic()) return Promise.resolve(entry.answer);
    const running = pending.get(name) ?? askAndKeep(name);
    pending.set(name, running);
    return running;
  };
}

// The resolver in the shape that mailauth, which checks DKIM, SPF and DMARC, asks for.

/**
 * The resolver as mailauth wants it: Node's records, and errors with Node's codes. A question that could not be answered
 * is ESERVFAIL, which every check of mailauth reports as a temporary error.
 */
export function mailauthResolver(
  resolver: Pick<Resolver, 'txt' | 'mx' | 'lookup'>,
): (name: string, type: string) => Promise<string[][] | string[]> {
  return async (name, type) => {
    switch (type) {
      case 'TXT':
        return records(await resolver.txt(name), name).map((text) => [text]);
      case 'MX': {
        const found = records(await resolver.mx(name), name);
        const asNode: unknown = found.map(({ preference, exchange }) => ({ priority: preference, exchange }));
        // oxlint-disable-next-line no-unsafe-type-assertion -- mailauth's own types leave out that MX records are objects
        return asNode as string[];
      }
      case 'A':
      case 'AAAA':
      case 'CNAME':
      case 'PTR':
        return [...records(await resolver.lookup(name, type), name)];
      default:
        throw new Error(`no look-up of ${type} records here`);
    }
  };
}

function records<T>(answer: Answer<T>, name: string): readonly T[] {
  switch (answer.kind) {
    case 'found':
      return answer.records;
    case 'nxdomain':
      throw coded(`${name} does not exist`, 'ENOTFOUND');
    case 'nodata':
      throw coded(`${name} has no such record`, 'ENODATA');
    case 'failed':
      throw coded(answer.reason, 'ESERVFAIL');
  }
}

/** Without a stack, which nobody reads and which takes longer than the rest of the look-up: most mail has two or three. */
function coded(message: string, code: string): Error {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  const error = Object.assign(new Error(message), { code });
  Error.stackTraceLimit = stackTraceLimit;
  return error;
}
