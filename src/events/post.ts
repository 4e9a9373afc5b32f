/** One try: a signed POST to the target and what it means. */
import { STATUS_CODES } from 'node:http';
import type { HttpDoor } from '../dns/guarded-fetch.ts';
import { cleanText } from '../mail/header-text.ts';
import type { WebhookRow } from '../store/tables-accounts.ts';
import { retryAfter } from './schedule.ts';
import { signatures } from './signature.ts';

export interface Posted {
  /** `gone`: the target says that it wants nothing more, ever (410). */
  readonly kind: 'delivered' | 'failed' | 'gone';
  readonly status: number | null;
  /** The status and the beginning of the answer, or the fault. */
  readonly words: string;
  /** What the target asks to wait, ms. */
  readonly wait: number;
}

export interface Message {
  /** The `webhook-id`: the same for every try. */
  readonly id: string;
  readonly body: string;
}

const LONGEST = 500;

/** Posts it, signed at `now`; never rejects. */
export async function post(
  door: Pick<HttpDoor, 'request'>,
  webhook: Pick<WebhookRow, 'url' | 'secret' | 'old_secret' | 'old_secret_until'>,
  { id, body, now }: Message & { readonly now: number },
): Promise<Posted> {
  const timestamp = Math.floor(now / 1000);
  const reply = await door.request({
    method: 'POST',
    url: webhook.url,
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signatures(secretsOf(webhook, now), { id, timestamp, body }),
    },
    body,
  });
  if (reply.kind !== 'answered') {
    const words = reply.kind === 'refused' ? `not sent: the target ${reply.reason}` : reply.reason;
    return { kind: 'failed', status: null, words: cleanText(words, LONGEST), wait: 0 };
  }
  const { status } = reply;
  return {
    kind: status >= 200 && status < 300 ? 'delivered' : status === 410 ? 'gone' : 'failed',
    status,
    words: wordsOf(status, cleanText(reply.text, LONGEST)),
    wait: status === 429 || status === 503 ? retryAfter(reply.retryAfter, now) : 0,
  };
}

/** The secret, and the one before it while receivers change over. */
function secretsOf(
  { secret, old_secret, old_secret_until }: Pick<WebhookRow, 'secret' | 'old_secret' | 'old_secret_until'>,
  now: number,
): string[] {
  return old_secret !== null && old_secret_until !== null && old_secret_until > now ? [secret, old_secret] : [secret];
}

function wordsOf(status: number, text: string): string {
  const line = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  if (status >= 300 && status < 400) return `${line}: redirects are not followed`;
  return text === '' ? line : `${line}: ${text}`;
}
