/**
 * Webhooks as the daemon has them: what happened is found, delivered and repeated while it runs, and the API asks here for
 * what it cannot do by itself. Where nobody has a webhook all this is one question to the store a second.
 */
import type { Snapshot } from '../config/snapshot.ts';
import type { HttpDoor } from '../dns/guarded-fetch.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import type { Store } from '../store/store.ts';
import type { WebhookRow } from '../store/tables-accounts.ts';
import { forgetDeliveries, insertTest } from '../store/webhook-deliveries.ts';
import { createDeliverer, type DelivererOptions } from './deliver.ts';
import { createDispatcher } from './dispatch.ts';
import { testBody, post } from './post.ts';
import { adoptWebhooks } from './targets.ts';

export interface WebhooksOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly door: HttpDoor;
  readonly random: () => number;
  readonly snapshot: () => Snapshot;
  readonly mailOwner: DelivererOptions['mailOwner'];
  /** Tells the queue that there is mail. */
  readonly wakeMail: () => void;
}

export interface Tested {
  /** The `webhook-id` that was sent. */
  readonly id: string;
  readonly delivered: boolean;
  /** Of the answer; null where there was none. */
  readonly status: number | null;
  /** The status and the beginning of the answer, or the fault. */
  readonly result: string;
}

export interface Webhooks {
  /** Posts a test event at once, whatever the webhook's state, and answers what came of it. It is not repeated. */
  test(webhook: WebhookRow): Promise<Tested>;
  /** Why nothing would ever be posted to this address, to be read after its name; undefined where it would. */
  objection(url: string): Promise<string | undefined>;
  /** There may be something to deliver. */
  wake(): void;
  /** Makes those that the configuration names. */
  adopt(): Promise<void>;
  /** Forgets old deliveries. */
  sweep(): Promise<void>;
  /** Delivers from now on, until the function that it answers is called: that begins nothing more and waits for what runs. */
  start(): (graceMs: number) => Promise<void>;
}

const EVERY = 1000;
const KEPT = 30 * 86_400_000;

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { store, clock, log, door, snapshot, wakeMail } = options;
  const dispatcher = createDispatcher(options);
  const deliverer = createDeliverer({
    ...options,
    wake: (what) => (what === 'mail' ? wakeMail() : wake()),
  });
  let nap = new AbortController();

  function wake(): void {
    nap.abort();
  }

  async function round(dispatchAt: number): Promise<number> {
    const due = clock.monotonic() >= dispatchAt;
    if (due) await dispatcher.run();
    await deliverer.fill();
    return due ? clock.monotonic() + EVERY : dispatchAt;
  }

  async function work(stopped: AbortSignal): Promise<void> {
    let dispatchAt = -Infinity;
    while (!stopped.aborted) {
      nap = new AbortController();
      dispatchAt = await round(dispatchAt).catch((error: unknown) => {
        log.error('webhooks.failed', errorFields(error));
        return dispatchAt;
      });
      await clock.sleep(EVERY, AbortSignal.any([nap.signal, stopped]));
    }
  }

  return {
    wake,
    objection: (url) => door.objection(url),
    adopt: () => adoptWebhooks({ store, clock }, snapshot()),
    async sweep() {
      await store.write([forgetDeliveries({ before: clock.now() - KEPT })]);
    },
    async test(webhook) {
      const at = clock.now();
      const id = newId('whd', at);
      const { kind, status, words } = await post(door, webhook, { id, body: testBody(webhook.id, at), now: at });
      const state = kind === 'delivered' ? 'delivered' : 'failed';
      const now = clock.now();
      await store.write([
        insertTest({ id, webhook: webhook.id, state, last_status: status, last_result: words, at, now }),
      ]);
      return { id, delivered: kind === 'delivered', status, result: words };
    },
    start() {
      const stop = new AbortController();
      const working = work(stop.signal);
      return async (graceMs) => {
        stop.abort();
        await working;
        const over = new AbortController();
        await Promise.race([deliverer.idle(), clock.sleep(graceMs, over.signal)]);
        over.abort();
      };
    },
  };
}
