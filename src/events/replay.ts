/** Posts again what happened: an event, or all since a time. Each keeps its `webhook-id`, so that receivers know it again. */
import type { Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { PUBLIC_EVENTS } from '../lib/event-types.ts';
import { newId } from '../lib/ids.ts';
import type { Store } from '../store/store.ts';
import type { WebhookRow } from '../store/tables-accounts.ts';
import { replayDelivery } from '../store/webhook-deliveries.ts';
import { eventsFor, findEvent } from '../store/webhook-events.ts';
import { scopeOf, typesFor } from './targets.ts';

export interface ReplayParts {
  readonly store: Store;
  readonly clock: Clock;
}

const AT_ONCE = 200;
/** Of one replay. */
const MOST = 10_000;

/** Makes the event's delivery due at once. False where the tenant has no such event, or none that webhooks are told of. */
export async function replayEvent(parts: ReplayParts, webhook: WebhookRow, id: string): Promise<boolean> {
  const event = await findEvent(parts.store, webhook.tenant, id);
  if (event === undefined || !PUBLIC_EVENTS.some((type) => type === event.type)) return false;
  await again(parts, webhook, [id]);
  return true;
}

/**
 * Makes the deliveries of all events since then that this webhook asks for due at once, oldest first. Answers how many,
 * and whether there are more than one replay takes.
 */
export async function replaySince(
  parts: ReplayParts,
  webhook: WebhookRow,
  { since, snapshot }: { readonly since: number; readonly snapshot: Snapshot },
): Promise<{ readonly replayed: number; readonly more: boolean }> {
  const scope = scopeOf(webhook, snapshot);
  if (scope === undefined) return { replayed: 0, more: false };
  const wanted = { webhook: '', tenant: webhook.tenant, types: typesFor(webhook), since, limit: AT_ONCE };
  let replayed = 0;
  for await (const found of eventsFor(parts.store, wanted, scope)) {
    if (replayed === MOST) return { replayed, more: true };
    await again(parts, webhook, found);
    replayed += found.length;
  }
  return { replayed, more: false };
}

async function again({ store, clock }: ReplayParts, { id: webhook }: WebhookRow, events: readonly string[]) {
  const now = clock.now();
  await store.write(events.map((event) => replayDelivery({ id: newId('whd', now), webhook, event, created_at: now })));
}
