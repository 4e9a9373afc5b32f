/**
 * Posts what is due. A try, and the time of the next one, is committed before anybody is dialled, so that a crash costs one
 * try and never makes a storm; the `webhook-id` stays the same, so that a receiver knows what it has seen. Each target has
 * a few tries at a time and a failing one has one: nobody waits for somebody else's slow server.
 */
import type { HttpDoor } from '../dns/guarded-fetch.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { filesOf } from '../store/files.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { findSubmission } from '../store/submissions.ts';
import type { WebhookRow } from '../store/tables-accounts.ts';
import type { EventRow } from '../store/tables.ts';
import { claimDelivery, dueDeliveries, endDelivery, putOffDelivery } from '../store/webhook-deliveries.ts';
import { findEvent } from '../store/webhook-events.ts';
import { disableWebhook, noteFailure, noteSuccess, webhooksDue } from '../store/webhooks.ts';
import { bodyOf, post, type Posted } from './post.ts';
import { LEASE, TRIES, waitAfter } from './schedule.ts';
import { Slots } from './slots.ts';

export interface DelivererOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly door: Pick<HttpDoor, 'request'>;
  readonly random: () => number;
  /** The statements that write to whoever owns the webhook. */
  readonly mailOwner: (webhook: WebhookRow, letter: Letter) => Promise<readonly Statement[]>;
  /** Tells that a try is over, so that there may be room for another one, or that there is mail. */
  readonly wake: (what: 'webhooks' | 'mail') => void;
}

export interface Letter {
  readonly subject: string;
  readonly text: string;
}

export interface Deliverer {
  /** Begins the tries that are due and for which there is room. Rejects where the store cannot. */
  fill(): Promise<void>;
  /** Settles when no try runs any more. */
  idle(): Promise<void>;
}

/** A delivery in its try number `attempts`; `next` is when another one would be. */
interface Try {
  readonly id: string;
  readonly event: string;
  readonly attempts: number;
  readonly next: number | undefined;
}

const DAY = 86_400_000;
/** Every try of so many ms has failed: nobody is there any more. */
const DEAD_AFTER = 5 * DAY;
/** So long without a failed try (longer than the longest wait between two), and what failed before is another story. */
const QUIET = 2 * DAY;

export function createDeliverer(options: DelivererOptions): Deliverer {
  const { store, clock, log, door, random, mailOwner, wake } = options;
  const slots = new Slots();
  const running = new Set<Promise<void>>();

  async function fill(): Promise<void> {
    for (const webhook of await webhooksDue(store, clock.now())) {
      const limit = slots.room(webhook);
      if (limit > 0) for (const claimed of await claim(webhook, limit)) begin(webhook, claimed);
    }
  }

  async function claim({ id: webhook }: WebhookRow, limit: number): Promise<Try[]> {
    const now = clock.now();
    const due = await dueDeliveries(store, { webhook, now, limit });
    const tries = due.flatMap(({ id, event, attempts }): Try[] => {
      const wait = waitAfter(attempts + 1, random);
      const next = wait === undefined ? undefined : now + wait;
      return event === null ? [] : [{ id, event, attempts: attempts + 1, next }];
    });
    if (tries.length === 0) return [];
    const claims = tries.map(({ id, attempts, next = now }) =>
      claimDelivery({ id, attempts: attempts - 1, now, next: Math.max(next, now + LEASE) }),
    );
    const results = await store.write(claims);
    return tries.filter((_, i) => results[i]?.changes === 1);
  }

  function begin(webhook: WebhookRow, claimed: Try): void {
    slots.take(webhook);
    const task = attempt(webhook, claimed)
      .catch((error: unknown) => {
        // It is tried again when its claim said.
        log.error('webhook.attempt_failed', { webhook: webhook.id, delivery: claimed.id, ...errorFields(error) });
      })
      .finally(() => {
        slots.release(webhook);
        running.delete(task);
        wake('webhooks');
      });
    running.add(task);
  }

  async function attempt(webhook: WebhookRow, claimed: Try): Promise<void> {
    const event = await findEvent(store, webhook.tenant, claimed.event);
    if (event === undefined) return drop(claimed, 'the event is not kept any more');
    if (claimed.attempts > TRIES) return drop(claimed, 'the daemon ended during the last try');
    const body = bodyOf(event, await sentOf(event));
    const posted = await post(door, webhook, { id: claimed.id, body, now: clock.now() });
    const { status, words: result } = posted;
    await record(webhook, claimed, posted);
    const fields = { webhook: webhook.id, delivery: claimed.id, attempt: claimed.attempts, status, result };
    log.info(posted.kind === 'delivered' ? 'webhook.delivered' : 'webhook.failed', fields);
  }

  async function sentOf({ type, submission }: EventRow) {
    if (submission === null || !type.startsWith('submission.')) return undefined;
    const row = await findSubmission(store, submission);
    return row && { submission: row, files: await filesOf(store, submission) };
  }

  async function drop({ id, attempts }: Try, words: string): Promise<void> {
    const now = clock.now();
    await store.write([endDelivery({ id, attempts, state: 'failed', last_status: null, last_result: words, now })]);
  }

  /** What became of a try. The webhook's own row comes last: other tries write it, too. */
  async function record(webhook: WebhookRow, { id, attempts, next }: Try, posted: Posted): Promise<void> {
    const now = clock.now();
    const tried = { id, attempts, last_status: posted.status, last_result: posted.words };
    if (posted.kind === 'delivered') {
      await store.write([endDelivery({ ...tried, state: 'delivered', now }), noteSuccess({ id: webhook.id })]);
      return;
    }
    const over = posted.kind === 'gone' || next === undefined;
    const unit = [
      over
        ? endDelivery({ ...tried, state: 'failed', now })
        : putOffDelivery({ ...tried, next: Math.max(next, now + posted.wait) }),
      noteFailure({ id: webhook.id, now, quiet: now - QUIET }),
    ];
    const reason = deadBecause(webhook, posted, now);
    if (reason === undefined) await store.write(unit);
    else await disable(webhook, unit, reason);
  }

  async function disable(webhook: WebhookRow, unit: readonly Statement[], reason: string): Promise<void> {
    const { id, tenant } = webhook;
    const letter = await mailOwner(webhook, disabledLetter(webhook, reason));
    try {
      await store.write([...unit, ...letter, disableWebhook({ id, tenant, reason }, 1)]);
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      // Another try, or somebody, has disabled it meanwhile.
      await store.write(unit);
      return;
    }
    log.warn('webhook.disabled', { webhook: id, tenant, reason });
    wake('mail');
  }

  return {
    fill,
    async idle() {
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/** Why nothing more is posted there; undefined while there is hope. */
function deadBecause({ failing_since, failed_at }: WebhookRow, posted: Posted, now: number): string | undefined {
  if (posted.kind === 'gone') return 'The target answered 410 Gone.';
  if (failing_since === null || failed_at === null || failed_at < now - QUIET || now - failing_since < DEAD_AFTER)
    return undefined;
  return `Every try has failed since ${isoTime(failing_since)}; the last: ${posted.words}`;
}

function disabledLetter({ id, url }: WebhookRow, reason: string): Letter {
  return {
    subject: `A webhook was disabled: ${URL.canParse(url) ? new URL(url).host : id}`,
    text: [
      `The webhook ${id} was disabled. Nothing more is posted to`,
      url,
      '',
      reason,
      '',
      `Once its target works, enable it with PATCH /webhooks/${id} {"status": "active"}.`,
      `POST /webhooks/${id}/replay {"since": "<time>"} then sends what it missed.`,
    ].join('\n'),
  };
}
