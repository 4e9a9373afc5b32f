/**
 * All HTTP out to addresses that somebody else chose. Each request asks DNS, judges every address that comes
 * back, and dials exactly those: there is no second look-up that could say something else, and no connection is kept for
 * another request. Unless private networks are allowed, only global unicast is dialled, however it is written (WHATWG URLs
 * know `2130706433` and `0x7f.1` for what they are), and of the ports below 1024 only HTTP's own, for what listens on the
 * others speaks something else. Redirects are not followed; time and size are bounded.
 */
import { isIP, type LookupFunction } from 'node:net';
import { codeOf, messageOf } from '../lib/errors.ts';
import { isHostAddress, isPublicAddress } from './networks.ts';
import type { Resolver } from './resolver.ts';
import type { FetchedPolicy } from './mta-sts.ts';

export interface HttpClientOptions {
  readonly resolver: Pick<Resolver, 'addresses'>;
  /** Whether private and loopback addresses may be dialled. */
  readonly allowPrivate: () => boolean;
  /** Whether this server itself listens there: what it posted would come back to it. */
  readonly isOwn?: (address: string, port: number) => boolean;
  readonly userAgent: string;
  /** PEM of the authorities that are trusted instead of the usual ones. */
  readonly ca?: string | undefined;
  /** For a connection and for a whole request; default: 5,000 and 15,000 ms. */
  readonly connectMs?: number;
  readonly wholeMs?: number;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** A body that is no text. */
  readonly bytes?: Uint8Array;
  /** Ends it early. */
  readonly signal?: AbortSignal;
}

export type HttpReply =
  | {
      readonly kind: 'answered';
      readonly status: number;
      /** Seconds or a date, as it was sent. */
      readonly retryAfter: string | undefined;
      /** By their names in lower case. */
      readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
      /** The beginning of the body, at most 64 KiB. */
      readonly text: string;
      /** The body broke off, or is longer. */
      readonly isCut?: true;
    }
  /** Nothing was sent, nor will it ever be to this address. */
  | { readonly kind: 'refused'; readonly reason: string }
  | {
      readonly kind: 'failed';
      readonly reason: string;
      /** Because of its certificate. */
      readonly isUntrusted?: true;
    };

export interface HttpClient {
  /** Never rejects. */
  request(request: HttpRequest): Promise<HttpReply>;
  /** Why nothing would be sent to this address; undefined where it would, and where DNS does not know the name (yet). */
  objection(url: string): Promise<string | undefined>;
}

type Way = { readonly kind: 'open'; readonly url: URL; readonly addresses: readonly string[] } | Closed;
type Closed = Exclude<HttpReply, { kind: 'answered' }>;

const MAX_TEXT = 64 * 1024;
const PRIVATE = 'leads to a private network';

export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { resolver, allowPrivate, isOwn, userAgent, ca, connectMs = 5000, wholeMs = 15_000 } = options;

  async function wayTo(text: string): Promise<Way> {
    const url = parseTarget(text);
    if (typeof url === 'string') return { kind: 'refused', reason: url };
    const port = portOf(url);
    if (!allowPrivate() && port < 1024 && port !== 80 && port !== 443)
      return { kind: 'refused', reason: `must not use port ${port}` };
    const found = await addressesOf(url);
    if ('kind' in found) return found;
    if (!found.every((address) => (allowPrivate() ? isHostAddress(address) : isPublicAddress(address)))) {
      return { kind: 'refused', reason: PRIVATE };
    }
    if (isOwn !== undefined && found.some((address) => isOwn(address, port))) {
      return { kind: 'refused', reason: 'leads back to this server' };
    }
    return { kind: 'open', url, addresses: found };
  }

  async function addressesOf(url: URL): Promise<readonly string[] | Closed> {
    const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
    if (isIP(host) !== 0) return [host];
    // RFC 6761 §6.3: never a question for DNS.
    if (host === 'localhost' || host.endsWith('.localhost')) return ['127.0.0.1', '::1'];
    const answer = await resolver.addresses(host);
    switch (answer.kind) {
      case 'found':
        return answer.records;
      case 'nxdomain':
      case 'nodata':
        return { kind: 'failed', reason: `${host} has no address` };
      case 'failed':
        return { kind: 'failed', reason: answer.reason };
    }
  }

  async function send(way: Extract<Way, { kind: 'open' }>, request: HttpRequest, signal: AbortSignal) {
    const { url, addresses } = way;
    // Not before the first request of a thread: 4 MB of memory.
    const { Client, buildConnector } = await import('undici');
    const connect = buildConnector({
      lookup: pinned(addresses),
      timeout: connectMs,
      allowH2: false,
      ...(ca === undefined ? {} : { ca }),
    });
    const client = new Client(url.origin, { connect, maxHeaderSize: 16 * 1024 });
    try {
      const { statusCode, headers, body } = await client.request({
        method: request.method,
        path: url.pathname + url.search,
        headers: { 'user-agent': userAgent, ...request.headers },
        body: request.body ?? request.bytes ?? null,
        reset: true,
        signal,
      });
      const { 'retry-after': retryAfter } = headers;
      const beginning = await beginningOf(body);
      return {
        kind: 'answered',
        status: statusCode,
        retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined,
        headers,
        ...beginning,
      } as const;
    } finally {
      await client.destroy();
    }
  }

  return {
    async request(request) {
      const time = AbortSignal.timeout(wholeMs);
      const signal = request.signal === undefined ? time : AbortSignal.any([time, request.signal]);
      const way = await wayTo(request.url);
      if (way.kind !== 'open') return way;
      try {
        return await send(way, request, signal);
      } catch (error) {
        if (time.aborted) return { kind: 'failed', reason: `no answer within ${wholeMs / 1000} s` };
        const isUntrusted = DISTRUST.test(codeOf(error) ?? '');
        return { kind: 'failed', reason: reasonOf(error), ...(isUntrusted ? { isUntrusted } : {}) };
      }
    },
    async objection(url) {
      const way = await wayTo(url);
      return way.kind === 'refused' ? way.reason : undefined;
    },
  };
}

/** Codes of Node for a certificate that is not believed. */
const DISTRUST =
  /^(?:CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_)/;

/** The target, or what is wrong with it, to be read after its name. */
function parseTarget(text: string): URL | string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return 'must be an http or https URL';
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  return url;
}

function portOf({ port, protocol }: URL): number {
  return Number(port || (protocol === 'https:' ? 443 : 80));
}

/** Answers what was judged, whatever is asked. */
function pinned(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_name, { all: several }, callback) => {
    const [first] = all;
    if (several === true) callback(null, all);
    else callback(null, first?.address ?? '', first?.family);
  };
}

/** A body that breaks off has said what it has said: its status came before. */
async function beginningOf(body: AsyncIterable<Uint8Array>): Promise<{ text: string; isCut?: true }> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let isBroken = false;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > MAX_TEXT) break;
    }
  } catch {
    // Its status is what counts.
    isBroken = true;
  }
  const text = Buffer.concat(chunks).subarray(0, MAX_TEXT).toString();
  return isBroken || size > MAX_TEXT ? { text, isCut: true } : { text };
}

function reasonOf(error: unknown): string {
  // Several addresses, and none could be reached.
  if (error instanceof AggregateError) return reasonOf(error.errors[0]);
  return messageOf(error);
}

// Reads an MTA-STS policy as senders do (RFC 8461 §3.3), guarded: its name is the domain owner's choice.

const WHOLE_MS = 5000;

export interface PolicyFetchOptions {
  readonly resolver: Pick<Resolver, 'addresses'>;
  readonly userAgent: string;
  /** Whether the policy may be on a private network; default: no. */
  readonly allowPrivate?: () => boolean;
}

/** Never rejects. */
export function createPolicyFetch(options: PolicyFetchOptions): (url: string) => Promise<FetchedPolicy> {
  const http = createHttpClient({ allowPrivate: () => false, ...options, connectMs: WHOLE_MS, wholeMs: WHOLE_MS });
  return async (url) => {
    const reply = await http.request({ method: 'GET', url });
    if (reply.kind === 'refused') return { kind: 'failed', reason: `it ${reply.reason}` };
    if (reply.kind === 'failed') return reply;
    // A part of a policy names a part of the mail hosts.
    if (reply.isCut === true) return { kind: 'failed', reason: 'the response was incomplete, or larger than 64 KiB' };
    const { status, text, headers = {} } = reply;
    const type = String(headers['content-type'] ?? '');
    return { kind: 'answered', status, text, type: type.replace(/;.*$/s, '').trim().toLowerCase() };
  };
}
