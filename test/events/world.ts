/** Webhooks on a real store, a clock that the test moves, and an HTTP client that records what would be posted. */
import { expect, onTestFinished } from 'vitest';
import { projectSchema } from '../../src/config/schema.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { buildSnapshot, type Snapshot } from '../../src/config/snapshot.ts';
import type { HttpReply, HttpRequest } from '../../src/dns/guarded-fetch.ts';
import { newSecret } from '../../src/events/post.ts';
import { createWebhookTransport, type Alert } from '../../src/events/transport.ts';
import { createWebhooks } from '../../src/events/webhooks.ts';
import { newId } from '../../src/lib/ids.ts';
import { silentLog } from '../../src/lib/log.ts';
import { recordEvent, type NewEvent } from '../../src/store/events.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import type { Statement } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import { insertSubmission } from '../../src/store/submissions.ts';
import type { WebhookRow, SubmissionRow } from '../../src/store/tables.ts';
import { recentDeliveries, type WebhookDelivery } from '../../src/store/webhook-deliveries.ts';
import { insertWebhook } from '../../src/store/webhooks.ts';
import type { Transport } from '../../src/queue/transport.ts';
import { Worker } from '../../src/queue/worker.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';
import { submissionRow } from '../harness/submissions.ts';

const TENANT = OPERATOR;
/** The event that stands for a letter to an owner, for it is written in the unit that makes the letter; no webhook is told. */
export const LETTER = 'tenant.changed';
export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export interface Seen extends HttpRequest {
  /** When it came. */
  readonly at: number;
  readonly id: string;
  readonly json: { type: string; timestamp: string; data: Record<string, unknown> };
}

type Reply = (seen: Seen) => HttpReply | Promise<HttpReply>;

export const answered = (status: number, more: { text?: string; retryAfter?: string } = {}): HttpReply => ({
  kind: 'answered',
  status,
  retryAfter: more.retryAfter,
  text: more.text ?? '',
});

export function snapshotOf(projects: readonly object[] = [], tenant = TENANT): Snapshot {
  const server = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' } });
  return buildSnapshot({
    server,
    projects: projects.map((project) => {
      const config = projectSchema.parse(project);
      return { revision: 'rev_1', slug: config.project.slug, tenant, source: 'file', config };
    }),
  });
}

export async function eventWorld(given: { snapshot?: Snapshot; store?: Store } = {}) {
  const clock = testClock();
  const store = given.store ?? (await openTestStore());
  await saveOperator(store, 'ops@example.net', clock.now());
  const seen: Seen[] = [];
  const world = {
    clock,
    store,
    seen,
    snapshot: given.snapshot ?? snapshotOf(),
    reply: undefined as Reply | undefined,
  };

  const http = {
    objection: () => Promise.resolve(undefined),
    async request(request: HttpRequest) {
      const json = JSON.parse(request.body ?? '') as Seen['json'];
      const one = { ...request, at: clock.now(), id: request.headers?.['webhook-id'] ?? '', json };
      seen.push(one);
      return (await world.reply?.(one)) ?? answered(200);
    },
  };
  let daemons = 0;

  /** A daemon: looks for what happened, and its queue posts what is due. */
  function daemon(own: TestClock = clock) {
    const worker = new Worker({
      store,
      clock: own,
      log: silentLog,
      random: () => 0.5,
      source: { prepare: () => Promise.reject(new Error('no mail is rendered here')) },
      config: () => world.snapshot.server,
      owner: `daemon ${(daemons += 1)}`,
      transports: {
        mail: NO_MAIL,
        webhooks: createWebhookTransport({
          store,
          clock: own,
          log: silentLog,
          http,
          wake: () => undefined,
          alertOwner: ({ tenant }, { subject, text }) =>
            Promise.resolve([recordEvent({ type: LETTER, tenant, at: own.now(), data: { subject, text } })]),
        }),
      },
    });
    onTestFinished(() => worker.stop(0));
    const webhooks = createWebhooks({
      store,
      clock: own,
      log: silentLog,
      http,
      snapshot: () => world.snapshot,
      wake: () => worker.wake(),
    });
    return {
      worker,
      webhooks,
      /** Lets the queue do what is due, to its end. */
      async settle() {
        worker.wake();
        await expect
          .poll(async () => worker.progress().claimed + (await due(store, clock.now())), { interval: 2 })
          .toBe(0);
      },
    };
  }
  const main = daemon();
  let submissions = 0;

  return Object.assign(world, {
    daemon,
    main,
    /** What a second of the daemon does, to its end. */
    async turn() {
      await main.webhooks.look();
      await main.settle();
    },
    /** Goes on turn by turn to where the next try is due, at most `turns` times. */
    async follow(turns: number) {
      for (let i = 0; i < turns; i++) {
        const next = (await rows(store)).flatMap(({ next_attempt_at: at }) => at ?? []);
        if (next.length === 0) return;
        clock.advance(Math.max(0, Math.min(...next) - clock.now()));
        await this.turn();
      }
    },
    async hook(given: Partial<WebhookRow> = {}): Promise<WebhookRow> {
      const now = clock.now();
      const id = newId('whk', now);
      const row = { tenant: TENANT, project: null, form: '', url: 'https://hooks.example/in', events: '[]' };
      await store.write([
        insertWebhook({ id, ...row, description: '', secret: newSecret(), created_at: now, ...given }),
      ]);
      return store.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
    },
    record: (event: Partial<NewEvent> = {}) =>
      store.write([
        recordEvent({ type: 'domain.verified', tenant: TENANT, at: clock.now(), data: { records: [] }, ...event }),
      ]),
    /** A submission (the first is sub_1) and the event of it. */
    async submit(given: Partial<SubmissionRow>, also: readonly Statement[] = []): Promise<string> {
      const row = submissionRow(clock.now(), { tenant: TENANT, id: `sub_${++submissions}`, ...given });
      const { id: submission, form, domain, created_at: at } = row;
      const event = { type: 'submission.accepted', tenant: TENANT, at, data: { form }, submission, domain } as const;
      await store.write([insertSubmission(row), ...also, recordEvent(event)]);
      return submission;
    },
    deliveries: () => rows(store),
    /** What the owners were written. */
    async letters(): Promise<Alert[]> {
      const found = await store.read.selectFrom('events').select('data').where('type', '=', LETTER).execute();
      return found.map(({ data }) => JSON.parse(data) as Alert);
    },
    webhook: (id: string) =>
      store.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
  });
}

const NO_MAIL: Transport = {
  send: () => expect.unreachable('no mail is sent here'),
  capacity: () => 1,
  stop: () => Promise.resolve(),
};

/** All deliveries as the owners of the webhooks see them, oldest first. */
async function rows(store: Store): Promise<WebhookDelivery[]> {
  const webhooks = await store.read.selectFrom('webhooks').select('id').execute();
  const lists = await Promise.all(webhooks.map(({ id }) => recentDeliveries(store, id, 1000)));
  return lists.flat().sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** How many are due, or being tried. */
async function due(store: Store, now: number): Promise<number> {
  const found = await store.read
    .selectFrom('deliveries')
    .select('id')
    .where((eb) =>
      eb.or([
        eb('state', '=', 'sending'),
        eb.and([eb('state', 'in', ['queued', 'deferred']), eb('next_attempt_at', '<=', now)]),
      ]),
    )
    .execute();
  return found.length;
}
