/** What a webhook is sent by the Standard Webhooks specification: the body, its signature, the POST and what the answer means. */
import { STATUS_CODES } from 'node:http';
import { createHmac, randomBytes } from 'node:crypto';
import type { HttpClient, HttpReply } from '../dns/guarded-fetch.ts';
import { cleanText } from '../mail/header.ts';
import type { WebhookPostRow, WebhookRow } from '../store/tables.ts';
import { isoTime } from '../lib/clock.ts';

export interface Posted {
  /** `gone`: the target says that it wants nothing more, ever (410). */
  readonly kind: 'delivered' | 'failed' | 'gone';
  readonly status: number | null;
  /** The status and the beginning of the answer, or the fault. */
  readonly words: string;
  /** What the target asks to wait, ms. */
  readonly wait: number;
  /** What was sent and answered, as it is kept. */
  readonly exchange: Exchange;
}

type Exchange = Pick<WebhookPostRow, 'url' | 'request_headers' | 'status' | 'headers' | 'body' | 'is_cut' | 'error'>;

const MAX_RESULT_LENGTH = 500;
const MAX_RETRY_AFTER_MS = 36_000_000;
/** Of an answer, for its owner to look at. */
const MAX_BODY_LENGTH = 4096;
const MAX_HEADERS = 50;
const MAX_HEADER_LENGTH = 500;
const MAX_HEADERS_LENGTH = 4096;

/** Posts the body, signed at `now`; never rejects. The `id` is its `webhook-id`: the same at every attempt. */
export async function post(
  http: Pick<HttpClient, 'request'>,
  webhook: Pick<WebhookRow, 'url' | 'secret' | 'old_secret' | 'old_secret_until'>,
  { id, body, now }: { readonly id: string; readonly body: string; readonly now: number },
): Promise<Posted> {
  const timestamp = Math.floor(now / 1000);
  const { secret, old_secret: old, old_secret_until: until } = webhook;
  // And the one before it while receivers change over.
  const secrets = old !== null && until !== null && until > now ? [secret, old] : [secret];
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatures(secrets, { id, timestamp, body }),
  };
  const sent = { url: webhook.url, request_headers: JSON.stringify(headers) };
  const reply = await http.request({ method: 'POST', url: webhook.url, headers, body });
  if (reply.kind !== 'answered') {
    const said = reply.kind === 'refused' ? `not sent: the target ${reply.reason}` : reply.reason;
    const words = cleanText(said, MAX_RESULT_LENGTH);
    const exchange = { ...sent, status: null, headers: null, body: null, is_cut: 0, error: words };
    return { kind: 'failed', status: null, words, wait: 0, exchange };
  }
  const { status } = reply;
  return {
    kind: status >= 200 && status < 300 ? 'delivered' : status === 410 ? 'gone' : 'failed',
    status,
    words: wordsOf(status, cleanText(reply.text, MAX_RESULT_LENGTH)),
    wait: status === 429 || status === 503 ? retryAfter(reply.retryAfter, now) : 0,
    exchange: { ...sent, status, ...keptAnswer(reply), error: null },
  };
}

/** The beginning of an answer. No database of ours has U+0000 in its texts. */
function keptAnswer({ headers = {}, text, isCut }: Extract<HttpReply, { kind: 'answered' }>) {
  const kept: Record<string, string> = {};
  let length = 0;
  for (const [name, value] of Object.entries(headers).slice(0, MAX_HEADERS)) {
    const line = cleanText([value ?? ''].flat().join(', '), MAX_HEADER_LENGTH);
    length += name.length + line.length;
    if (length > MAX_HEADERS_LENGTH) break;
    kept[name] = line;
  }
  const body = text
    .slice(0, MAX_BODY_LENGTH)
    .replace(/[\uD800-\uDBFF]$/, '')
    .replaceAll('\0', '\uFFFD');
  const isLonger = isCut === true || text.length > MAX_BODY_LENGTH;
  return { headers: JSON.stringify(kept), body, is_cut: isLonger ? 1 : 0 };
}

/** The wait that a `Retry-After` asks for, in ms: seconds or a date (RFC 9110 §10.2.3), at most ten hours. */
function retryAfter(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  const wait = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}

function wordsOf(status: number, text: string): string {
  const line = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  if (status >= 300 && status < 400) return `${line}: redirects are not followed`;
  return text === '' ? line : `${line}: ${text}`;
}

/** The body of a test, which is about the webhook itself. */
export function testBody(webhook: string, now: number): string {
  return JSON.stringify({ type: 'webhook.test', timestamp: isoTime(now), data: { webhook } });
}

const PREFIX = 'whsec_';

/** A new secret: `whsec_` and 32 random bytes in base64. */
export function newSecret(): string {
  return PREFIX + randomBytes(32).toString('base64');
}

/** `webhook-signature`: one `v1,…` for each secret, so that a receiver may know any of them; `timestamp` in seconds. */
export function signatures(
  secrets: readonly string[],
  { id, timestamp, body }: { readonly id: string; readonly timestamp: number; readonly body: string },
): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
      return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
    })
    .join(' ');
}
