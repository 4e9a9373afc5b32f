/** Webhooks of a tenant: those that the API makes, and those of its configurations, which it shows and cannot change. */
import * as contract from '../../contract/webhooks.ts';
import { newSecret } from '../../events/post.ts';
import { CHANGEOVER, configuredSecret, eventsOf } from '../../events/targets.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import type { WebhookRow } from '../../store/tables.ts';
import { recentDeliveries } from '../../store/webhook-deliveries.ts';
import {
  countWebhooks,
  deleteWebhook,
  disableWebhook,
  findWebhook,
  insertWebhook,
  listWebhooks,
  replaceSecret,
  updateWebhook,
} from '../../store/webhooks.ts';
import { overLimit } from '../context.ts';
import { type Refusal, refuse } from '../answer.ts';
import {
  invalidAt,
  type Call,
  implement,
  json,
  notFound,
  type Outcome,
  pageOf,
  type Route,
  type Services,
} from './route.ts';

const SHOWN = 20;

/** `/webhooks…` */
export function webhooksRoutes({ store, clock, objects, webhooks }: Services): Route[] {
  /** Does it to the webhook that the path names, if the tenant has it. */
  async function withWebhook<Data>(
    { principal, params: { id } }: Pick<Call<unknown, unknown, 'id'>, 'principal' | 'params'>,
    act: (webhook: WebhookRow) => Promise<Outcome<Data>>,
  ): Promise<Outcome<Data>> {
    const webhook = await findWebhook(store, principal.tenant.id, id);
    return webhook === undefined ? notFound('webhook', id) : act(webhook);
  }

  return implement(contract.webhooks, {
    async list({ principal, query: { limit, cursor } }) {
      const tenant = principal.tenant.id;
      const rows = await listWebhooks(store, tenant, { before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      return json({ webhooks: page.map(shown), count: await countWebhooks(store, tenant), next_cursor });
    },
    async create({ principal, exchange, body: { url, events, description } }) {
      const tenant = principal.tenant.id;
      const problem = await webhooks.objection(url);
      if (problem !== undefined) return invalidAt('url', problem);
      const now = clock.now();
      const [id, secret] = [newId('whk', now), newSecret()];
      const row = { id, tenant, project: null, form: '', url, description, secret, created_at: now };
      const made = await objects.within(tenant, { more: { webhooks: 1 } }, () =>
        store.write([insertWebhook({ ...row, events: JSON.stringify(events) })]),
      );
      if ('kind' in made) return overLimit(made, exchange.snapshot.server);
      return json({ id, url, events, secret });
    },
    show: (call) =>
      withWebhook(call, async (webhook) => {
        const deliveries = (await recentDeliveries(store, webhook.id, SHOWN)).map((delivery) => {
          return { ...delivery, type: delivery.event === null ? 'webhook.test' : delivery.type };
        });
        return json({ ...shown(webhook), deliveries });
      }),
    change: (call) =>
      withWebhook(call, async (webhook) => {
        const { id, tenant } = webhook;
        const { status, url = webhook.url, events, description = webhook.description } = call.body;
        const settings = { url, events: events === undefined ? webhook.events : JSON.stringify(events), description };
        const isSame = (['url', 'events', 'description'] as const).every((name) => settings[name] === webhook[name]);
        if (!isSame && webhook.project !== null) return configured(webhook.project);
        const problem = url === webhook.url ? undefined : await webhooks.objection(url);
        if (problem !== undefined) return invalidAt('url', problem);
        const reason = 'It was disabled through the API.';
        await store.write([
          ...(isSame ? [] : [updateWebhook({ id, tenant, ...settings })]),
          ...(status === 'disabled' ? [disableWebhook({ id, tenant, reason })] : []),
        ]);
        if (status === 'active') await webhooks.enable(webhook);
        return withWebhook(call, (changed) => Promise.resolve(json(shown(changed))));
      }),
    remove: (call) =>
      withWebhook(call, async ({ id, tenant, project }) => {
        if (project !== null) return configured(project);
        await store.write([deleteWebhook({ id, tenant })]);
        return json({ id, deleted: true as const });
      }),
    test: (call) => withWebhook(call, async (webhook) => json(await webhooks.test(webhook))),
    rotate: (call) =>
      withWebhook(call, async (webhook) => {
        const { id, tenant, project } = webhook;
        const isConfigured = configuredSecret(webhook, call.exchange.snapshot) !== undefined;
        if (project !== null && isConfigured) return configured(project);
        const secret = newSecret();
        const until = clock.now() + CHANGEOVER;
        await store.write([replaceSecret({ id, tenant, secret, until })]);
        return json({ secret, old_secret_until: until });
      }),
    replay: (call) =>
      withWebhook(call, async (webhook) => {
        const { event, since } = call.body;
        if ((event === undefined) === (since === undefined))
          return invalidAt('', 'must name an event or a time (since)');
        if (webhook.status === 'disabled')
          return refuse('CONFLICT', { message: 'The webhook is disabled; enable it first.' });
        if (event === undefined) return json(await webhooks.replaySince(webhook, Date.parse(since ?? '')));
        if (await webhooks.replayEvent(webhook, event)) return json({ replayed: 1, more: false });
        return refuse('NOT_FOUND', { message: `There is no event ${event} that webhooks are told of.` });
      }),
  });
}

function configured(project: string): Refusal {
  return refuse('CONFLICT', { message: `The configuration of the project ${project} says this; change it there.` });
}

function shown(webhook: WebhookRow) {
  const { tenant, form } = webhook;
  return { ...webhook, environment: environmentOf(tenant), events: eventsOf(webhook), form: form === '' ? null : form };
}
