/**
 * Events as they happen, over connections that stay open. Whoever records an event knows nothing of streams: each looks for
 * news in the database twice a second, a little way back, because of units that are committed later than they were begun and
 * of other daemons' clocks. So it does not matter which daemon an event is of, and a client that was away goes on where it
 * was, by the id of the last event that it got. An event may come twice after that, and none is left out without a word.
 * What is in memory is bounded: the number of streams, the ids of the last seconds, and one batch for each reader.
 */
import type { Clock } from '../lib/clock.ts';
import { isoTime } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { firstId, timeOfId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { eventIdsSince, eventsAmong } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import type { EventRow } from '../store/tables.ts';
import { stretchOfEvents } from '../store/webhooks.ts';

const MAX_STREAMS = 500;
export const MAX_STREAMS_OF_ACCOUNT = 20;
const HEARTBEAT_MS = 20_000;
/** How long a client may have been away to get what it missed. */
const MAX_RESUME_MS = 3_600_000;
/** And how much that may be. */
export const MAX_RESUMED = 10_000;
const LOOK_EVERY_MS = 500;
/** Of the time at most one part in so many is spent looking, however much happens. */
const REST = 20;
const MAX_LOOK_EVERY_MS = 5000;
/** So far back each look goes. */
const BACK_MS = 10_000;
/** What was sent so shortly before the last event that the client got is sent again: something beside it may be late. */
const OVERLAP_MS = 3000;
/** Whether the client still may. */
const PERMIT_EVERY_MS = 5000;
/** A reader that takes nothing for so long is dropped. */
const MAX_STALL_MS = 30_000;
const WATCH_EVERY_MS = 5000;
/** What a browser waits before it connects again. */
const RETRY_MS = 3000;
const IDS_AT_ONCE = 1000;
const AT_ONCE = 100;

/** Which events a client may see, and wants to. */
export interface StreamFilter {
  readonly tenant: string;
  /** Undefined: all. */
  readonly types?: readonly string[] | undefined;
  readonly domains?: readonly string[] | undefined;
  readonly form?: string | undefined;
}

export interface StreamRequest {
  /** Whose streams are counted together. */
  readonly account: string;
  /** The last event that the client has got. */
  readonly after?: string | undefined;
  /** Asked now and again: undefined where the client may not any more. */
  readonly permit: () => Promise<StreamFilter | undefined>;
  /** An event as text without line breaks. */
  readonly format: (event: EventRow) => string;
  /** Aborts when the client is gone. */
  readonly gone: AbortSignal;
  readonly hangUp: () => void;
}

export type Opened =
  | { readonly kind: 'open'; readonly stream: AsyncIterable<string> }
  | { readonly kind: 'too-many'; readonly of: 'account' | 'server' };

export interface EventStreams {
  open(request: StreamRequest): Opened;
  /** Ends them all, and opens none from now on. */
  close(): void;
}

interface Open {
  readonly request: StreamRequest;
  /** Since when the client has not taken what it is sent, on the monotonic clock; undefined while it takes all. */
  stalledSince: number | undefined;
}

export function createEventStreams({
  store,
  clock,
  log,
}: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}): EventStreams {
  const stop = new AbortController();
  const streams = new Set<Open>();
  let watching = false;

  function open(request: StreamRequest): Opened {
    const own = [...streams].filter((one) => one.request.account === request.account);
    if (own.length >= MAX_STREAMS_OF_ACCOUNT) return { kind: 'too-many', of: 'account' };
    if (streams.size >= MAX_STREAMS || stop.signal.aborted) return { kind: 'too-many', of: 'server' };
    const one: Open = { request, stalledSince: undefined };
    streams.add(one);
    // Also where nobody ever reads it.
    request.gone.addEventListener('abort', () => streams.delete(one), { once: true });
    if (!watching) void watch();
    return { kind: 'open', stream: follow(one) };
  }

  /** Hangs up on readers that take nothing: what they missed is in the database. */
  async function watch(): Promise<void> {
    watching = true;
    while (streams.size > 0 && !stop.signal.aborted) {
      await clock.sleep(WATCH_EVERY_MS, stop.signal);
      const before = clock.monotonic() - MAX_STALL_MS;
      for (const { request, stalledSince } of streams)
        if (stalledSince !== undefined && stalledSince <= before) request.hangUp();
    }
    watching = false;
  }

  async function* follow(one: Open): AsyncGenerator<string> {
    const { account, gone } = one.request;
    const ended = AbortSignal.any([gone, stop.signal]);
    try {
      for await (const text of textsOf(one.request, ended)) {
        one.stalledSince = clock.monotonic();
        yield text;
        one.stalledSince = undefined;
      }
    } catch (error) {
      // The client connects again, and goes on where it was.
      log.error('events.stream_failed', { tenant: account, ...errorFields(error) });
    } finally {
      streams.delete(one);
    }
  }

  async function* textsOf({ permit, after, format }: StreamRequest, ended: AbortSignal): AsyncGenerator<string> {
    // Whoever gets no event goes on where it began, too.
    const began = after === undefined ? `id: ${firstId('evt', clock.now())}\n` : '';
    yield `retry: ${RETRY_MS}\n${began}\n`;
    let filter = await permit();
    if (filter === undefined) return;
    const news = new News(store, filter.tenant);
    const now = clock.now();
    const gap = await news.begin(after, now);
    if (gap !== undefined) yield message({ id: firstId('evt', now), event: 'gap', data: JSON.stringify(gap) });
    let permittedAt = clock.monotonic();
    let wroteAt = clock.monotonic();
    while (!ended.aborted) {
      if (clock.monotonic() - permittedAt >= PERMIT_EVERY_MS) {
        filter = await permit();
        if (filter?.tenant !== news.tenant) return;
        permittedAt = clock.monotonic();
      }
      const lookedAt = clock.monotonic();
      for await (const events of news.read(clock.now())) {
        const wanted = wantedOf(events, filter);
        if (wanted.length === 0) continue;
        yield wanted.map((event) => message({ id: event.id, data: format(event) })).join('');
        wroteAt = clock.monotonic();
        if (ended.aborted) return;
      }
      if (clock.monotonic() - wroteAt >= HEARTBEAT_MS) {
        yield ': heartbeat\n\n';
        wroteAt = clock.monotonic();
      }
      const rest = Math.min((clock.monotonic() - lookedAt) * REST, MAX_LOOK_EVERY_MS);
      await clock.sleep(Math.max(LOOK_EVERY_MS, rest), ended);
    }
  }

  return { open, close: () => stop.abort() };
}

function wantedOf(events: readonly EventRow[], { types, domains, form }: StreamFilter): EventRow[] {
  return events.filter(
    (event) =>
      types?.includes(event.type) !== false &&
      (domains === undefined || (event.domain !== null && domains.includes(event.domain))) &&
      (form === undefined || event.form === form),
  );
}

/** One message of the stream (HTML Standard §9.2.6). */
function message({ id, event, data }: { id?: string; event?: string; data: string }): string {
  const lines = [
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(event === undefined ? [] : [`event: ${event}`]),
    `data: ${data}`,
  ];
  return `${lines.join('\n')}\n\n`;
}

/** The events of a tenant, each of them once, in the order in which they can be seen. */
class News {
  readonly tenant: string;
  readonly #store: Store;
  /** Of the events that the next look may find again, with their times. */
  readonly #known = new Map<string, number>();
  #since = 0;

  constructor(store: Store, tenant: string) {
    this.#store = store;
    this.tenant = tenant;
  }

  /** Begins after this event, or now. Where what was missed is too long ago or too much, it begins now and answers what is left out. */
  async begin(after: string | undefined, now: number): Promise<{ since: string; until: string } | undefined> {
    const last = after === undefined ? now : Math.min(timeOfId(after), now);
    if (after !== undefined && !(await this.#isTooMuch(last, now))) {
      await this.#skip(last - BACK_MS, last - OVERLAP_MS);
      return undefined;
    }
    await this.#skip(now - BACK_MS, Infinity);
    return after === undefined ? undefined : { since: isoTime(last), until: isoTime(now) };
  }

  /** Begins with what happened since then; what is there already, up to the other time, is not new. */
  async #skip(since: number, until: number): Promise<void> {
    this.#since = since;
    for await (const ids of this.#ids()) {
      for (const { id, created_at: at } of ids) if (at < until) this.#known.set(id, at);
      if ((ids.at(-1)?.created_at ?? 0) >= until) return;
    }
  }

  async #isTooMuch(last: number, now: number): Promise<boolean> {
    if (last < now - MAX_RESUME_MS) return true;
    return (await stretchOfEvents(this.#store, { tenant: this.tenant, since: last, size: MAX_RESUMED })) !== undefined;
  }

  /** What is new, some events at a time. */
  async *read(now: number): AsyncGenerator<EventRow[]> {
    let newest = this.#since;
    for await (const ids of this.#ids()) {
      const fresh = ids.filter(({ id }) => !this.#known.has(id));
      for (let i = 0; i < fresh.length; i += AT_ONCE) {
        const some = fresh.slice(i, i + AT_ONCE);
        const events = await eventsAmong(
          this.#store,
          some.map(({ id }) => id),
        );
        for (const { id, created_at: at } of some) this.#known.set(id, at);
        yield events;
      }
      newest = Math.max(newest, ids.at(-1)?.created_at ?? newest);
    }
    // Of another daemon's future nothing is concluded.
    this.#since = Math.max(this.#since, Math.min(newest, now) - BACK_MS);
    for (const [id, at] of this.#known) if (at < this.#since) this.#known.delete(id);
  }

  async *#ids(): AsyncGenerator<Pick<EventRow, 'id' | 'created_at'>[]> {
    let place = { since: this.#since, after: '' };
    for (;;) {
      const ids = await eventIdsSince(this.#store, { tenant: this.tenant, ...place, limit: IDS_AT_ONCE });
      yield ids;
      const last = ids.at(-1);
      if (last === undefined || ids.length < IDS_AT_ONCE) return;
      place = { since: last.created_at, after: last.id };
    }
  }
}
