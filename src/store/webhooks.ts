/** Webhooks: where a tenant wants to be told of what happens, and how that goes. */
import { sql } from 'kysely';
import { firstId } from '../lib/ids.ts';
import {
  countOf,
  deleteFrom,
  finder,
  insertInto,
  listed,
  lister,
  newestFirst,
  query,
  reader,
  update,
  type Placeholders,
  type Statement,
} from './statement.ts';
import type { Store } from './store.ts';
import type { WebhookRow } from './tables.ts';

const insert = insertInto('webhooks', sql`on conflict do nothing`);

/** The statement that makes a webhook, active from its creation on; one that its configuration made already stays. */
export function insertWebhook(
  webhook: Pick<
    WebhookRow,
    'id' | 'tenant' | 'project' | 'form' | 'url' | 'events' | 'description' | 'secret' | 'created_at'
  >,
): Statement {
  const { created_at: now } = webhook;
  return insert({ ...webhook, status: 'active', starts_at: now, cursor: now });
}

/** The statement that writes what the API may change of it. */
export const updateWebhook = update('webhooks', ['url', 'events', 'description'], ['id', 'tenant']);

/** The statement that gives it another secret; the one of now signs as well until then (ms). */
export const replaceSecret = query<Pick<WebhookRow, 'id' | 'tenant' | 'secret'> & { until: number }>(
  (value) => sql`update webhooks
    set old_secret = secret, old_secret_until = ${value('until')}, secret = ${value('secret')}
    where id = ${value('id')} and tenant = ${value('tenant')}`,
);

/** The statement that enables it for what happens from now on; one that is active stays as it is. */
export const enableWebhook = query<{ id: string; tenant: string; now: number }>(
  (value) => sql`update webhooks set status = 'active', reason = null, failing_since = null, failed_at = null,
      starts_at = ${value('now')}, cursor = ${value('now')}
    where id = ${value('id')} and tenant = ${value('tenant')} and status = 'disabled'`,
);

/** The statement that disables it; it touches no row where it was disabled already. */
export const disableWebhook = query<{ id: string; tenant: string; reason: string }>(
  (value) => sql`update webhooks set status = 'disabled', reason = ${value('reason')}
    where id = ${value('id')} and tenant = ${value('tenant')} and status = 'active'`,
);

/** The statement that removes it with its deliveries. */
export const deleteWebhook = deleteFrom('webhooks', 'id', 'tenant');

/** The statement that notes a try that failed; after one before `quiet`, what failed then is another story. */
export const noteFailure = query<{ id: string; now: number; quiet: number }>(
  (value) => sql`update webhooks set failed_at = ${value('now')}, failing_since = case
      when failing_since is null or failed_at < ${value('quiet')} then cast(${value('now')} as bigint)
      else failing_since end
    where id = ${value('id')}`,
);

/** The statement that notes a try that succeeded; mostly there is nothing to note. */
export const noteSuccess = update(
  'webhooks',
  [sql`failing_since = null, failed_at = null`],
  ['id', sql`failing_since is not null`],
);

/** The statement that says that all webhooks have their events up to `now`. */
export const moveCursors = query<{ now: number }>(
  (value) => sql`update webhooks set cursor = ${value('now')} where status = 'active' and cursor < ${value('now')}`,
);

/** Active webhooks whose tenant has events from `since` on. */
export function webhooksWithNews(store: Store, since: number): Promise<WebhookRow[]> {
  return withNews(store, since, firstId('evt', since));
}

const withNews = reader(
  (since: number, first: string) => sql<WebhookRow>`select * from webhooks where status = 'active' and exists (
    select 1 from events where events.tenant = webhooks.tenant and events.created_at >= ${since} and events.id >= ${first})`,
);

export const activeWebhooks = lister('webhooks', [], sql`where status = 'active'`);

/** The tenant's webhook with this id, or undefined. */
export const findWebhook = finder('webhooks', 'tenant', 'id');

/** Every webhook of every configuration. */
export const configuredWebhooks = lister('webhooks', [], sql`where project is not null order by id`);

/** Up to `limit` webhooks of the tenant, newest first, older than `before`. */
export function listWebhooks(
  store: Store,
  tenant: string,
  page: { before?: string | undefined; limit: number },
): Promise<WebhookRow[]> {
  return newestFirst(store.read.selectFrom('webhooks').selectAll().where('tenant', '=', tenant), page);
}

export function countWebhooks(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('webhooks').where('tenant', '=', tenant));
}

/** How many of them the API made. */
export function countMadeWebhooks(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('webhooks').where('tenant', '=', tenant).where('project', 'is', null));
}

interface Wanted {
  webhook: string;
  tenant: string;
  since: number;
  /** What no event since then has a lower id than. */
  first: string;
  /** Of the events of that very moment only those with later ids. */
  after: string;
  until: number;
  types: readonly string[];
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

type WantedRow = { readonly id: string; readonly created_at: number };

const ofTenant = query<Wanted, WantedRow>((value) => wantedEvents(value));
const ofForm = query<Wanted & { form: string }, WantedRow>((value) =>
  wantedEvents(value, sql`and events.form = ${value('form')}`),
);
type OfProject = Wanted & { project: string; domains: readonly string[]; forms: readonly string[] };
const ofProject = query<OfProject, WantedRow>((value, dialect) => {
  // Of the project that was pushed.
  const pushed =
    dialect === 'sqlite' ? sql`json_extract(events.data, '$.project')` : sql`(events.data::json ->> 'project')`;
  const ofIts = sql`and (events.domain in ${listed(value('domains'))}
    or events.form in ${listed(value('forms'))} or ${pushed} = ${value('project')})`;
  return wantedEvents(value, ofIts);
});

function wantedEvents(value: Placeholders<Wanted>, ofScope = sql``) {
  return sql<WantedRow>`select id, created_at from events
    where events.tenant = ${value('tenant')}
      and events.created_at >= ${value('since')} and events.created_at <= ${value('until')}
      and events.id >= ${value('first')}
      and (events.created_at > ${value('since')} or events.id > ${value('after')})
      and events.type in ${listed(value('types'))}
      and not exists (
        select 1 from deliveries where deliveries.webhook = ${value('webhook')} and deliveries.event = events.id)
      ${ofScope}
    order by events.created_at, events.id limit ${value('limit')}`;
}

/** What is asked for of a webhook's events. */
export interface EventsWanted {
  /** Empty: every one that matches; else those without a delivery to this webhook. */
  readonly webhook: string;
  readonly tenant: string;
  readonly types: readonly string[];
  readonly since: number;
  /** Default: all. */
  readonly until?: number | undefined;
  /** How many are read at a time. */
  readonly limit: number;
}

/** The ids of events of this scope, oldest first, so many at a time. */
export async function* eventsFor(
  store: Store,
  { until = Number.MAX_SAFE_INTEGER, ...wanted }: EventsWanted,
  scope: Scope,
): AsyncGenerator<string[], void> {
  let from = { since: wanted.since, after: '' };
  for (;;) {
    const values = { ...wanted, ...from, first: firstId('evt', from.since), until };
    const rows = await store.select(statementOf(values, scope));
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows.map(({ id }) => id);
    if (rows.length < wanted.limit) return;
    from = { since: last.created_at, after: last.id };
  }
}

const endOfStretch = query<{ tenant: string; since: number; first: string; size: number }, { created_at: number }>(
  (value) => sql`select created_at from events
    where tenant = ${value('tenant')} and created_at >= ${value('since')} and id >= ${value('first')}
    order by created_at limit 1 offset ${value('size')}`,
);

/** The time of the event that comes `size` events after `since` (ms); undefined where there are not so many. */
export async function stretchOfEvents(
  store: Store,
  { tenant, since, size }: { readonly tenant: string; readonly since: number; readonly size: number },
): Promise<number | undefined> {
  return (await store.select(endOfStretch({ tenant, since, first: firstId('evt', since), size })))[0]?.created_at;
}

function statementOf(values: Wanted, scope: Scope) {
  switch (scope.kind) {
    case 'tenant':
      return ofTenant(values);
    case 'form':
      return ofForm({ ...values, form: scope.form });
    case 'project':
      return ofProject({ ...values, ...scope });
  }
}
