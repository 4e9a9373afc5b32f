/** Webhooks on a real store, a clock that the test moves, and a door that writes down what would be posted. */
import { projectSchema } from '../../src/config/schema-project.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { buildSnapshot, type Snapshot } from '../../src/config/snapshot.ts';
import type { HttpReply, HttpRequest } from '../../src/dns/guarded-fetch.ts';
import { createDeliverer, type Letter } from '../../src/events/deliver.ts';
import { createDispatcher } from '../../src/events/dispatch.ts';
import { newSecret } from '../../src/events/post.ts';
import { newId } from '../../src/lib/ids.ts';
import { silentLog } from '../../src/lib/log.ts';
import { recordEvent, type NewEvent } from '../../src/store/events.ts';
import { OPERATOR, saveOperator } from '../../src/store/revisions.ts';
import type { Statement } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import { insertSubmission } from '../../src/store/submissions.ts';
import type { WebhookDeliveryRow, WebhookRow } from '../../src/store/tables-accounts.ts';
import type { SubmissionRow } from '../../src/store/tables.ts';
import { insertWebhook } from '../../src/store/webhooks.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';

const TENANT = OPERATOR;
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
  const letters: Letter[] = [];
  const world = {
    clock,
    store,
    seen,
    letters,
    snapshot: given.snapshot ?? snapshotOf(),
    reply: undefined as Reply | undefined,
  };

  /** A daemon: looks for what happened and posts what is due. */
  function daemon() {
    const dispatcher = createDispatcher({ store, clock, snapshot: () => world.snapshot });
    const deliverer = createDeliverer({
      store,
      clock,
      log: silentLog,
      random: () => 0.5,
      wake: () => undefined,
      mailOwner: (_webhook, letter) => {
        letters.push(letter);
        return Promise.resolve([]);
      },
      door: {
        async request(request) {
          const json = JSON.parse(request.body ?? '') as Seen['json'];
          const one = { ...request, at: clock.now(), id: request.headers?.['webhook-id'] ?? '', json };
          seen.push(one);
          return (await world.reply?.(one)) ?? answered(200);
        },
      },
    });
    return { dispatcher, deliverer };
  }
  const main = daemon();
  let submissions = 0;

  return Object.assign(world, {
    daemon,
    main,
    /** What a second of the daemon does, to its end. */
    async turn() {
      await main.dispatcher.run();
      await main.deliverer.fill();
      await main.deliverer.idle();
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
      const row = { ...SUBMISSION, id: `sub_${++submissions}`, created_at: clock.now(), ...given };
      const { id: submission, form, domain, created_at: at } = row;
      const event = { type: 'submission.accepted', tenant: TENANT, at, data: { form }, submission, domain } as const;
      await store.write([insertSubmission(row), ...also, recordEvent(event)]);
      return submission;
    },
    deliveries: () => rows(store),
    webhook: (id: string) =>
      store.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
  });
}

const SUBMISSION = {
  tenant: TENANT,
  form: 'example.com/contact',
  domain: 'example.com',
  revision: '',
  fields: '[]',
  control: '{}',
  ip: '',
  user_agent: '',
  referer: '',
  status: 'accepted',
  spam_score: 0,
  spam_reasons: '[]',
  environment: 'live',
} as const;

function rows(store: Store): Promise<WebhookDeliveryRow[]> {
  return store.read.selectFrom('webhook_deliveries').selectAll().orderBy('id').execute();
}
