/** Webhooks of a tenant: those that the API makes, and those of its configurations, which it shows and cannot change. */
import type { z } from 'zod';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import * as contract from '../../contract/webhooks.ts';
import { newSecret } from '../../events/post.ts';
import { CHANGEOVER, configuredSecret, eventsOf } from '../../events/targets.ts';
import type { Webhooks } from '../../events/webhooks.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import type { Store } from '../../store/store.ts';
import type { WebhookRow } from '../../store/tables.ts';
import { recentDeliveries, type WebhookDelivery } from '../../store/webhook-deliveries.ts';
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
import { json } from '../answer.ts';
import { type Refusal, refuse } from '../errors.ts';
import { overLimit } from '../context.ts';
import { invalidAt } from './issues.ts';
import { type Call, type CallOf, implement, type Outcome, pageOf, type Route, timeOf } from './route.ts';

export interface WebhooksParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
  readonly webhooks: Pick<Webhooks, 'test' | 'objection' | 'enable' | 'replayEvent' | 'replaySince'>;
}

const SHOWN = 20;
/** `/webhooks…` */
export function webhooksRoutes({ store, clock, objects, webhooks }: WebhooksParts): Route[] {
  /** Does it to the webhook that the path names, if the tenant has it. */
  async function withWebhook<Body>(
    call: OfOne,
    act: (webhook: WebhookRow) => Promise<Outcome<Body>>,
  ): Promise<Outcome<Body>> {
    const webhook = await findWebhook(store, call.principal.tenant.id, call.params.id);
    if (webhook !== undefined) return act(webhook);
    return refuse('NOT_FOUND', { message: `There is no webhook ${call.params.id.slice(0, 60)}.` });
  }

  async function show(tenant: string, id: string) {
    const webhook = await findWebhook(store, tenant, id);
    return webhook === undefined ? refuse('NOT_FOUND') : json(shown(webhook));
  }

  async function change(webhook: WebhookRow, body: z.output<NonNullable<typeof contract.webhooks.change.body>>) {
    const { id, tenant } = webhook;
    const { status, url = webhook.url, events, description = webhook.description } = body;
    const settings = { url, events: events === undefined ? webhook.events : JSON.stringify(events), description };
    const isSame = (['url', 'events', 'description'] as const).every((name) => settings[name] === webhook[name]);
    if (!isSame && webhook.project !== null) return configured(webhook.project);
    const problem = url === webhook.url ? undefined : await webhooks.objection(url);
    if (problem !== undefined) return invalidAt('url', problem);
    await store.write([
      ...(isSame ? [] : [updateWebhook({ id, tenant, ...settings })]),
      ...(status === 'disabled' ? [disableWebhook({ id, tenant, reason: 'It was disabled through the API.' })] : []),
    ]);
    if (status === 'active') await webhooks.enable(webhook);
    return show(tenant, id);
  }

  async function rotate(webhook: WebhookRow, call: OfOne) {
    const { id, tenant, project } = webhook;
    if (project !== null && configuredSecret(webhook, call.exchange.snapshot) !== undefined) return configured(project);
    const secret = newSecret();
    const until = clock.now() + CHANGEOVER;
    await store.write([replaceSecret({ id, tenant, secret, until })]);
    return json({ secret, old_secret_until: isoTime(until) });
  }

  async function playAgain(webhook: WebhookRow, call: CallOf<typeof contract.webhooks.replay>) {
    const { event, since } = call.body;
    if ((event === undefined) === (since === undefined)) return invalidAt('', 'must name an event or a time (since)');
    if (webhook.status === 'disabled')
      return refuse('CONFLICT', { message: 'The webhook is disabled; enable it first.' });
    if (event !== undefined) {
      if (await webhooks.replayEvent(webhook, event)) return json({ replayed: 1, more: false });
      return refuse('NOT_FOUND', { message: `There is no event ${event} that webhooks are told of.` });
    }
    return json({ ...(await webhooks.replaySince(webhook, Date.parse(since ?? ''))) });
  }

  return implement(contract.webhooks, {
    async list({ principal, query: { limit, cursor } }) {
      const tenant = principal.tenant.id;
      const rows = await listWebhooks(store, tenant, { before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit);
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
        const deliveries = await recentDeliveries(store, webhook.id, SHOWN);
        return json({ ...shown(webhook), deliveries: deliveries.map(shownDelivery) });
      }),
    change: (call) => withWebhook(call, (webhook) => change(webhook, call.body)),
    remove: (call) =>
      withWebhook(call, async ({ id, tenant, project }) => {
        if (project !== null) return configured(project);
        await store.write([deleteWebhook({ id, tenant })]);
        return json({ id, deleted: true as const });
      }),
    test: (call) => withWebhook(call, async (webhook) => json({ ...(await webhooks.test(webhook)) })),
    rotate: (call) => withWebhook(call, (webhook) => rotate(webhook, call)),
    replay: (call) => withWebhook(call, (webhook) => playAgain(webhook, call)),
  });
}

type OfOne = Call<unknown, unknown, 'id'>;

function configured(project: string): Refusal {
  return refuse('CONFLICT', { message: `The configuration of the project ${project} says this; change it there.` });
}

// What requests about webhooks say, and what is shown of them.

function shown(webhook: WebhookRow) {
  const { id, url, description, project, form, status, reason, failing_since, created_at } = webhook;
  return {
    id,
    environment: environmentOf(webhook.tenant),
    url,
    events: eventsOf(webhook),
    description,
    project,
    form: form === '' ? null : form,
    status,
    reason,
    failing_since: timeOf(failing_since),
    created_at: timeOf(created_at),
  };
}

function shownDelivery(delivery: WebhookDelivery & { readonly type: string | null }) {
  const { id, event, type, state, attempts, last_attempt_at, next_attempt_at, last_status, last_result } = delivery;
  return {
    id,
    event,
    type: event === null ? 'webhook.test' : type,
    state,
    attempts,
    last_attempt_at: timeOf(last_attempt_at),
    next_attempt_at: timeOf(next_attempt_at),
    last_status,
    last_result,
    created_at: timeOf(delivery.created_at),
  };
}
