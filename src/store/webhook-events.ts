/** Which events a webhook is to be told of. */
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { listed } from './listed.ts';
import { define, type Dialect, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { EventRow, Tables } from './tables.ts';

interface Wanted {
  webhook: string;
  tenant: string;
  since: number;
  /** Of the events of that very moment only those with later ids. */
  after: string;
  until: number;
  /** JSON: the types. */
  types: string;
  limit: number;
}

/** Of whose things a webhook is told: all of the tenant's, one form's, or one project's. */
export type Scope =
  | { readonly kind: 'tenant' }
  | { readonly kind: 'form'; readonly form: string }
  | {
      readonly kind: 'project';
      readonly project: string;
      readonly domains: readonly string[];
      readonly forms: readonly string[];
    };

const ofTenant = define<Wanted>()((db, value, dialect) => wantedEvents({ db, value, dialect }));
const ofForm = define<Wanted & { form: string }>()((db, value, dialect) =>
  wantedEvents({ db, value, dialect }).where('events.form', '=', value('form')),
);
const ofProject = define<Wanted & { project: string; domains: string; forms: string }>()((db, value, dialect) =>
  wantedEvents({ db, value, dialect }).where((eb) =>
    eb.or([
      eb('events.domain', 'in', listed(value('domains'), dialect)),
      eb('events.form', 'in', listed(value('forms'), dialect)),
      eb(projectOf(dialect), '=', value('project')),
    ]),
  ),
);

interface Building {
  readonly db: Kysely<Tables>;
  readonly value: Placeholders<Wanted>;
  readonly dialect: Dialect;
}

function wantedEvents({ db, value, dialect }: Building) {
  return db
    .selectFrom('events')
    .select(['events.id', 'events.created_at'])
    .where('events.tenant', '=', value('tenant'))
    .where('events.created_at', '>=', value('since'))
    .where('events.created_at', '<=', value('until'))
    .where((eb) => eb.or([eb('events.created_at', '>', value('since')), eb('events.id', '>', value('after'))]))
    .where('events.type', 'in', listed(value('types'), dialect))
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('deliveries')
            .select('deliveries.id')
            .where('deliveries.webhook', '=', value('webhook'))
            .whereRef('deliveries.event', '=', 'events.id'),
        ),
      ),
    )
    .orderBy('events.created_at')
    .orderBy('events.id')
    .limit(value('limit'));
}

/** Of the project that was pushed. */
function projectOf(dialect: Dialect): RawBuilder<string> {
  return dialect === 'sqlite' ? sql`json_extract(events.data, '$.project')` : sql`(events.data::json ->> 'project')`;
}

/** What is asked for of a webhook's events. */
export interface EventsWanted {
  /** Empty: every one that matches; else those without a delivery to this webhook. */
  readonly webhook: string;
  readonly tenant: string;
  readonly types: readonly string[];
  readonly since: number;
  /** All unless told. */
  readonly until?: number | undefined;
  /** How many are read at a time. */
  readonly limit: number;
}

/** The ids of events of this scope, oldest first, so many at a time. */
export async function* eventsFor(
  store: Store,
  { types, until = Number.MAX_SAFE_INTEGER, ...wanted }: EventsWanted,
  scope: Scope,
): AsyncGenerator<string[], void> {
  let from = { since: wanted.since, after: '' };
  for (;;) {
    const values = { ...wanted, ...from, until, types: JSON.stringify(types) };
    const rows = await store.select(statementOf(values, scope));
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows.map(({ id }) => id);
    if (rows.length < wanted.limit) return;
    from = { since: last.created_at, after: last.id };
  }
}

const endOfStretch = define<{ tenant: string; since: number; size: number }>()((db, value) =>
  db
    .selectFrom('events')
    .select('created_at')
    .where('tenant', '=', value('tenant'))
    .where('created_at', '>=', value('since'))
    .orderBy('created_at')
    .limit(1)
    .offset(value('size')),
);

/** The time of the event that comes `size` events after `since` (ms); undefined where there are not so many. */
export async function stretchOfEvents(
  store: Store,
  stretch: { readonly tenant: string; readonly since: number; readonly size: number },
): Promise<number | undefined> {
  const [row] = await store.select(endOfStretch(stretch));
  return row?.created_at;
}

function statementOf(values: Wanted, scope: Scope) {
  switch (scope.kind) {
    case 'tenant':
      return ofTenant(values);
    case 'form':
      return ofForm({ ...values, form: scope.form });
    case 'project': {
      const { project, domains, forms } = scope;
      return ofProject({ ...values, project, domains: JSON.stringify(domains), forms: JSON.stringify(forms) });
    }
  }
}

const eventById = define<{ id: string; tenant: string }>()((db, value) =>
  db.selectFrom('events').selectAll().where('id', '=', value('id')).where('tenant', '=', value('tenant')),
);
/** The tenant's event with this id, or undefined. */
export async function findEvent(store: Store, tenant: string, id: string): Promise<EventRow | undefined> {
  const [row] = await store.select(eventById({ id, tenant }));
  return row;
}
