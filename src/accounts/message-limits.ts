/**
 * How much mail an account may send: recipients per hour and per day, as its plan or the tenant's own numbers say, counted
 * in the database for all daemons together. What a program sends is refused where there is no room, in the unit that would
 * accept it. What visitors and senders cause is never refused: it counts when it is about to be tried first, and where
 * there is no room it waits for a minute that has some, which is reserved for it. Each recipient counts once, however often it is
 * tried; the operator's tenant, test mail, reports to senders and mail of the server itself count nowhere.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { markCounted, deliveriesWaitingForPlan, recountDeliveries } from '../store/messages.ts';
import { repairDueAmong } from '../store/destinations.ts';
import { messageCounts, releaseReserved, takeMessages, type Taking } from '../store/usage.ts';
import { OPERATOR, findTenants } from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { TenantRow } from '../store/tables.ts';
import { type Verdict, judgeWindow, type Slice } from './rate-limits.ts';
import { messagesOf, type MessageAllowance } from './plans.ts';
import type { Principal } from './principal.ts';

/** What `count` messages more would mean to an account. */
export type QuotaCheck =
  /** For the unit that accepts them, which fails with UnmetError where the room is gone by then. */
  | { readonly kind: 'allowed'; readonly unit: readonly Statement[] }
  /** There is none before `at`, ms. */
  | { readonly kind: 'later'; readonly at: number; readonly message: string }
  /** However long one waits. */
  | { readonly kind: 'never'; readonly message: string };

/** A delivery that is about to be tried first. */
export interface Countable {
  readonly id: string;
  readonly tenant: string;
}

export interface Wait {
  readonly until: number;
  /** What its owner reads. */
  readonly reply: string;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Of units that find their room taken by another one. */
const MAX_TRIES = 20;
const MAX_RELEASED = 500;

interface MessageParts {
  readonly store: Store;
  readonly clock: Clock;
  /** As it is now. */
  readonly config: Pick<ServerConfig, 'plans'>;
}

/** Whether the principal may send to so many recipients now. */
export async function checkQuota(
  { tenant, environment }: Pick<Principal, 'tenant' | 'environment'>,
  count: number,
  { store, clock, config }: MessageParts,
): Promise<QuotaCheck> {
  if (tenant.id === OPERATOR || environment === 'test') return { kind: 'allowed', unit: [] };
  const allowance = messagesOf(tenant, config);
  const never = tooMany(allowance, count);
  if (never !== undefined) return { kind: 'never', message: never };
  const now = clock.now();
  const at = firstFree(await countsOf(tenant.id, now, store), allowance, { from: now, count });
  if (at > now) return { kind: 'later', at, message: `${usedUp(allowance)} Try again ${inWords(at - now)}.` };
  return { kind: 'allowed', unit: takeMessages(store, [takingAt(now, { tenant: tenant.id, count }, allowance)]) };
}

/** Counts the deliveries. Answers those that have to wait, and until when (ms); what is reserved for them is kept. */
export async function placeDeliveries(
  deliveries: readonly Countable[],
  parts: MessageParts,
): Promise<ReadonlyMap<string, Wait>> {
  const byTenant = Map.groupBy(deliveries, ({ tenant }) => tenant);
  const ids = [...byTenant.keys()].filter((id) => id !== OPERATOR).sort();
  const tenants = ids.length === 0 ? [] : await findTenants(parts.store, ids);
  const waits = new Map<string, Wait>();
  // One by one: where the room of one is taken meanwhile, the others are not concerned.
  for (const tenant of tenants.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const some = (byTenant.get(tenant.id) ?? []).map(({ id }) => id).sort();
    for (const [id, wait] of await placeOf(tenant, some, parts)) waits.set(id, wait);
  }
  return waits;
}

async function placeOf(
  tenant: TenantRow,
  ids: readonly string[],
  { store, clock, config }: MessageParts,
): Promise<ReadonlyMap<string, Wait>> {
  const allowance = messagesOf(tenant, config);
  for (let tries = 1; ; tries++) {
    const now = clock.now();
    const places = placesFor(await countsOf(tenant.id, now, store), allowance, { from: now, count: ids.length });
    const takings = places.map(({ at, count }) => takingAt(at, { tenant: tenant.id, count }, allowance));
    const going = places[0]?.at === now ? places[0].count : 0;
    const counted = going === 0 ? [] : [markCounted({ ids: ids.slice(0, going), at: now })];
    const unit = [...takeMessages(store, takings), ...counted];
    // The last time it fails as it does.
    if (tries === MAX_TRIES) await store.write(unit);
    else if ((await writeIfMet(store, unit)) === undefined) continue;
    const reply = `451 4.7.1 ${usedUp(allowance)} This mail is waiting.`;
    // One value for all that wait for the same time: the queue writes them down together.
    const waits = places.flatMap(({ at, count }) => {
      const wait = { until: at, reply };
      return Array.from({ length: count }, () => wait);
    });
    return new Map(ids.flatMap((id, i) => (i < going || waits[i] === undefined ? [] : [[id, waits[i]] as const])));
  }
}

/** What is left to the tenant per hour and per day; undefined where nothing limits it. */
export async function messagesLeft(
  tenant: TenantRow,
  { store, clock, config }: MessageParts,
): Promise<{ readonly hour: Verdict | undefined; readonly day: Verdict | undefined }> {
  if (tenant.id === OPERATOR) return { hour: undefined, day: undefined };
  const { per_hour, per_day } = messagesOf(tenant, config);
  const now = clock.now();
  const slices = await countsOf(tenant.id, now, store);
  return { hour: verdict(per_hour, HOUR), day: verdict(per_day, DAY) };

  function verdict(count: number | null, windowMs: number): Verdict | undefined {
    if (count === null) return undefined;
    const within = slices.filter(({ starts_at }) => starts_at > now - windowMs);
    const allowed = usedIn(within, now, windowMs) < count;
    return judgeWindow(within, { limit: { count, windowMs }, allowed, now });
  }
}

/** Lets all that waits, of the tenant or of all, be counted anew: its plan has changed. Then wake the queue. */
export async function recountWaiting({ store, clock }: Omit<MessageParts, 'config'>, tenant = ''): Promise<void> {
  const now = clock.now();
  const waiting = await deliveriesWaitingForPlan(store, tenant, now);
  await store.write([releaseReserved({ tenant, now })]);
  for (let i = 0; i < waiting.length; i += MAX_RELEASED) {
    const some = waiting.slice(i, i + MAX_RELEASED);
    const names = [...new Set(some.map(({ destination }) => destination))].sort();
    const ids = some.map(({ id }) => id);
    await store.write([recountDeliveries({ ids, now }), repairDueAmong({ names, now })]);
  }
}

function countsOf(tenant: string, now: number, store: Store): Promise<Slice[]> {
  return messageCounts(store, tenant, now - DAY);
}

interface WantedPlaces {
  readonly from: number;
  readonly count: number;
}

interface Place {
  /** ms; `from` itself where there is room at once. */
  readonly at: number;
  readonly count: number;
}

/** The first times at which there is room for all of them, in turn. Whoever waits already goes first. */
export function placesFor(
  known: readonly Slice[],
  allowance: MessageAllowance,
  { from, count }: WantedPlaces,
): Place[] {
  const slices = [...known];
  const places: Place[] = [];
  for (let left = count, at = from; left > 0;) {
    at = firstFree(slices, allowance, { from: at, count: 1 });
    const some = Math.min(left, roomAt(slices, allowance, at));
    places.push({ at, count: some });
    slices.push({ starts_at: minuteOf(at), count: some });
    slices.sort((a, b) => a.starts_at - b.starts_at);
    left -= some;
  }
  return places;
}

/** The first time from `from` on at which the windows that end then have room for so many. */
function firstFree(
  slices: readonly Slice[],
  { per_hour, per_day }: MessageAllowance,
  { from, count }: WantedPlaces,
): number {
  return Math.max(
    from,
    roomFrom(slices, per_hour, { windowMs: HOUR, count }),
    roomFrom(slices, per_day, { windowMs: DAY, count }),
  );
}

/** When so many of the slices (oldest first) have left the window that `count` more are within the limit; 0 where they are. */
function roomFrom(
  slices: readonly Slice[],
  limit: number | null,
  { windowMs, count }: { windowMs: number; count: number },
): number {
  let over = slices.reduce((sum, slice) => sum + slice.count, count) - (limit ?? Infinity);
  let at = 0;
  for (const slice of slices) {
    if (over <= 0) break;
    over -= slice.count;
    at = slice.starts_at + windowMs;
  }
  return at;
}

function roomAt(slices: readonly Slice[], { per_hour, per_day }: MessageAllowance, at: number): number {
  return Math.min((per_hour ?? Infinity) - usedIn(slices, at, HOUR), (per_day ?? Infinity) - usedIn(slices, at, DAY));
}

/** What the window that ends at `at` holds, with all that is reserved behind it: nobody is overtaken. */
function usedIn(slices: readonly Slice[], at: number, windowMs: number): number {
  return slices.reduce((sum, { starts_at, count }) => (starts_at > minuteOf(at) - windowMs ? sum + count : sum), 0);
}

/** Takes so many in the minute of `at`. */
function takingAt(
  at: number,
  taken: Pick<Taking, 'tenant' | 'count'>,
  { per_hour, per_day }: MessageAllowance,
): Taking {
  const starts_at = minuteOf(at);
  return {
    ...taken,
    starts_at,
    since_hour: starts_at - HOUR,
    since_day: starts_at - DAY,
    most_hour: (per_hour ?? Number.MAX_SAFE_INTEGER) - taken.count,
    most_day: (per_day ?? Number.MAX_SAFE_INTEGER) - taken.count,
  };
}

function minuteOf(at: number): number {
  return at - (at % MINUTE);
}

function tooMany({ plan, per_hour, per_day }: MessageAllowance, count: number): string | undefined {
  const most = Math.min(per_hour ?? Infinity, per_day ?? Infinity);
  if (count <= most) return undefined;
  const span = most === per_hour ? 'an hour' : 'a day';
  return `There are ${count} recipients, but the plan ${plan} allows ${most} ${span}. Send to fewer at a time.`;
}

function usedUp({ plan, per_hour, per_day }: MessageAllowance): string {
  const limits = [
    per_hour === null ? [] : `${per_hour} recipients an hour`,
    per_day === null ? [] : `${per_day} recipients a day`,
  ].flat();
  return `The account has reached the limit of the plan ${plan}: ${limits.join(' and ')}.`;
}

function inWords(ms: number): string {
  const minutes = Math.ceil(ms / MINUTE);
  if (minutes < 90) return `in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`;
  return `in ${Math.ceil(minutes / 60)} hours`;
}
