/**
 * Claims: a delivery that is being tried is leased to one daemon. The try and the time of the next one are written with
 * the claim, before anybody dials, so that a crash in the middle never becomes a storm of retries.
 */
import { sql, type RawBuilder } from 'kysely';
import { unclaimed, unsettled, waiting } from './messages.ts';
import { recomputeDueAmong } from './destinations.ts';
import { listed, query, reader, type Placeholders, type Dialect } from './statement.ts';
import type { Store } from './store.ts';
import type { DeliveryRow } from './tables.ts';

export type ClaimedRow = Pick<
  DeliveryRow,
  'id' | 'message' | 'tenant' | 'recipient' | 'destination' | 'attempts' | 'created_at' | 'expires_at' | 'counted_at'
> & {
  /** 1: on the tenant's suppression list. */
  suppressed: number;
  /** 1: it tells of a form whose notifications the recipient has ended. */
  stopped: number;
  /** 1: nothing of its tenant leaves now. */
  suspended: number;
  /** 1: its recipient must have agreed to get mail of its tenant. */
  untrusted: number;
};

interface Claim {
  destination: string;
  now: number;
  owner: string;
  until: number;
  /** JSON array of ms: how long after `now` the next try is due, by the tries before this one. The last repeats. */
  delays: string;
  last_delay: number;
  limit: number;
}

/** Deliveries that take one turn together at their destination. */
export type Turn = Pick<DeliveryRow, 'bulk' | 'tenant' | 'flow'>;

/** The statement that claims up to `limit` due deliveries of a destination, longest due first. */
export const claimDeliveries = query<Claim, ClaimedRow>((value, dialect) => claim(value, dialect));

/** The same, due last first. */
export const claimNewest = query<Claim, ClaimedRow>((value, dialect) =>
  claim(value, dialect, { order: sql`next_attempt_at desc` }),
);

/** The same as the first for one turn. */
export const claimTurn = query<Claim & Turn, ClaimedRow>((value, dialect) =>
  claim(value, dialect, {
    among: sql`and bulk = ${value('bulk')} and tenant = ${value('tenant')} and flow = ${value('flow')}`,
  }),
);

function claim(
  value: Placeholders<Claim>,
  dialect: Dialect,
  { among = sql``, order = sql`next_attempt_at` }: { among?: RawBuilder<unknown>; order?: RawBuilder<unknown> } = {},
) {
  // Only PostgreSQL has other daemons whose claims run at the same time.
  const lock = dialect === 'sqlite' ? sql`` : sql`for update skip locked`;
  const recipient = sql`lower(deliveries.recipient)`;
  const spellings = sql`(${recipient}, ${hashOf(recipient, dialect)})`;
  return sql<ClaimedRow>`update deliveries set state = 'sending', attempts = attempts + 1,
      next_attempt_at = ${nextAttempt(value, dialect)},
      lease_owner = ${value('owner')}, lease_until = ${value('until')}, begun = 0
    where id in (
      select id from deliveries where destination = ${value('destination')} and ${waiting}
        and next_attempt_at <= ${value('now')} ${among}
      order by ${order} limit ${value('limit')} ${lock})
    returning id, message, tenant, recipient, destination, attempts, created_at, expires_at, counted_at,
      case when exists (select 1 from suppressions where suppressions.tenant = deliveries.tenant
        and suppressions.address in ${spellings} and suppressions.form = '') then 1 else 0 end as suppressed,
      case when exists (select 1 from suppressions
        join submissions on submissions.form = suppressions.form and submissions.tenant = suppressions.tenant
        join messages on messages.submission = submissions.id
        where suppressions.tenant = deliveries.tenant and suppressions.address in ${spellings}
          and suppressions.form <> '' and messages.id = deliveries.message) then 1 else 0 end as stopped,
      case when ${tenantIs(sql`suspended = 1`)} then 1 else 0 end as suspended,
      case when ${tenantIs(sql`trusted = 0`)} then 1 else 0 end as untrusted`;
}

/** The `hashedAddress` of an address: SQLite has the function from sqlite-connection.ts. */
function hashOf(address: RawBuilder<unknown>, dialect: Dialect) {
  return dialect === 'sqlite'
    ? sql`hashed_address(${address})`
    : sql`'sha256:' || encode(sha256(convert_to(${address}, 'UTF8')), 'hex')`;
}

/** Whether the tenant of the delivery of the surrounding statement is so. */
function tenantIs(flag: RawBuilder<unknown>) {
  return sql`exists (select 1 from tenants where tenants.id = deliveries.tenant and tenants.${flag})`;
}

/** Reading an element of a JSON array is the one thing here that the dialects spell differently. */
function nextAttempt(value: Placeholders<Claim>, dialect: Dialect): RawBuilder<number> {
  const now = sql`cast(${value('now')} as bigint)`;
  // better-sqlite3 binds every number as a REAL, and `$[1.0]` is no path.
  return dialect === 'sqlite'
    ? sql`${now} + json_extract(${value('delays')}, '$[' || min(attempts, cast(${value('last_delay')} as integer)) || ']')`
    : sql`${now} + (${value('delays')}::json ->> least(attempts, ${value('last_delay')})::int)::bigint`;
}

/**
 * The statement that says, before anybody is dialled, that the tries of these deliveries have begun.
 * Returns those of which that is true: the owner still has them, and their tenant is not suspended.
 */
export const beginDeliveries = query<{ ids: readonly string[]; owner: string }, Pick<DeliveryRow, 'id' | 'attempts'>>(
  (value) => sql`update deliveries set begun = 1
    where id in ${listed(value('ids'))} and state = 'sending' and lease_owner = ${value('owner')}
      and not ${tenantIs(sql`suspended = 1`)}
    returning id, attempts`,
);

// From one tenant straight to the next in the index, however much each has waiting.
const tenants = query<{ destination: string; bulk: number; after: string; limit: number }, { tenant: string }>(
  (value) => {
    const first = sql`select min(deliveries.tenant) from deliveries
      where destination = ${value('destination')} and bulk = ${value('bulk')} and ${waiting} and deliveries.tenant >`;
    return sql`with recursive turn (tenant) as (
        select (${first} cast(${value('after')} as text))
        union all
        select (${first} turn.tenant) from turn where turn.tenant is not null
      )
      select tenant from turn where tenant is not null limit ${value('limit')}`;
  },
);

/** Up to `limit` tenants, in order after the one named, that have mail waiting for the destination, bulk or not. */
export async function tenantsWaiting(
  store: Store,
  destination: string,
  among: Pick<Turn, 'bulk'> & { after: string; limit: number },
): Promise<string[]> {
  return (await store.select(tenants({ destination, ...among }))).map(({ tenant }) => tenant);
}

const flows = query<Turn & { destination: string }, { flow: string | null }>((value) => {
  const first = sql`select min(flow) from deliveries where destination = ${value('destination')}
    and bulk = ${value('bulk')} and tenant = ${value('tenant')} and ${waiting}`;
  return sql`select coalesce((${first} and flow > ${value('flow')}), (${first})) as flow`;
});

/** The flow of the tenant that has its turn after this one; undefined where nothing waits. */
export async function nextFlow(store: Store, destination: string, after: Turn): Promise<string | undefined> {
  return (await store.select(flows({ destination, ...after })))[0]?.flow ?? undefined;
}

/** What is leased until before `before`. */
function lapsed(value: Placeholders<{ before: number }>) {
  return sql`state = 'sending' and ${unsettled} and lease_until < ${value('before')}`;
}

const lapsedDestinations = query<{ before: number }, { destination: string }>(
  (value) => sql`select distinct destination from deliveries where ${lapsed(value)}`,
);
// On PostgreSQL the rows' owner may be about to renew: it waits, and then finds them taken.
const recordInterrupted = query<{ before: number; at: number; reply: string }>(
  (value, dialect) => sql`insert into attempts (delivery, number, at, outcome, reply)
    select id, attempts, cast(${value('at')} as bigint), 'interrupted', cast(${value('reply')} as text)
    from deliveries where ${lapsed(value)} and begun = 1 ${dialect === 'sqlite' ? sql`` : sql`for update`}
    on conflict (delivery, number) do nothing`,
);
/** A try that began: the next is due `soon`, or when the claim said where the try before ended in the same way. */
const takeBackBegun = query<{ before: number; soon: number }>(
  (value) => sql`update deliveries set state = 'deferred', lease_owner = null, lease_until = null,
      next_attempt_at = case
        when next_attempt_at < ${value('soon')} or exists (
          select 1 from attempts where attempts.delivery = deliveries.id
            and attempts.number = deliveries.attempts - 1 and attempts.outcome = 'interrupted')
        then next_attempt_at else cast(${value('soon')} as bigint) end
    where ${lapsed(value)} and begun = 1`,
);
/** A try that never began does not count, and is made at once. */
const takeBackUnbegun = query<{ before: number; at: number }>(
  (value) => sql`update deliveries
    set ${unclaimed}, lease_owner = null, lease_until = null, next_attempt_at = ${value('at')}
    where ${lapsed(value)} and begun = 0`,
);

/** How long what was being sent when its daemon died waits the first time, ms. */
const SOON = 5000;

/**
 * Takes back what is leased until before `before`. What had begun counts and is tried again in some seconds, or, where that
 * ends in a crash as well, when the claim said. Answers how many destinations that concerned.
 */
export async function takeBackLeases(store: Store, before: number, at: number): Promise<number> {
  const destinations = await store.select(lapsedDestinations({ before }));
  if (destinations.length === 0) return 0;
  await store.write([
    recordInterrupted({ before, at, reply: 'the daemon stopped during the attempt' }),
    takeBackBegun({ before, soon: at + SOON }),
    takeBackUnbegun({ before, at }),
    recomputeDueAmong({ names: destinations.map(({ destination }) => destination) }),
  ]);
  return destinations.length;
}

/** The statement that renews all leases of this owner. */
export const renewLeases = query<{ owner: string; until: number }>(
  (value) => sql`update deliveries set lease_until = ${value('until')}
    where state = 'sending' and ${unsettled} and lease_owner = ${value('owner')}`,
);

/** What this owner has leased. */
export const leasedTo = reader(
  (owner: string) => sql<Pick<DeliveryRow, 'id' | 'attempts' | 'destination'>>`
    select id, attempts, destination from deliveries
    where state = 'sending' and ${unsettled} and lease_owner = ${owner}`,
);
