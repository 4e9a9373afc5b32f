/**
 * Webhooks as a transport of the queue: a delivery is a signed POST. Each webhook has a few attempts at a time and a
 * failing one has one, and so have all webhooks of a tenant together: nobody waits for somebody else's slow server. A
 * webhook whose target says 410, or fails for days, is disabled and its owner is alerted.
 */
import type { HttpClient } from '../dns/guarded-fetch.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';
import { WEBHOOK_RETRY_MS } from '../queue/retry.ts';
import { untouched, type Batch, type RecipientResult, type Result, type Transport } from '../queue/transport.ts';
import type { Statement } from '../store/statement.ts';
import { findEventOf } from '../store/events.ts';
import { writeIfMet, type Store } from '../store/store.ts';
import type { WebhookRow } from '../store/tables.ts';
import { insertPost, prunePosts, targetOfDelivery } from '../store/webhook-deliveries.ts';
import { disableWebhook, noteFailure, noteSuccess } from '../store/webhooks.ts';
import { bodyOfEvent } from './event-body.ts';
import { post, type Posted } from './post.ts';

export interface WebhookTransportOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly http: Pick<HttpClient, 'request'>;
  /** Whether it is known yet which addresses are our own; nothing is posted before. */
  readonly isReady?: () => boolean;
  /** The statements that alert whoever owns the webhook. */
  readonly alertOwner: (webhook: WebhookRow, alert: Alert) => Promise<readonly Statement[]>;
  /** There is mail to send. */
  readonly wake: () => void;
}

export interface Alert {
  readonly subject: string;
  readonly text: string;
}

/** The reply of a delivery that waits because its webhook is disabled. */
export const DISABLED = 'the webhook is disabled';

const MAX_ATTEMPTS = WEBHOOK_RETRY_MS.length + 1;
const MAX_IN_FLIGHT = 200;
const MAX_PER_TENANT = 40;
const MAX_PER_WEBHOOK = 5;
const DAY_MS = 86_400_000;
/** A webhook is disabled when every attempt of so long has failed. */
const DEAD_AFTER_MS = 5 * DAY_MS;
/** So long without a failed attempt (longer than the longest wait between two), and what failed before does not count. */
const QUIET_MS = 2 * DAY_MS;
/** A disabled webhook is looked at again after so long, where nobody enables it. */
const LOOK_AT_DISABLED_MS = 3_600_000;
const PRUNE_EVERY = 100;
const MAX_COUNTED = 1000;
const UNREAD = 'the event could not be read';

type Target = WebhookRow & { readonly event: string | null };
type End = Pick<RecipientResult, 'outcome' | 'reply'> & { readonly wait?: number; readonly host?: string };

/** The transport of deliveries whose destination is a webhook. */
export function createWebhookTransport(options: WebhookTransportOptions): Transport {
  const { store, clock, log, http, isReady = () => true, alertOwner, wake } = options;
  const limit = new TenantLimit();
  const failing = new Set<string>();
  const posts = new LruMap<number>(MAX_COUNTED);
  const running = new Set<Promise<void>>();
  const stopping = new AbortController();
  const cut = Promise.withResolvers<End>();

  /** Ends the attempt of a batch: it is one delivery, for webhooks share a message and nothing else. */
  async function deliver(batch: Batch): Promise<void> {
    const result = await attempt(batch).catch((error: unknown): Result => {
      log.error('webhook.attempt_failed', { webhook: batch.destination, ...errorFields(error) });
      return resultOf(batch, { outcome: 'deferred', reply: UNREAD });
    });
    await batch.done(result);
  }

  async function attempt(batch: Batch): Promise<Result> {
    const [recipient] = batch.recipients;
    const target = recipient && (await targetOfDelivery(store, recipient.id));
    if (recipient === undefined || target === undefined) return untouched(batch);
    if (target.status === 'disabled')
      return resultOf(batch, { outcome: 'postponed', reply: DISABLED, wait: LOOK_AT_DISABLED_MS });
    if (target.failing_since === null) failing.delete(target.id);
    else failing.add(target.id);
    await limit.take(target.tenant);
    try {
      if (stopping.signal.aborted || !(await batch.begin()) || !batch.mayLeave()) return untouched(batch);
      const tried = tell(target, recipient);
      return resultOf(batch, await Promise.race([tried, cut.promise]));
    } finally {
      limit.release(target.tenant);
    }
  }

  async function tell(target: Target, { id, attempt }: { id: string; attempt: number }): Promise<End> {
    const event = target.event === null ? undefined : await findEventOf(store, target.tenant, target.event);
    if (event === undefined) return { outcome: 'bounced', reply: 'the event is no longer kept' };
    if (attempt > MAX_ATTEMPTS) return { outcome: 'bounced', reply: 'the daemon stopped during the last attempt' };
    const body = await bodyOfEvent(store, event);
    const at = clock.now();
    const began = clock.monotonic();
    const posted = await post(http, target, { id, body, now: at });
    const timing = { at, duration_ms: Math.round(clock.monotonic() - began) };
    const kept = insertPost({ webhook: target.id, delivery: id, number: attempt, ...timing, ...posted.exchange });
    await note(target, posted, [kept, ...pruning(target.id)]).catch((error: unknown) => {
      // The delivery has ended as it has; what the webhook's own row says is brought up to date by the next one.
      log.error('webhook.not_noted', { webhook: target.id, ...errorFields(error) });
    });
    const isOver = posted.kind === 'gone' || attempt === MAX_ATTEMPTS;
    return {
      outcome: posted.kind === 'delivered' ? 'delivered' : isOver ? 'bounced' : 'deferred',
      reply: posted.words,
      wait: posted.wait,
      ...(posted.status !== null && { host: new URL(target.url).host }),
    };
  }

  /** What is kept of attempts is bounded: looked at again after so many of a webhook. */
  function pruning(webhook: string): Statement[] {
    const count = posts.get(webhook) ?? 0;
    posts.set(webhook, (count + 1) % PRUNE_EVERY);
    return count === 0 ? [prunePosts({ webhook })] : [];
  }

  /** Writes what was sent and answered, and how the webhook is doing; disables it where that is hopeless. */
  async function note(webhook: Target, posted: Posted, kept: readonly Statement[]): Promise<void> {
    const { id, tenant } = webhook;
    const now = clock.now();
    if (posted.kind === 'delivered') {
      const wasFailing = failing.delete(id);
      await store.write(wasFailing || webhook.failing_since !== null ? [...kept, noteSuccess({ id })] : kept);
      return;
    }
    failing.add(id);
    const failed = noteFailure({ id, now, quiet: now - QUIET_MS });
    const reason = deadBecause(webhook, posted, now);
    if (reason === undefined) {
      await store.write([...kept, failed]);
      return;
    }
    const alert = await alertOwner(webhook, alertOf(webhook, reason));
    const isDisabled = await writeIfMet(store, [...kept, failed, ...alert, disableWebhook({ id, tenant, reason }, 1)]);
    if (isDisabled === undefined) {
      // Another attempt, or somebody, has disabled it meanwhile.
      await store.write([...kept, failed]);
      return;
    }
    log.warn('webhook.disabled', { webhook: id, tenant, reason });
    wake();
  }

  return {
    send(_destination, batches) {
      for (const batch of batches) {
        const work = deliver(batch).finally(() => running.delete(work));
        running.add(work);
      }
    },
    capacity(webhook) {
      if (!isReady()) return 0;
      return failing.has(webhook) ? 1 : MAX_PER_WEBHOOK;
    },
    async stop(graceMs) {
      stopping.abort();
      const over = new AbortController();
      await Promise.race([Promise.all(running), clock.sleep(graceMs, over.signal)]);
      over.abort();
      cut.resolve({ outcome: 'interrupted', reply: 'the daemon stopped during the attempt' });
      await Promise.all(running);
    },
  };
}

function resultOf(
  { recipients }: Batch,
  { host = null, ...end }: Omit<End, 'host'> & { host?: string | null },
): Result {
  const peer = { cause: 'reply', host, address: null, tls: null } as const;
  return { kind: 'decided', recipients: recipients.map((recipient) => ({ recipient, ...peer, ...end })) };
}

/** Why nothing more is posted there; undefined while there is hope. */
function deadBecause({ failing_since, failed_at }: WebhookRow, posted: Posted, now: number): string | undefined {
  if (posted.kind === 'gone') return 'The target answered 410 Gone.';
  if (failing_since === null || failed_at === null) return undefined;
  if (failed_at < now - QUIET_MS || now - failing_since < DEAD_AFTER_MS) return undefined;
  return `Every attempt has failed since ${isoTime(failing_since)}. The last result: ${posted.words}`;
}

function alertOf({ id, url }: WebhookRow, reason: string): Alert {
  return {
    subject: `A webhook was disabled: ${URL.canParse(url) ? new URL(url).host : id}`,
    text: [
      `The webhook ${id} was disabled. Nothing more is posted to this URL:`,
      url,
      '',
      reason,
      '',
      `Once its target works, enable it with PATCH /webhooks/${id} {"status": "active"}.`,
      `POST /webhooks/${id}/replay {"since": "<time>"} then sends the missed events.`,
    ].join('\n'),
  };
}

/** How many attempts run at a time, in all and for one tenant; the others wait in order. */
class TenantLimit {
  readonly #waiting: { readonly tenant: string; readonly go: () => void }[] = [];
  readonly #running = new Map<string, number>();
  #all = 0;

  take(tenant: string): Promise<void> {
    if (this.#mayRun(tenant)) return Promise.resolve(this.#add(tenant, 1));
    return new Promise((go) => this.#waiting.push({ tenant, go }));
  }

  release(tenant: string): void {
    this.#add(tenant, -1);
    const next = this.#waiting.findIndex((each) => this.#mayRun(each.tenant));
    for (const { tenant, go } of next === -1 ? [] : this.#waiting.splice(next, 1)) {
      this.#add(tenant, 1);
      go();
    }
  }

  #mayRun(tenant: string): boolean {
    return this.#all < MAX_IN_FLIGHT && (this.#running.get(tenant) ?? 0) < MAX_PER_TENANT;
  }

  #add(tenant: string, change: 1 | -1): void {
    this.#all += change;
    const count = (this.#running.get(tenant) ?? 0) + change;
    if (count > 0) this.#running.set(tenant, count);
    else this.#running.delete(tenant);
  }
}
