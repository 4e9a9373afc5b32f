/**
 * Webhooks as the daemon has them. Whoever records an event knows nothing of webhooks: what is new is looked for once a
 * second, a little way back, because of units that are committed later than they were begun; and every minute further back,
 * for those that took long, for another daemon's clock, and for the time in which no daemon ran. Each event that a webhook
 * asks for becomes a delivery of the queue; finding it twice makes no second one.
 */
import type { Snapshot } from '../config/snapshot.ts';
import type { HttpClient } from '../dns/guarded-fetch.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { PUBLIC_EVENTS } from '../lib/event-types.ts';
import { environmentOf, newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { actOnMany } from '../queue/operate.ts';
import { findEventOf } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import type { WebhookRow } from '../store/tables.ts';
import {
  enqueueForWebhook,
  forgetWebhookDeliveries,
  insertPost,
  keepTest,
  prunePosts,
  replayForWebhook,
} from '../store/webhook-deliveries.ts';
import {
  eventsFor,
  stretchOfEvents,
  activeWebhooks,
  enableWebhook,
  moveCursors,
  webhooksWithNews,
} from '../store/webhooks.ts';
import { post, testBody } from './post.ts';
import { adoptWebhooks, scopeOf, typesFor } from './targets.ts';
import { DISABLED } from './transport.ts';

export interface WebhooksOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly http: HttpClient;
  readonly snapshot: () => Snapshot;
  /** There may be something to deliver. */
  readonly wake: () => void;
}

export interface Webhooks {
  /**
   * Posts a test event at once, whatever the webhook's state, and answers what came of it: the `webhook-id`, the status of the
   * answer (null where there was none) and its beginning, or the fault. It is not repeated.
   */
  test(webhook: WebhookRow): Promise<{ id: string; delivered: boolean; status: number | null; result: string }>;
  /** Why nothing would ever be posted to this address, to be read after its name; undefined where it would. */
  objection(url: string): Promise<string | undefined>;
  /** Enables a webhook for what happens from now on, and for what still waits. */
  enable(webhook: Pick<WebhookRow, 'id' | 'tenant'>): Promise<void>;
  /** Posts an event once more. False where the tenant has no such event, or none that webhooks are told of. */
  replayEvent(webhook: WebhookRow, event: string): Promise<boolean>;
  /** Posts all events since then (ms) that the webhook asks for once more, oldest first; `more`: there are too many. */
  replaySince(webhook: WebhookRow, since: number): Promise<{ replayed: number; more: boolean }>;
  /** Makes those that the configuration names. */
  adopt(): Promise<void>;
  /** Forgets old deliveries. */
  sweep(): Promise<void>;
  /** Makes the deliveries of what happened since the last look. Rejects where the store cannot. */
  look(): Promise<void>;
  /** Looks for events from now on, until the function that it answers is called. */
  start(): () => Promise<void>;
}

const LOOK_EVERY_MS = 1000;
const NEAR_MS = 3000;
const FAR_MS = 2 * 60_000;
const FAR_EVERY_MS = 60_000;
const AT_ONCE = 200;
/** So many events are looked through at a time, so that nobody else waits for it. */
const STRETCH = 2000;
const MAX_REPLAYED = 10_000;

/** The webhooks of this daemon. */
export function createWebhooks({ store, clock, log, http, snapshot, wake }: WebhooksOptions): Webhooks {
  let lookedAt = 0;
  /** On the monotonic clock. */
  let farAt = -Infinity;

  async function look(): Promise<void> {
    const now = clock.now();
    const monotonic = clock.monotonic();
    if (monotonic < farAt) {
      for (const webhook of await webhooksWithNews(store, lookedAt - NEAR_MS))
        await lookFor(webhook, lookedAt - NEAR_MS);
    } else {
      const webhooks = await activeWebhooks(store);
      for (const webhook of webhooks) await lookFor(webhook, webhook.cursor - FAR_MS);
      if (webhooks.length > 0) await store.write([moveCursors({ now })]);
      farAt = monotonic + FAR_EVERY_MS;
    }
    lookedAt = now;
  }

  async function lookFor(webhook: WebhookRow, since: number): Promise<void> {
    const scope = scopeOf(webhook, snapshot());
    if (scope === undefined) return;
    const { id, tenant, starts_at } = webhook;
    const wanted = { webhook: id, tenant, types: typesFor(webhook), limit: AT_ONCE };
    for (let from = Math.max(since, starts_at); ;) {
      const until = await stretchOfEvents(store, { tenant, since: from, size: STRETCH });
      for await (const events of eventsFor(store, { ...wanted, since: from, until }, scope))
        await tell(webhook, events, enqueueForWebhook);
      if (until === undefined) return;
      from = until + 1;
      await clock.sleep(0);
    }
  }

  async function tell(webhook: WebhookRow, events: readonly string[], unitFor: typeof enqueueForWebhook) {
    const now = clock.now();
    const deliveries = events.map((event) => ({ id: newId('whd', now), event }));
    await store.write(unitFor({ ...webhook, environment: environmentOf(webhook.tenant) }, deliveries, now));
    wake();
  }

  async function work(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await look().catch((error: unknown) => log.error('webhooks.failed', errorFields(error)));
      await clock.sleep(LOOK_EVERY_MS, stopped);
    }
  }

  return {
    look,
    objection: (url) => http.objection(url),
    adopt: () => adoptWebhooks({ store, clock }, snapshot()),
    async sweep() {
      await store.write(forgetWebhookDeliveries(clock.now()));
    },
    async test(webhook) {
      const at = clock.now();
      const id = newId('whd', at);
      const began = clock.monotonic();
      const posted = await post(http, webhook, { id, body: testBody(webhook.id, at), now: at });
      const duration_ms = Math.round(clock.monotonic() - began);
      const { kind, status, words: reply } = posted;
      const outcome = kind === 'delivered' ? 'delivered' : 'bounced';
      const target = { ...webhook, environment: environmentOf(webhook.tenant) };
      await store.write([
        ...keepTest(target, { id, outcome, reply }, { at, now: clock.now() }),
        insertPost({ webhook: webhook.id, delivery: id, number: 1, at, duration_ms, ...posted.exchange }),
        prunePosts({ webhook: webhook.id }),
      ]);
      return { id, delivered: kind === 'delivered', status, result: reply };
    },
    async enable({ id, tenant }) {
      const now = clock.now();
      await store.write([enableWebhook({ id, tenant, now })]);
      await actOnMany(store, 'resume', { filter: { destination: id, reply: DISABLED }, now });
      wake();
    },
    async replayEvent(webhook, id) {
      const event = await findEventOf(store, webhook.tenant, id);
      if (event === undefined || !PUBLIC_EVENTS.some((type) => type === event.type)) return false;
      await tell(webhook, [id], replayForWebhook);
      return true;
    },
    async replaySince(webhook, since) {
      const scope = scopeOf(webhook, snapshot());
      if (scope === undefined) return { replayed: 0, more: false };
      const wanted = { webhook: '', tenant: webhook.tenant, types: typesFor(webhook), since, limit: AT_ONCE };
      let replayed = 0;
      for await (const events of eventsFor(store, wanted, scope)) {
        if (replayed === MAX_REPLAYED) return { replayed, more: true };
        await tell(webhook, events, replayForWebhook);
        replayed += events.length;
      }
      return { replayed, more: false };
    },
    start() {
      const stop = new AbortController();
      const working = work(stop.signal);
      return async () => {
        stop.abort();
        await working;
      };
    },
  };
}
