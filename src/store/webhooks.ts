/** Webhooks: where a tenant wants to be told of what happens, and how that goes. */
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { define, type Dialect, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { WebhookRow, EventRow, Tables } from './tables.ts';
import { listed } from './rows.ts';

type NewWebhook = Pick<
  WebhookRow,
  'id' | 'tenant' | 'project' | 'form' | 'url' | 'events' | 'description' | 'secret' | 'created_at'
>;

/** The statement that makes a webhook, active from its creation on; one that its configuration made already stays. */
export const insertWebhook = define<NewWebhook>()((db, value) =>
  db
    .insertInto('webhooks')
    .values({
      id: value('id'),
      tenant: value('tenant'),
      project: value('project'),
      form: value('form'),
      url: value('url'),
      events: value('events'),
      description: value('description'),
      secret: value('secret'),
      old_secret: null,
      old_secret_until: null,
      status: 'active',
      reason: null,
      failing_since: null,
      failed_at: null,
      starts_at: value('created_at'),
      cursor: value('created_at'),
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.doNothing()),
);

/** The statement that writes what the API may change of it. */
export const updateWebhook = define<Pick<WebhookRow, 'id' | 'tenant' | 'url' | 'events' | 'description'>>()(
  (db, value) =>
    db
      .updateTable('webhooks')
      .set({ url: value('url'), events: value('events'), description: value('description') })
      .where('id', '=', value('id'))
      .where('tenant', '=', value('tenant')),
);

/** The statement that gives it another secret; the one of now signs as well until then (ms). */
export const replaceSecret = define<Pick<WebhookRow, 'id' | 'tenant' | 'secret'> & { until: number }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set((eb) => ({ old_secret: eb.ref('secret'), old_secret_until: value('until'), secret: value('secret') }))
    .where('id', '=', value('id'))
    .where('tenant', '=', value('tenant')),
);

/** The statement that enables it for what happens from now on; one that is active stays as it is. */
export const enableWebhook = define<{ id: string; tenant: string; now: number }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set({
      status: 'active',
      reason: null,
      failing_since: null,
      failed_at: null,
      starts_at: value('now'),
      cursor: value('now'),
    })
    .where('id', '=', value('id'))
    .where('tenant', '=', value('tenant'))
    .where('status', '=', 'disabled'),
);

/** The statement that disables it; it touches no row where it was disabled already. */
export const disableWebhook = define<{ id: string; tenant: string; reason: string }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set({ status: 'disabled', reason: value('reason') })
    .where('id', '=', value('id'))
    .where('tenant', '=', value('tenant'))
    .where('status', '=', 'active'),
);

/** The statement that removes it with its deliveries. */
export const deleteWebhook = define<{ id: string; tenant: string }>()((db, value) =>
  db.deleteFrom('webhooks').where('id', '=', value('id')).where('tenant', '=', value('tenant')),
);

/** The statement that notes a try that failed; after one before `quiet`, what failed then is another story. */
export const noteFailure = define<{ id: string; now: number; quiet: number }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set((eb) => ({
      failing_since: eb
        .case()
        .when(eb.or([eb('failing_since', 'is', null), eb('failed_at', '<', value('quiet'))]))
        .then(sql<number>`cast(${value('now')} as bigint)`)
        .else(eb.ref('failing_since'))
        .end(),
      failed_at: value('now'),
    }))
    .where('id', '=', value('id')),
);

/** The statement that notes a try that succeeded; mostly there is nothing to note. */
export const noteSuccess = define<{ id: string }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set({ failing_since: null, failed_at: null })
    .where('id', '=', value('id'))
    .where('failing_since', 'is not', null),
);

/** The statement that says that all webhooks have their events up to `now`. */
export const moveCursors = define<{ now: number }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set({ cursor: value('now') })
    .where('status', '=', 'active')
    .where('cursor', '<', value('now')),
);

const withNews = define<{ since: number }>()((db, value) =>
  db
    .selectFrom('webhooks')
    .selectAll()
    .where('status', '=', 'active')
    .where((eb) =>
      eb.exists(
        eb
          .selectFrom('events')
          .select('events.id')
          .whereRef('events.tenant', '=', 'webhooks.tenant')
          .where('events.created_at', '>=', value('since')),
      ),
    ),
);
const active = define<object>()((db) => db.selectFrom('webhooks').selectAll().where('status', '=', 'active'));
const byId = define<{ id: string; tenant: string }>()((db, value) =>
  db.selectFrom('webhooks').selectAll().where('id', '=', value('id')).where('tenant', '=', value('tenant')),
);
const configured = define<object>()((db) =>
  db.selectFrom('webhooks').selectAll().where('project', 'is not', null).orderBy('id'),
);

/** Active webhooks whose tenant has events from `since` on. */
export function webhooksWithNews(store: Store, since: number): Promise<WebhookRow[]> {
  return store.select(withNews({ since }));
}

export function activeWebhooks(store: Store): Promise<WebhookRow[]> {
  return store.select(active({}));
}

/** The tenant's webhook with this id, or undefined. */
export async function findWebhook(store: Store, tenant: string, id: string): Promise<WebhookRow | undefined> {
  const [row] = await store.select(byId({ id, tenant }));
  return row;
}

/** Every webhook of every configuration. */
export function configuredWebhooks(store: Store): Promise<WebhookRow[]> {
  return store.select(configured({}));
}

/** Up to `limit` webhooks of the tenant, newest first, older than `before`. */
export function listWebhooks(
  store: Store,
  tenant: string,
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<WebhookRow[]> {
  let query = store.read.selectFrom('webhooks').selectAll().where('tenant', '=', tenant);
  if (before !== undefined) query = query.where('id', '<', before);
  return query.orderBy('id', 'desc').limit(limit).execute();
}

export async function countWebhooks(store: Store, tenant: string): Promise<number> {
  const { count } = await store.read
    .selectFrom('webhooks')
    .select((eb) => eb.fn.countAll().as('count'))
    .where('tenant', '=', tenant)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** How many of them the API made. */
export async function countMadeWebhooks(store: Store, tenant: string): Promise<number> {
  const { count } = await store.read
    .selectFrom('webhooks')
    .select((eb) => eb.fn.countAll().as('count'))
    .where('tenant', '=', tenant)
    .where('project', 'is', null)
    .executeTakeFirstOrThrow();
  return Number(count);
}

// Which events a webhook is to be told of.

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
