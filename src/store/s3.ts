/**
 * Objects of a bucket, by the S3 protocol: signed requests (AWS Signature Version 4) over kept connections, each within a
 * time-out, and tried again where the server is busy or the connection broke. Keys are in the path behind the bucket, which
 * all servers understand. The operator chose the server, so that it may be on a private network.
 */
import { hash } from 'node:crypto';
import aws4 from 'aws4';
import type { Pool } from 'undici';
import { systemClock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { STORAGE_UNAVAILABLE, StoreError } from './store.ts';

export interface BucketOptions {
  readonly bucket: string;
  /** What all keys begin with. */
  readonly prefix: string;
  /** `https://host:port` */
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** For one request with all its tries; default: 10,000 ms. */
  readonly wholeMs?: number;
}

/** Each function rejects with StoreError where the server does not do what it is asked. */
export interface Bucket {
  /** For messages: `the bucket mail at https://storage.example.net`. */
  readonly name: string;
  put(key: string, bytes: Uint8Array): Promise<void>;
  get(key: string): Promise<Uint8Array>;
  /** There may be no such object. */
  remove(key: string): Promise<void>;
  /** Ends the connections. */
  close(): Promise<void>;
}

interface Request {
  readonly method: 'PUT' | 'GET' | 'DELETE';
  readonly key: string;
  readonly body?: Uint8Array;
}

interface Answer {
  readonly kind: 'answered';
  readonly status: number;
  readonly bytes: Uint8Array;
}

type Reply = Answer | { readonly kind: 'failed'; readonly error: unknown };

const MAX_CONNECTIONS = 64;
const CONNECT_MS = 3000;
const MAX_TRIES = 3;
/** Before the second try, ms; twice as long before the third. */
const WAIT_MS = 200;
/** RFC 6585 §4. */
const TOO_MANY_REQUESTS = 429;

/** Opens a bucket. Nothing is asked of the server yet. */
export function openBucket(options: BucketOptions): Bucket {
  const { bucket, prefix, endpoint, region, accessKeyId, secretAccessKey, wholeMs = 10_000 } = options;
  const { host } = new URL(endpoint);
  const name = `the bucket ${bucket} at ${endpoint}`;
  let pool: Promise<Pool> | undefined;

  /** It takes 4 MB of memory: not before the first request of a thread. */
  async function openPool(): Promise<Pool> {
    const undici = await import('undici');
    return new undici.Pool(endpoint, { connections: MAX_CONNECTIONS, connect: { timeout: CONNECT_MS } });
  }

  async function send({ method, key, body }: Request, signal: AbortSignal): Promise<Reply> {
    const path = `/${bucket}/${prefix}${key}`;
    // So that the server checks the bytes, too.
    const unsigned = { 'X-Amz-Content-Sha256': hash('sha256', body ?? '') };
    const { headers = {} } = aws4.sign(
      { service: 's3', region, method, host, path, headers: unsigned },
      { accessKeyId, secretAccessKey },
    );
    pool ??= openPool();
    const connections = await pool;
    try {
      const answer = await connections.request({ method, path, headers, body: body ?? null, signal });
      return { kind: 'answered', status: answer.statusCode, bytes: await answer.body.bytes() };
    } catch (error) {
      return { kind: 'failed', error };
    }
  }

  /** What the server answers, whatever that is. Rejects with StoreError where it answers nothing. */
  async function ask(request: Request): Promise<Answer> {
    const signal = AbortSignal.timeout(wholeMs);
    for (let tries = 1; ; tries++) {
      const reply = await send(request, signal);
      const isFinal = reply.kind === 'answered' && reply.status < 500 && reply.status !== TOO_MANY_REQUESTS;
      if (isFinal || signal.aborted || tries === MAX_TRIES) {
        if (reply.kind === 'answered') return reply;
        const reason = signal.aborted ? `no answer within ${wholeMs / 1000} s` : reasonOf(reply.error);
        throw new StoreError(`${name} cannot be reached: ${reason}`, STORAGE_UNAVAILABLE, { cause: reply.error });
      }
      await systemClock.sleep(WAIT_MS * tries);
    }
  }

  function fault(what: string, { status, bytes }: Answer): StoreError {
    const code = /<Code>(\w{1,100})<\/Code>/.exec(Buffer.from(bytes).toString())?.[1] ?? 'no reason given';
    const advice = ADVICE.get(code);
    const words = `${name} refuses to ${what}: ${status} ${code}${advice === undefined ? '' : ` (${advice})`}`;
    return new StoreError(words, code === 'NoSuchKey' ? 'STORAGE_OBJECT_GONE' : STORAGE_UNAVAILABLE);
  }

  return {
    name,
    async put(key, bytes) {
      // Memory that threads share cannot be sent.
      const body = bytes.buffer instanceof SharedArrayBuffer ? Uint8Array.from(bytes) : bytes;
      const reply = await ask({ method: 'PUT', key, body });
      if (reply.status !== 200) throw fault(`store ${key}`, reply);
    },
    async get(key) {
      const reply = await ask({ method: 'GET', key });
      if (reply.status !== 200) throw fault(`return ${key}`, reply);
      return reply.bytes;
    },
    async remove(key) {
      const reply = await ask({ method: 'DELETE', key });
      if (reply.status !== 204 && reply.status !== 200) throw fault(`delete ${key}`, reply);
    },
    async close() {
      await (await pool)?.close();
    },
  };
}

/** By the codes of S3: what the operator can do. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['NoSuchBucket', 'create the bucket, or correct storage.url'],
  ['InvalidAccessKeyId', 'correct storage.access_key_id'],
  ['SignatureDoesNotMatch', 'correct storage.secret_access_key'],
  ['AccessDenied', 'the access key needs s3:GetObject, s3:PutObject and s3:DeleteObject'],
  ['RequestTimeTooSkewed', 'the clock of this machine is wrong'],
  ['AuthorizationHeaderMalformed', 'correct region in storage.url'],
  ['PermanentRedirect', 'correct region or endpoint in storage.url'],
]);

function reasonOf(error: unknown): string {
  // Several addresses, and none could be reached.
  if (error instanceof AggregateError) return reasonOf(error.errors[0]);
  return messageOf(error);
}
