/** Webhooks of a tenant: those that the API makes, and those of its configurations, which it shows and cannot change. */
import { z } from 'zod';
import { newSecret } from '../../events/post.ts';
import { CHANGEOVER, configuredSecret } from '../../events/targets.ts';
import type { Webhooks } from '../../events/webhooks.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import type { Store } from '../../store/store.ts';
import type { WebhookRow } from '../../store/tables-accounts.ts';
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
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overLimit } from '../context.ts';
import { invalidAt } from './issues.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Call, type Outcome, type Route } from './route.ts';
import {
  changes,
  replay,
  secretShape,
  shown,
  shownDelivery,
  testShape,
  wanted,
  webhookShape,
  deliveryShape,
} from './webhook-shapes.ts';

export interface WebhooksParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
  readonly webhooks: Pick<Webhooks, 'test' | 'objection' | 'enable' | 'replayEvent' | 'replaySince'>;
}

const SHOWN = 20;
const ROUTE = { permission: 'projects.write', domains: 'refuse', tag: 'Webhooks' } as const;

/** `/webhooks…` */
export function webhooksRoutes({ store, clock, objects, webhooks }: WebhooksParts): Route[] {
  /** Does it to the webhook that the path names, if the tenant has it. */
  async function withWebhook(call: OfOne, act: (webhook: WebhookRow) => Promise<Outcome>): Promise<Outcome> {
    const webhook = await findWebhook(store, call.principal.tenant.id, call.params.id);
    if (webhook !== undefined) return act(webhook);
    return refuse('NOT_FOUND', { message: `There is no webhook ${call.params.id.slice(0, 60)}.` });
  }

  async function show(tenant: string, id: string): Promise<Outcome> {
    const webhook = await findWebhook(store, tenant, id);
    return webhook === undefined ? refuse('NOT_FOUND') : json(shown(webhook));
  }

  async function change(webhook: WebhookRow, body: z.output<typeof changes>): Promise<Outcome> {
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

  async function rotate(webhook: WebhookRow, call: OfOne): Promise<Outcome> {
    const { id, tenant, project } = webhook;
    if (project !== null && configuredSecret(webhook, call.exchange.snapshot) !== undefined) return configured(project);
    const secret = newSecret();
    const until = clock.now() + CHANGEOVER;
    await store.write([replaceSecret({ id, tenant, secret, until })]);
    return json({ secret, old_secret_until: isoTime(until) });
  }

  async function playAgain(webhook: WebhookRow, call: Call<unknown, z.output<typeof replay>, 'id'>): Promise<Outcome> {
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

  return [
    defineRoute({
      ...ROUTE,
      method: 'GET',
      path: '/webhooks',
      summary: 'Lists the webhooks of the tenant, newest first, those of its configurations among them.',
      query: z.strictObject(listing('whk')),
      answer: listOf('webhooks', webhookShape),
      async handle({ principal, query: { limit, cursor } }) {
        const tenant = principal.tenant.id;
        const rows = await listWebhooks(store, tenant, { before: cursor, limit: limit + 1 });
        const { page, next_cursor } = pageOf(rows, limit);
        return json({ webhooks: page.map(shown), count: await countWebhooks(store, tenant), next_cursor });
      },
    }),
    defineRoute({
      ...ROUTE,
      method: 'POST',
      path: '/webhooks',
      summary: 'Makes a webhook, which is told of what happens from now on, and shows its secret once.',
      description:
        'What is posted is signed by the [Standard Webhooks](https://www.standardwebhooks.com) specification, whose libraries verify it with this secret.',
      body: wanted,
      answer: z.object({ id: z.string(), url: z.string(), events: z.array(z.string()), secret: secretShape }),
      async handle({ principal, exchange, body: { url, events, description } }) {
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
    }),
    defineRoute({
      ...ROUTE,
      method: 'GET',
      path: '/webhooks/:id',
      summary: 'Shows a webhook, how it goes, and its newest deliveries.',
      answer: webhookShape.extend({ deliveries: z.array(deliveryShape) }),
      handle: (call) =>
        withWebhook(call, async (webhook) => {
          const deliveries = await recentDeliveries(store, webhook.id, SHOWN);
          return json({ ...shown(webhook), deliveries: deliveries.map(shownDelivery) });
        }),
    }),
    defineRoute({
      ...ROUTE,
      method: 'PATCH',
      path: '/webhooks/:id',
      summary: 'Changes a webhook, or disables or enables it.',
      description:
        'One that is enabled is told of what happens from then on, and of what still waited; `replay` brings the rest. Of a webhook that a configuration names only `status` can be changed here.',
      body: changes,
      answer: webhookShape,
      handle: (call) => withWebhook(call, (webhook) => change(webhook, call.body)),
    }),
    defineRoute({
      ...ROUTE,
      method: 'DELETE',
      path: '/webhooks/:id',
      summary: 'Removes a webhook and what it was still to be told.',
      answer: z.object({ id: z.string(), deleted: z.literal(true) }),
      handle: (call) =>
        withWebhook(call, async ({ id, tenant, project }) => {
          if (project !== null) return configured(project);
          await store.write([deleteWebhook({ id, tenant })]);
          return json({ id, deleted: true });
        }),
    }),
    defineRoute({
      ...ROUTE,
      method: 'POST',
      path: '/webhooks/:id/test',
      summary: 'Posts an event of the type `webhook.test` at once and answers what came of it.',
      body: z.strictObject({}),
      answer: testShape,
      handle: (call) => withWebhook(call, async (webhook) => json({ ...(await webhooks.test(webhook)) })),
    }),
    defineRoute({
      ...ROUTE,
      method: 'POST',
      path: '/webhooks/:id/rotate',
      summary: 'Gives a webhook a new secret and shows it once; the one before signs as well for 24 hours more.',
      body: z.strictObject({}),
      answer: z.object({ secret: secretShape, old_secret_until: z.iso.datetime() }),
      handle: (call) => withWebhook(call, (webhook) => rotate(webhook, call)),
    }),
    defineRoute({
      ...ROUTE,
      method: 'POST',
      path: '/webhooks/:id/replay',
      summary: 'Posts an event, or all since a time, once more, under the ids that they had.',
      body: replay,
      answer: z.object({
        replayed: z.int().describe('Events that are posted again.'),
        more: z.boolean().describe('Whether there are more than one replay takes (10,000, oldest first).'),
      }),
      handle: (call) => withWebhook(call, (webhook) => playAgain(webhook, call)),
    }),
  ];
}

type OfOne = Call<unknown, unknown, 'id'>;

function configured(project: string): Outcome {
  return refuse('CONFLICT', { message: `The configuration of the project ${project} says this; change it there.` });
}
