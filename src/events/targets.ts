/**
 * The webhooks that configurations name, and what each webhook is told of. Those of a project and of a form become rows as
 * those of the API are, so that one way leads to all of them; the snapshot says which there are.
 */
import { z } from 'zod';
import type { FormConfig } from '../config/schema.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { PUBLIC_EVENTS, type PublicEvent } from '../lib/event-types.ts';
import { newId } from '../lib/ids.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { WebhookRow } from '../store/tables.ts';
import {
  type Scope,
  configuredWebhooks,
  deleteWebhook,
  insertWebhook,
  replaceSecret,
  updateWebhook,
} from '../store/webhooks.ts';
import { newSecret } from './post.ts';

interface Wanted extends Pick<WebhookRow, 'tenant' | 'form' | 'url'> {
  readonly project: string;
  readonly events: readonly PublicEvent[];
  readonly secret: string | undefined;
}

/** How long the secret before a new one goes on to sign as well, ms. */
export const CHANGEOVER = 86_400_000;

const ABOUT_SUBMISSIONS: readonly PublicEvent[] = ['submission.accepted', 'submission.spam'];
const FALLBACK: readonly PublicEvent[] = ['submission.fallback'];
const types = z.array(z.enum(PUBLIC_EVENTS));

/** `events` of a row: the types that it asks for, none meaning all. */
export function eventsOf({ events }: Pick<WebhookRow, 'events'>): PublicEvent[] {
  return types.parse(JSON.parse(events));
}

/** The types that it is told of. */
export function typesFor(webhook: Pick<WebhookRow, 'events' | 'form'>): readonly PublicEvent[] {
  const asked = eventsOf(webhook);
  if (asked.length > 0) return asked;
  return webhook.form === '' ? PUBLIC_EVENTS : ABOUT_SUBMISSIONS;
}

/** Of whose things it is told; undefined while its project is not served. */
export function scopeOf({ tenant, project, form }: WebhookRow, snapshot: Snapshot): Scope | undefined {
  if (project === null) return { kind: 'tenant' };
  if (form !== '') return { kind: 'form', form };
  const served = snapshot.projects.find((one) => one.slug === project && one.tenant === tenant);
  if (served === undefined) return undefined;
  const { domains, collections } = served.config;
  const forms = formsOf(collections, 'c/').map(([form]) => form);
  return { kind: 'project', project, domains: Object.keys(domains), forms };
}

/** The secret that its configuration gives it, if it does. */
export function configuredSecret(webhook: WebhookRow, snapshot: Snapshot): string | undefined {
  return wantedBy(snapshot).find((wanted) => nameOf(wanted) === nameOf(webhook))?.secret;
}

/** Makes, changes and removes the rows of configured webhooks as the snapshot says. */
export async function adoptWebhooks(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  snapshot: Snapshot,
): Promise<void> {
  const now = clock.now();
  const wanted = new Map(wantedBy(snapshot).map((webhook) => [nameOf(webhook), webhook]));
  const rows = await configuredWebhooks(store);
  const known = new Set(rows.map(nameOf));
  const unit = [
    ...[...wanted].filter(([name]) => !known.has(name)).map(([, webhook]) => made(webhook, now)),
    ...rows.flatMap((row) => {
      const webhook = wanted.get(nameOf(row));
      return webhook === undefined ? removed(row, snapshot) : changed(row, webhook, now);
    }),
  ];
  if (unit.length > 0) await store.write(unit);
}

function made({ events, secret = newSecret(), ...webhook }: Wanted, now: number): Statement {
  const id = newId('whk', now);
  return insertWebhook({ ...webhook, id, events: JSON.stringify(events), description: '', secret, created_at: now });
}

function changed(row: WebhookRow, { events, secret }: Wanted, now: number): Statement[] {
  const { id, tenant, url, description } = row;
  const asked = JSON.stringify(events);
  return [
    ...(asked === row.events ? [] : [updateWebhook({ id, tenant, url, description, events: asked })]),
    ...(secret === undefined || secret === row.secret
      ? []
      : [replaceSecret({ id, tenant, secret, until: now + CHANGEOVER })]),
  ];
}

/** A project that is only out of service keeps what its webhooks still have to be told. */
function removed({ id, tenant, project }: WebhookRow, { projects, unread }: Snapshot): Statement[] {
  const served = projects.some((one) => one.slug === project && one.tenant === tenant);
  return served || !unread.has(tenant) ? [deleteWebhook({ id, tenant })] : [];
}

function wantedBy({ projects }: Snapshot): Wanted[] {
  return projects.flatMap(({ tenant, slug, config }) => {
    const own = config.webhooks.map(({ url, events, secret }) => ({ form: '', url, events, secret }));
    const ofForms = [...formsOf(config.domains), ...formsOf(config.collections, 'c/')].flatMap(([form, settings]) =>
      webhooksOf(settings).map((webhook) => ({ form, ...webhook, secret: undefined })),
    );
    return [...own, ...ofForms].map((webhook) => ({ tenant, project: slug, ...webhook }));
  });
}

type Hooks = Pick<FormConfig, 'webhooks' | 'fallback'>;
type Forms = Readonly<Record<string, Hooks>>;

/** Those of a form; the one of its `fallback` may be one of the others, too. */
function webhooksOf({ webhooks, fallback }: Hooks) {
  const own = webhooks.map((url) => ({
    url,
    events: url === fallback?.webhook ? [...ABOUT_SUBMISSIONS, ...FALLBACK] : [],
  }));
  const last = fallback?.webhook;
  return last === undefined || webhooks.includes(last) ? own : [...own, { url: last, events: [...FALLBACK] }];
}

/** Forms of domains or (`c/`) collections, with the ids that the API knows. */
function formsOf(places: Readonly<Record<string, { readonly forms: Forms }>>, prefix = '') {
  return Object.entries(places).flatMap(([place, { forms }]) =>
    Object.entries(forms).map(([key, form]) => [`${prefix}${place}/${key}`, form] as const),
  );
}

function nameOf({ tenant, project, form, url }: Pick<WebhookRow, 'tenant' | 'project' | 'form' | 'url'>): string {
  return JSON.stringify([tenant, project, form, url]);
}
