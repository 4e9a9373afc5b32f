/**
 * How many events of each kind there were. Hours that are over are counted once, a few minutes later, into rows that
 * outlive the events; what came since is counted from the events when it is asked for. A report over any time is read in
 * slices that each take milliseconds, and the event loop turns between them.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { stepByStep } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import {
  type EventFilter,
  eventsOf,
  eventsOfAll,
  firstCountedHour,
  hoursOf,
  hoursOfAll,
  hoursOfServer,
  lastCountedHour,
  listEvents,
  nextEventAt,
  saveCount,
  type Span,
  type TypeCount,
} from '../store/analytics.ts';
import { restOf, type Store } from '../store/store.ts';
import type { EventRow, EventCountRow } from '../store/tables.ts';
import type { ServerConfig } from '../config/schema.ts';
import { firstId, timeOfId } from '../lib/ids.ts';
import { dropEventDays } from '../store/event-days.ts';
import { forgetEvents } from '../store/events.ts';

/** So many events of a type, domain and form (empty: none) within a span, which lies in one hour. */
export interface Counted extends Span {
  readonly type: string;
  readonly domain: string;
  readonly form: string;
  readonly count: number;
}

export interface EventCounts {
  /** Counts the hours that are over and not counted yet. */
  rollUp(): Promise<void>;
  /** A tenant's events of the span that match, oldest slice first. */
  of(tenant: string, span: Span, filter?: EventFilter): AsyncIterable<readonly Counted[]>;
  /** The same of all tenants. */
  ofAll(span: Span): AsyncIterable<readonly TypeCount[]>;
  /** The same of all tenants together, hour by hour. */
  ofServer(span: Span): AsyncIterable<readonly Omit<Counted, 'domain' | 'form'>[]>;
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MINUTE = 60_000;
/** An event is on the disk by then, however slow its commit. */
const LATE = 5 * MINUTE;
/** The loop turns after so long a time of reading, ms. */
const HOLD = 10;

/** The counts of this store. */
export function createEventCounts({ store, clock }: { store: Store; clock: Clock }): EventCounts {
  /** All before is counted. */
  let counted = 0;
  let rolling: Promise<void> | undefined;

  function rollUp(): Promise<void> {
    rolling ??= countOver().finally(() => (rolling = undefined));
    return rolling;
  }

  async function countOver(): Promise<void> {
    const over = hourOf(clock.now() - LATE);
    if (counted >= over) return;
    const last = await lastCountedHour(store);
    let from = Math.max(counted, last === undefined ? 0 : last + HOUR);
    while (from < over) {
      const next = await nextEventAt(store, from);
      if (next === undefined || next >= over) break;
      await countHour(hourOf(next));
      from = hourOf(next) + HOUR;
    }
    counted = over;
  }

  /** In one unit, so that an hour is counted whole or not at all; a second time changes nothing. */
  async function countHour(hour: number): Promise<void> {
    const sums = new Map<string, EventCountRow>();
    for await (const slice of slices({ from: hour, until: hour + HOUR }, 0)) {
      for (const row of await eventsOfAll(store, slice)) {
        const name = JSON.stringify([row.tenant, row.type, row.domain, row.form]);
        const sum = sums.get(name);
        if (sum === undefined) sums.set(name, { ...row, hour });
        else sum.count += row.count;
      }
    }
    await store.write([...sums.values()].map((sum) => saveCount(sum)));
  }

  /** The span in slices: days of whole hours that are counted, minutes of what is not. */
  async function* slices({ from, until }: Span, known = counted): AsyncGenerator<Span & { readonly live: boolean }> {
    // What is counted while this runs does not concern it: the events are still there.
    const whole = hourOf(Math.min(until, known));
    let began = clock.monotonic();
    for (let at = from; at < until;) {
      const live = at >= whole || at !== hourOf(at);
      const end = live ? Math.min(at + MINUTE, hourOf(at) + HOUR, until) : Math.min(at + DAY, whole);
      yield { from: at, until: end, live };
      at = end;
      if (clock.monotonic() - began < HOLD) continue;
      await turn();
      began = clock.monotonic();
    }
  }

  return {
    rollUp,
    async *of(tenant, { from, until }, { type, form, domains } = {}) {
      await rollUp();
      const first = (await firstCountedHour(store, tenant)) ?? counted;
      for await (const slice of slices({ from: Math.max(from, first), until: Math.min(until, clock.now() + 1) })) {
        const { from, until } = slice;
        const rows = slice.live
          ? (await eventsOf(store, tenant, { from, until })).map((row) => ({ ...row, from, until }))
          : (await hoursOf(store, tenant, from, until)).map(({ hour, ...row }) => {
              return { ...row, from: hour, until: hour + HOUR };
            });
        yield rows.filter(
          (row) =>
            (type ?? row.type) === row.type &&
            (form ?? row.form) === row.form &&
            domains?.includes(row.domain) !== false,
        );
      }
    },
    async *ofServer({ from, until }) {
      await rollUp();
      for await (const slice of slices({ from, until: Math.min(until, clock.now() + 1) })) {
        const { from, until } = slice;
        yield slice.live
          ? (await eventsOfAll(store, slice)).map(({ type, count }) => ({ type, count, from, until }))
          : (await hoursOfServer(store, from, until)).map(({ hour, ...row }) => {
              return { ...row, from: hour, until: hour + HOUR };
            });
      }
    },
    async *ofAll({ from, until }) {
      await rollUp();
      for await (const slice of slices({ from, until: Math.min(until, clock.now() + 1) })) {
        yield await (slice.live ? eventsOfAll(store, slice) : hoursOfAll(store, slice.from, slice.until));
      }
    },
  };
}

const NAMES = [
  ['submission.accepted', 'submissions'],
  ['submission.spam', 'spam'],
  ['email.queued', 'queued'],
  ['email.delivered', 'delivered'],
  ['email.deferred', 'deferred'],
  ['email.bounced', 'bounced'],
  ['inbound.accepted', 'forwarded'],
  ['inbound.rejected', 'rejected'],
] as const;

type NumberName = (typeof NAMES)[number][1];

const NUMBER_OF: ReadonlyMap<string, NumberName> = new Map(NAMES);

/** The number that events of this type count in, if any. */
export function nameOf(type: string): NumberName | undefined {
  return NUMBER_OF.get(type);
}

/** Nothing counted yet. */
export function noNumbers(): Record<NumberName, number> {
  return {
    submissions: 0,
    spam: 0,
    queued: 0,
    delivered: 0,
    deferred: 0,
    bounced: 0,
    forwarded: 0,
    rejected: 0,
  };
}

/** The start of the UTC hour. */
function hourOf(at: number): number {
  return at - (at % HOUR);
}

/** So many go in one commit, so that what is accepted meanwhile waits for milliseconds. */
const BATCH = 500;

/** Forgets whole hours of events that are older than the configuration keeps them, whole days on PostgreSQL; their counts stay. */
export async function forgetOldEvents(services: {
  readonly store: Store;
  readonly clock: Clock;
  readonly counts: Pick<EventCounts, 'rollUp'>;
  readonly config: () => { readonly retention: Pick<ServerConfig['retention'], 'events'> };
}): Promise<void> {
  const { store, clock, counts, config } = services;
  await counts.rollUp();
  const oldest = await dropEventDays(store, hourOf(clock.now() - config().retention.events));
  if (oldest === undefined) return;
  const before = firstId('evt', oldest);
  await stepByStep({ clock, rest: restOf(store) }, async () => {
    const [{ changes }] = await store.write([forgetEvents({ before, most: BATCH })]);
    return changes === BATCH;
  });
}

export interface EventsWanted extends EventFilter, Span {
  readonly tenant: string;
  /** The last event of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/**
 * A page of the tenant's events, newest first (one more than `limit` where there are more), with the number of all that match.
 * However rare they are, no query looks through more than the events of an hour: where there are any, the counts know.
 */
export async function pageOfEvents(
  { store, counts }: { readonly store: Store; readonly counts: EventCounts },
  { tenant, before, limit, from, until, ...filter }: EventsWanted,
): Promise<{ readonly events: readonly EventRow[]; readonly count: number }> {
  const events: EventRow[] = [];
  const oldest = await nextEventAt(store, 0);
  if (oldest === undefined) return { events, count: 0 };
  // The counts outlive the events.
  const rows = (
    await Array.fromAsync(counts.of(tenant, { from: Math.max(from, hourOf(oldest)), until }, filter))
  ).flat();
  const cursor = before ?? firstId('evt', until);
  const places = new Map(rows.map((row) => [row.from, row]));
  for (const [start, { until: end }] of [...places].sort(([a], [b]) => b - a)) {
    if (start > timeOfId(cursor)) continue;
    const more = limit + 1 - events.length;
    if (more === 0) break;
    const span = { from: start, until: end };
    events.push(...(await listEvents(store, tenant, { ...filter, ...span, before: cursor, limit: more })));
  }
  return { events, count: rows.reduce((sum, { count }) => sum + count, 0) };
}
