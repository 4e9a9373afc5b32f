/** Webhooks of a tenant: those that the API makes, and those of its configurations, which it shows and cannot change. */
import { z } from 'zod';
import { MAX_COUNT } from '../../contract/values.ts';
import * as contract from '../../contract/webhooks.ts';
import { bodyOfEvent } from '../../events/event-body.ts';
import { newSecret, testBody } from '../../events/post.ts';
import { CHANGEOVER, configuredSecret, eventsOf } from '../../events/targets.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import { findEventOf } from '../../store/events.ts';
import type { WebhookPostRow, WebhookRow } from '../../store/tables.ts';
import {
  countWebhookDeliveries,
  findWebhookDelivery,
  listWebhookDeliveries,
  postsOfDelivery,
  recentDeliveries,
} from '../../store/webhook-deliveries.ts';
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
  success,
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

  /** The same for one of its deliveries. */
  async function withDelivery<Data>(
    call: Pick<Call<unknown, unknown, 'id' | 'delivery'>, 'principal' | 'params'>,
    act: (webhook: WebhookRow, delivery: Delivery) => Promise<Outcome<Data>>,
  ): Promise<Outcome<Data>> {
    return withWebhook(call, async (webhook) => {
      const { delivery: id } = call.params;
      const delivery = await findWebhookDelivery(store, webhook.id, id);
      return delivery === undefined ? notFound('delivery', id) : act(webhook, delivery);
    });
  }

  /** What it sends; undefined where that cannot be made any more. */
  async function sentBody({ id, tenant }: WebhookRow, { event, created_at }: Delivery): Promise<string | undefined> {
    if (event === null) return testBody(id, created_at);
    const found = await findEventOf(store, tenant, event);
    return found && bodyOfEvent(store, found);
  }

  return implement(contract.webhooks, {
    async list({ principal, query: { limit, cursor } }) {
      const tenant = principal.tenant.id;
      const rows = await listWebhooks(store, tenant, { before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      return success({ webhooks: page.map(shown), count: await countWebhooks(store, tenant), next_cursor });
    },
    async create({ principal, context, body: { url, events, description } }) {
      const tenant = principal.tenant.id;
      const problem = await webhooks.objection(url);
      if (problem !== undefined) return invalidAt('url', problem);
      const now = clock.now();
      const [id, secret] = [newId('whk', now), newSecret()];
      const row = { id, tenant, project: null, form: '', url, description, secret, created_at: now };
      const made = await objects.within(tenant, { more: { webhooks: 1 } }, () =>
        store.write([insertWebhook({ ...row, events: JSON.stringify(events) })]),
      );
      if ('kind' in made) return overLimit(made, context.snapshot.server);
      return success({ id, url, events, secret });
    },
    show: (call) =>
      withWebhook(call, async (webhook) => {
        const deliveries = (await recentDeliveries(store, webhook.id, SHOWN)).map(shownDelivery);
        return success({ ...shown(webhook), deliveries });
      }),
    deliveries: (call) =>
      withWebhook(call, async ({ id: webhook }) => {
        const { limit, cursor, ...only } = call.query;
        const filter = { webhook, ...only };
        const rows = await listWebhookDeliveries(store, filter, { before: cursor, limit: limit + 1 });
        const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
        const count = await countWebhookDeliveries(store, filter, MAX_COUNT + 1);
        return success({
          deliveries: page.map(shownDelivery),
          count: Math.min(count, MAX_COUNT),
          count_is_more: count > MAX_COUNT,
          next_cursor,
        });
      }),
    delivery: (call) =>
      withDelivery(call, async (webhook, delivery) => {
        const body = await sentBody(webhook, delivery);
        const posts = await postsOfDelivery(store, webhook.id, delivery.id);
        return success({
          ...shownDelivery(delivery),
          body: body?.slice(0, contract.MAX_SHOWN_BODY),
          body_is_cut: body !== undefined && body.length > contract.MAX_SHOWN_BODY,
          posts: posts.map(shownPost),
        });
      }),
    replayDelivery: (call) =>
      withDelivery(call, async (webhook, delivery) => {
        if (webhook.status === 'disabled') return disabled();
        if (delivery.event === null)
          return refuse('CONFLICT', {
            message: `This was a test. Send another one with POST /webhooks/${webhook.id}/test.`,
          });
        if (!(await webhooks.replayEvent(webhook, delivery.event)))
          return refuse('CONFLICT', { message: 'The event of this delivery is no longer kept.' });
        return withDelivery(call, (_, again) => Promise.resolve(success(shownDelivery(again))));
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
        return withWebhook(call, (changed) => Promise.resolve(success(shown(changed))));
      }),
    remove: (call) =>
      withWebhook(call, async ({ id, tenant, project }) => {
        if (project !== null) return configured(project);
        await store.write([deleteWebhook({ id, tenant })]);
        return success({ id, deleted: true as const });
      }),
    test: (call) => withWebhook(call, async (webhook) => success(await webhooks.test(webhook))),
    rotate: (call) =>
      withWebhook(call, async (webhook) => {
        const { id, tenant, project } = webhook;
        const isConfigured = configuredSecret(webhook, call.context.snapshot) !== undefined;
        if (project !== null && isConfigured) return configured(project);
        const secret = newSecret();
        const until = clock.now() + CHANGEOVER;
        await store.write([replaceSecret({ id, tenant, secret, until })]);
        return success({ secret, old_secret_until: until });
      }),
    replay: (call) =>
      withWebhook(call, async (webhook) => {
        const { event, since } = call.body;
        if ((event === undefined) === (since === undefined)) return invalidAt('', 'must have either event or since');
        if (webhook.status === 'disabled') return disabled();
        if (event === undefined) return success(await webhooks.replaySince(webhook, Date.parse(since ?? '')));
        if (await webhooks.replayEvent(webhook, event)) return success({ replayed: 1, more: false });
        return refuse('NOT_FOUND', { message: `There is no event ${event} that is sent to webhooks.` });
      }),
  });
}

type Delivery = NonNullable<Awaited<ReturnType<typeof findWebhookDelivery>>>;

function shownDelivery(delivery: Delivery): Delivery {
  return { ...delivery, type: delivery.event === null ? 'webhook.test' : delivery.type };
}

const texts = z.record(z.string(), z.string());

function shownPost({ at, url, request_headers, status, headers, body, is_cut, ...post }: WebhookPostRow) {
  return {
    ...post,
    started_at: at,
    request: { url, headers: texts.parse(JSON.parse(request_headers)) },
    answer:
      status === null
        ? null
        : { status, headers: texts.parse(JSON.parse(headers ?? '{}')), body: body ?? '', body_is_cut: is_cut === 1 },
  };
}

function disabled(): Refusal {
  return refuse('CONFLICT', { message: 'The webhook is disabled; enable it first.' });
}

function configured(project: string): Refusal {
  return refuse('CONFLICT', {
    message: `The webhook is defined in the configuration of the project ${project}. Change it there.`,
  });
}

function shown(webhook: WebhookRow) {
  const { tenant, form } = webhook;
  return { ...webhook, environment: environmentOf(tenant), events: eventsOf(webhook), form: form === '' ? null : form };
}
