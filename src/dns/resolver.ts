/**
 * The one door to DNS, and the only file that imports node:dns. Every look-up ends within an absolute time-out, equal
 * questions are asked once at a time, and answers are remembered for a short while (cache.ts). Whatever DNS says is a
 * value: nothing here rejects.
 */
import { promises as dns } from 'node:dns';
import { DeadlineError, withDeadline } from '../lib/abort.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { together, type Answer, type MxRecord, type Resolver } from './answers.ts';
import { type Timed, remember } from './cache.ts';

export type { Resolver } from './answers.ts';

export interface ResolverOptions {
  /** `address` or `address:port` (IPv6 with a port in brackets); empty: the system's. */
  readonly servers: readonly string[];
  /** For one question with all its tries; 5,000 ms unless told. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  readonly log?: Log;
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

  async function ask<T>(what: string, query: (client: dns.Resolver) => Promise<Found<T>[]>): Promise<Timed<T>> {
    try {
      const found = await withDeadline(timeoutMs, what, query(connected()));
      if (found.length === 0) return { answer: { kind: 'nodata' } };
      const answer = { kind: 'found', records: found.map(({ record }) => record) } as const;
      const ttls = found.flatMap(({ ttl }) => (ttl === undefined ? [] : [ttl]));
      return ttls.length === 0 ? { answer } : { answer, ttl: Math.min(...ttls) };
    } catch (error) {
      const answer = failure(error, what);
      if (answer.kind === 'failed') {
        log.debug('dns.failed', { reason: answer.reason });
        // The system's servers may have changed since they were read; the next question reads them anew.
        if (servers.length === 0) client = undefined;
      }
      return { answer };
    }
  }

  const txt = remember(clock, (name) =>
    ask(`TXT ${name}`, async (at) => (await at.resolveTxt(name)).map((parts) => ({ record: text(parts) }))),
  );
  const mx = remember(clock, (name) =>
    ask(`MX ${name}`, async (at) => (await at.resolveMx(name)).map((found) => ({ record: mxRecord(found) }))),
  );
  const byType = {
    A: remember(clock, (name) =>
      ask(`A ${name}`, async (at) => (await at.resolve4(name, { ttl: true })).map(addressRecord)),
    ),
    AAAA: remember(clock, (name) =>
      ask(`AAAA ${name}`, async (at) => (await at.resolve6(name, { ttl: true })).map(addressRecord)),
    ),
    CNAME: remember(clock, (name) => ask(`CNAME ${name}`, async (at) => (await at.resolveCname(name)).map(hostRecord))),
    PTR: remember(clock, (name) => ask(`PTR ${name}`, async (at) => (await at.resolvePtr(name)).map(hostRecord))),
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

const NXDOMAIN = { kind: 'nxdomain' } as const;

const WORDS: Readonly<Record<string, string>> = {
  ESERVFAIL: 'the DNS server answers SERVFAIL',
  EREFUSED: 'the DNS server refuses to answer',
  ENOTIMP: 'the DNS server does not know this kind of question',
  EFORMERR: 'the DNS server does not understand the question',
  EBADRESP: 'the DNS server answers nonsense',
  ECONNREFUSED: 'no DNS server can be reached',
  ETIMEOUT: 'no answer from DNS in time',
};

function failure(error: unknown, what: string): Exclude<Answer<never>, { kind: 'found' }> {
  const code = codeOf(error) ?? '';
  if (code === 'ENODATA') return { kind: 'nodata' };
  // EBADNAME: what cannot be asked cannot exist (an empty label, a label of more than 63 octets).
  if (code === 'ENOTFOUND' || code === 'EBADNAME') return NXDOMAIN;
  const words = error instanceof DeadlineError ? WORDS['ETIMEOUT'] : WORDS[code];
  return { kind: 'failed', reason: `${what}: ${words ?? messageOf(error)}` };
}

function hostName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/** Node reads each octet as a character; what people write there is UTF-8. */
function text(parts: readonly string[]): string {
  return Buffer.from(parts.join(''), 'latin1').toString();
}

function mxRecord({ priority, exchange }: { priority: number; exchange: string }): MxRecord {
  return { preference: priority, exchange: hostName(exchange) };
}

function addressRecord({ address, ttl }: { address: string; ttl: number }): Found<string> {
  return { record: address, ttl };
}

function hostRecord(name: string): Found<string> {
  return { record: hostName(name) };
}
