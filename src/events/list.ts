/**
 * A page of events, newest first, with the number of all that match. However rare they are, no query looks through more
 * than the events of an hour: where there are any, the counts know.
 */
import { firstId, timeOfId } from '../lib/ids.ts';
import { listEvents, nextEventAt, type EventFilter, type Span } from '../store/analytics.ts';
import type { Store } from '../store/store.ts';
import type { EventRow } from '../store/tables.ts';
import { hourOf, type Counted, type EventCounts } from './counts.ts';

export interface EventsWanted extends EventFilter, Span {
  readonly tenant: string;
  /** The last event of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
}

export interface EventsPage {
  /** One more than `limit` where there are more. */
  readonly events: readonly EventRow[];
  readonly count: number;
}

/** The events of the tenant that are wanted. */
export async function pageOfEvents(
  { store, counts }: { readonly store: Store; readonly counts: EventCounts },
  { tenant, before, limit, from, until, ...filter }: EventsWanted,
): Promise<EventsPage> {
  const oldest = await nextEventAt(store, 0);
  if (oldest === undefined) return { events: [], count: 0 };
  // The counts outlive the events.
  const places = await placesOf(counts.of(tenant, { from: Math.max(from, hourOf(oldest)), until }), filter);
  const events: EventRow[] = [];
  const cursor = before ?? firstId('evt', until);
  for (const { from, until } of [...places.values()].reverse()) {
    if (from > timeOfId(cursor)) continue;
    const more = limit + 1 - events.length;
    if (more === 0) break;
    events.push(...(await listEvents(store, tenant, { ...filter, from, until, before: cursor, limit: more })));
  }
  return { events, count: [...places.values()].reduce((sum, { count }) => sum + count, 0) };
}

interface Place extends Span {
  count: number;
}

/** Where there are matching events and how many, oldest first. */
async function placesOf(
  slices: AsyncIterable<readonly Counted[]>,
  { type, form, domains }: EventFilter,
): Promise<ReadonlyMap<number, Place>> {
  const places = new Map<number, Place>();
  for await (const rows of slices) {
    for (const { from, until, count, ...row } of [...rows].sort((a, b) => a.from - b.from)) {
      if (type !== undefined && row.type !== type) continue;
      if (form !== undefined && row.form !== form) continue;
      if (domains !== undefined && !domains.includes(row.domain)) continue;
      const place = places.get(from) ?? { from, until, count: 0 };
      place.count += count;
      places.set(from, place);
    }
  }
  return places;
}
