/**
 * Finds the events that webhooks are to be told of and makes a delivery for each. Whoever records an event knows nothing
 * of webhooks: what is new is looked for once a second, a little way back, because of units that are committed later
 * than they were begun; and every minute further back, for those that took long, for another daemon's clock, and
 * for the time in which no daemon ran. Finding an event twice makes no second delivery.
 */
import type { Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import type { Store } from '../store/store.ts';
import type { WebhookRow } from '../store/tables-accounts.ts';
import { insertDelivery } from '../store/webhook-deliveries.ts';
import { eventsFor, stretchOfEvents } from '../store/webhook-events.ts';
import { activeWebhooks, moveCursors, webhooksWithNews } from '../store/webhooks.ts';
import { scopeOf, typesFor } from './targets.ts';

export interface DispatcherOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
}

export interface Dispatcher {
  /** Makes the deliveries of what happened since the last run. Rejects where the store cannot. */
  run(): Promise<void>;
}

const NEAR = 3000;
const FAR = 2 * 60_000;
const FAR_EVERY = 60_000;
const AT_ONCE = 200;
/** So many events are looked through at a time, so that nobody else waits for it. */
const STRETCH = 2000;

export function createDispatcher({ store, clock, snapshot }: DispatcherOptions): Dispatcher {
  let lookedAt = 0;
  /** On the monotonic clock. */
  let farAt = -Infinity;

  async function look(webhook: WebhookRow, since: number): Promise<void> {
    const scope = scopeOf(webhook, snapshot());
    if (scope === undefined) return;
    const { id, tenant, starts_at } = webhook;
    const wanted = { webhook: id, tenant, types: typesFor(webhook), limit: AT_ONCE };
    for (let from = Math.max(since, starts_at); ;) {
      const until = await stretchOfEvents(store, { tenant, since: from, size: STRETCH });
      for await (const found of eventsFor(store, { ...wanted, since: from, until }, scope)) await tell(id, found);
      if (until === undefined) return;
      from = until + 1;
      await clock.sleep(0);
    }
  }

  async function tell(webhook: string, events: readonly string[]): Promise<void> {
    const now = clock.now();
    await store.write(
      events.map((event) => insertDelivery({ id: newId('whd', now), webhook, event, created_at: now })),
    );
  }

  return {
    async run() {
      const now = clock.now();
      const monotonic = clock.monotonic();
      if (monotonic < farAt) {
        for (const webhook of await webhooksWithNews(store, lookedAt - NEAR)) await look(webhook, lookedAt - NEAR);
      } else {
        const webhooks = await activeWebhooks(store);
        for (const webhook of webhooks) await look(webhook, webhook.cursor - FAR);
        if (webhooks.length > 0) await store.write([moveCursors({ now })]);
        farAt = monotonic + FAR_EVERY;
      }
      lookedAt = now;
    },
  };
}
