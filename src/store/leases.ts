/**
 * Claims: a delivery that is being tried is leased to one daemon. The try and the time of the next one are written with
 * the claim, before anybody dials, so that a crash in the middle never becomes a storm of retries.
 */
import { sql, type ExpressionBuilder, type Kysely, type RawBuilder, type SelectQueryBuilder } from 'kysely';
import { unclaimed, unsettled, waiting } from './deliveries.ts';
import { recomputeDueAmong } from './destinations.ts';
import { listed } from './rows.ts';
import { define, type Dialect, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { DeliveryRow, Tables } from './tables.ts';

export type ClaimedRow = Pick<
  DeliveryRow,
  'id' | 'message' | 'tenant' | 'recipient' | 'destination' | 'attempts' | 'created_at' | 'expires_at' | 'counted_at'
> & {
  /** 1: on the tenant's suppression list. */
  suppressed: number;
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

/** The statement that claims up to `limit` due deliveries of a destination, longest due first. */
export const claimDeliveries = define<Claim>()((db, value, dialect) =>
  claim({
    db,
    value,
    dialect,
    due: dueDeliveries(db, value).orderBy('next_attempt_at').limit(value('limit')),
  }),
);

/** The same for one tenant. */
export const claimDeliveriesOfTenant = define<Claim & { tenant: string }>()((db, value, dialect) =>
  claim({
    db,
    value,
    dialect,
    due: dueDeliveries(db, value)
      .where('tenant', '=', value('tenant'))
      .orderBy('next_attempt_at')
      .limit(value('limit')),
  }),
);

function dueDeliveries(db: Kysely<Tables>, value: Placeholders<Claim>) {
  return db
    .selectFrom('deliveries')
    .select('id')
    .where('destination', '=', value('destination'))
    .where(waiting)
    .where('next_attempt_at', '<=', value('now'));
}

interface ClaimParts {
  readonly db: Kysely<Tables>;
  readonly value: Placeholders<Claim>;
  readonly dialect: Dialect;
  readonly due: SelectQueryBuilder<Tables, 'deliveries', { id: string }>;
}

function claim({ db, value, dialect, due }: ClaimParts) {
  return (
    db
      .updateTable('deliveries')
      .set((eb) => ({
        state: 'sending',
        attempts: eb('attempts', '+', 1),
        next_attempt_at: nextAttempt(value, dialect),
        lease_owner: value('owner'),
        lease_until: value('until'),
        begun: sql.lit(0),
      }))
      // Only PostgreSQL has other daemons whose claims run at the same time.
      .where('id', 'in', dialect === 'sqlite' ? due : due.forUpdate().skipLocked())
      .returning([
        'id',
        'message',
        'tenant',
        'recipient',
        'destination',
        'attempts',
        'created_at',
        'expires_at',
        'counted_at',
      ])
      .returning((eb) =>
        eb
          .case()
          .when(
            eb.exists(
              eb
                .selectFrom('suppressions')
                .select('suppressions.address')
                .whereRef('suppressions.tenant', '=', 'deliveries.tenant')
                .where((on) => on('suppressions.address', '=', on.fn<string>('lower', ['deliveries.recipient']))),
            ),
          )
          .then(1)
          .else(0)
          .end()
          .as('suppressed'),
      )
      .returning((eb) => ofTenant(eb, 'suspended', 1).as('suspended'))
      .returning((eb) => ofTenant(eb, 'trusted', 0).as('untrusted'))
  );
}

/**
 * The statement that says, before anybody is dialled, that the tries of these deliveries (a JSON array of ids) have begun.
 * Returns those of which that is true: the owner still has them, and their tenant is not suspended.
 */
export const beginDeliveries = define<{ ids: string; owner: string }>()((db, value, dialect) =>
  db
    .updateTable('deliveries')
    .set({ begun: sql.lit(1) })
    .where('id', 'in', listed(value('ids'), dialect))
    .where('state', '=', 'sending')
    .where('lease_owner', '=', value('owner'))
    .where((eb) => eb.not(eb.exists(tenantWith(eb, 'suspended', 1))))
    .returning(['id', 'attempts']),
);

/** The tenant of the delivery, where it has this flag. */
function tenantWith(eb: ExpressionBuilder<Tables, 'deliveries'>, flag: 'suspended' | 'trusted', is: 0 | 1) {
  return eb
    .selectFrom('tenants')
    .select('tenants.id')
    .whereRef('tenants.id', '=', 'deliveries.tenant')
    .where(`tenants.${flag}`, '=', sql.lit(is));
}

/** 1 where the tenant of the delivery has this flag, else 0. */
function ofTenant(eb: ExpressionBuilder<Tables, 'deliveries'>, flag: 'suspended' | 'trusted', is: 0 | 1) {
  return eb
    .case()
    .when(eb.exists(tenantWith(eb, flag, is)))
    .then(1)
    .else(0)
    .end();
}

/** Reading an element of a JSON array is the one thing here that the dialects spell differently. */
function nextAttempt(value: Placeholders<Claim>, dialect: Dialect): RawBuilder<number> {
  const now = sql`cast(${value('now')} as bigint)`;
  // better-sqlite3 binds every number as a REAL, and `$[1.0]` is no path.
  return dialect === 'sqlite'
    ? sql`${now} + json_extract(${value('delays')}, '$[' || min(attempts, cast(${value('last_delay')} as integer)) || ']')`
    : sql`${now} + (${value('delays')}::json ->> least(attempts, ${value('last_delay')})::int)::bigint`;
}

const tenants = define<{ destination: string; after: string; limit: number }>()((db, value) => {
  const first = db
    .selectFrom('deliveries')
    .select((eb) => eb.fn.min('deliveries.tenant').as('tenant'))
    .where('destination', '=', value('destination'))
    .where(waiting);
  // From one tenant straight to the next in the index, however much each has waiting.
  const query = sql<{ tenant: string }>`with recursive turn (tenant) as (
      select (${first.where(sql<boolean>`deliveries.tenant > cast(${value('after')} as text)`)})
      union all
      select (${first.where(sql<boolean>`deliveries.tenant > turn.tenant`)}) from turn where turn.tenant is not null
    )
    select tenant from turn where tenant is not null limit ${value('limit')}`;
  return { compile: () => query.compile(db) };
});

/** Up to `limit` tenants, in order after the one named, that have something waiting for the destination. */
export async function tenantsWaiting(
  store: Store,
  destination: string,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await store.select(tenants({ destination, after, limit }));
  return rows.map(({ tenant }) => tenant);
}

const lapsed = define<{ before: number }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .select('destination')
    .distinct()
    .where('state', '=', 'sending')
    .where(unsettled)
    .where('lease_until', '<', value('before')),
);
const recordInterrupted = define<{ before: number; at: number; reply: string }>()((db, value, dialect) => {
  const rows = db
    .selectFrom('deliveries')
    .select((eb) => [
      'id as delivery',
      'attempts as number',
      eb.cast<number>(eb.val(value('at')), 'bigint').as('at'),
      sql<null>`cast(null as text)`.as('host'),
      sql<null>`cast(null as text)`.as('address'),
      sql<null>`cast(null as text)`.as('tls'),
      sql<'interrupted'>`cast('interrupted' as text)`.as('outcome'),
      eb.cast<string>(eb.val(value('reply')), 'text').as('reply'),
    ])
    .where('state', '=', 'sending')
    .where(unsettled)
    .where('lease_until', '<', value('before'))
    .where('begun', '=', sql.lit(1));
  return (
    db
      .insertInto('attempts')
      .columns(['delivery', 'number', 'at', 'host', 'address', 'tls', 'outcome', 'reply'])
      // On PostgreSQL the rows' owner may be about to renew: it waits, and then finds them taken.
      .expression(dialect === 'sqlite' ? rows : rows.forUpdate())
      .onConflict((conflict) => conflict.columns(['delivery', 'number']).doNothing())
  );
});
/** A try that began: the next is due `soon`, or when the claim said where the try before ended in the same way. */
const takeBackBegun = define<{ before: number; soon: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set((eb) => ({
      state: 'deferred',
      lease_owner: null,
      lease_until: null,
      next_attempt_at: eb
        .case()
        .when(
          eb.or([
            eb('next_attempt_at', '<', value('soon')),
            eb.exists(
              eb
                .selectFrom('attempts')
                .select('attempts.delivery')
                .whereRef('attempts.delivery', '=', 'deliveries.id')
                .where(sql<boolean>`attempts.number = deliveries.attempts - 1`)
                .where('attempts.outcome', '=', sql.lit('interrupted')),
            ),
          ]),
        )
        .then(eb.ref('next_attempt_at'))
        .else(sql<number>`cast(${value('soon')} as bigint)`)
        .end(),
    }))
    .where('state', '=', 'sending')
    .where(unsettled)
    .where('lease_until', '<', value('before'))
    .where('begun', '=', sql.lit(1)),
);
/** A try that never began does not count, and is made at once. */
const takeBackUnbegun = define<{ before: number; at: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set((eb) => ({ ...unclaimed(eb), lease_owner: null, lease_until: null, next_attempt_at: value('at') }))
    .where('state', '=', 'sending')
    .where(unsettled)
    .where('lease_until', '<', value('before'))
    .where('begun', '=', sql.lit(0)),
);

/** How long what was being sent when its daemon died waits the first time, ms. */
const SOON = 5000;

/**
 * Takes back what is leased until before `before`. What had begun counts and is tried again in some seconds, or, where that
 * ends in a crash as well, when the claim said. Answers how many destinations that concerned.
 */
export async function takeBackLeases(store: Store, before: number, at: number): Promise<number> {
  const destinations = await store.select(lapsed({ before }));
  if (destinations.length === 0) return 0;
  await store.write([
    recordInterrupted({ before, at, reply: 'the daemon ended during the try' }),
    takeBackBegun({ before, soon: at + SOON }),
    takeBackUnbegun({ before, at }),
    recomputeDueAmong(destinations.map(({ destination }) => destination)),
  ]);
  return destinations.length;
}

/** The statement that renews all leases of this owner. */
export const renewLeases = define<{ owner: string; until: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set({ lease_until: value('until') })
    .where('state', '=', 'sending')
    .where(unsettled)
    .where('lease_owner', '=', value('owner')),
);

const leased = define<{ owner: string }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .select(['id', 'attempts', 'destination'])
    .where('state', '=', 'sending')
    .where(unsettled)
    .where('lease_owner', '=', value('owner')),
);

/** What this owner has leased. */
export function leasedTo(store: Store, owner: string): Promise<Pick<DeliveryRow, 'id' | 'attempts' | 'destination'>[]> {
  return store.select(leased({ owner }));
}
