/** A database of the release before, in which webhooks had a queue of their own. */
import Database from 'better-sqlite3';
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { showMessage } from '../../src/queue/operate.ts';
import { createStore } from '../../src/store/database.ts';
import { dueDestinations } from '../../src/store/destinations.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import { recentDeliveries } from '../../src/store/webhook-deliveries.ts';
import { freshDatabase } from '../harness/store.ts';

/** The tables as they were. */
type Old = Record<'webhooks' | 'webhook_deliveries' | 'messages' | 'deliveries' | 'attempts', Record<string, unknown>>;

const NOW = Date.UTC(2026, 0, 2);
const MADE = NOW - 3_600_000;

function open(url: string): Kysely<Old> {
  const dialect = url.startsWith('sqlite:')
    ? new SqliteDialect({ database: new Database(url.slice('sqlite:'.length)) })
    : new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) });
  return new Kysely<Old>({ dialect });
}

async function oldDatabase(): Promise<string> {
  const url = await freshDatabase();
  const db = open(url);
  const migrations = migrationsFor(url.startsWith('sqlite:') ? 'sqlite' : 'postgres');
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  expect((await migrator.migrateTo('0009-destinations')).error).toBeUndefined();
  const webhook = { form: '', events: '[]', description: '', secret: 'whsec_x', status: 'active', created_at: 1 };
  const delivery = { webhook: 'whk_1', created_at: MADE, attempts: 1, last_attempt_at: MADE + 5 };
  const message = { tenant: 'ten_1', kind: 'dsn', domain: '', source: '{}', body: 'none', size: 0, encoding: '7bit' };
  await db
    .insertInto('webhooks')
    .values([
      { ...webhook, id: 'whk_1', tenant: 'ten_1', url: 'https://one.test/in', starts_at: 1, cursor: 1 },
      { ...webhook, id: 'whk_2', tenant: 'ten_1', url: 'https://two.test/in', starts_at: 1, cursor: 1 },
    ])
    .execute();
  await db
    .insertInto('webhook_deliveries')
    .values(
      [
        {
          ...delivery,
          id: 'whd_1',
          event: 'evt_1',
          state: 'delivered',
          last_status: 200,
          last_result: '200 OK',
          settled_at: MADE + 5,
        },
        {
          ...delivery,
          id: 'whd_2',
          event: 'evt_2',
          state: 'failed',
          attempts: 8,
          last_result: 'ECONNREFUSED',
          settled_at: MADE + 5,
        },
        {
          ...delivery,
          id: 'whd_3',
          event: 'evt_3',
          state: 'pending',
          last_status: 500,
          last_result: '500',
          next_attempt_at: NOW,
        },
        {
          ...delivery,
          id: 'whd_4',
          event: null,
          state: 'delivered',
          last_status: 204,
          last_result: '204 No Content',
          settled_at: NOW,
        },
        {
          ...delivery,
          id: 'whd_5',
          webhook: 'whk_2',
          event: 'evt_3',
          state: 'pending',
          attempts: 0,
          last_attempt_at: null,
          next_attempt_at: NOW - 1,
        },
      ].map((row) => ({ last_status: null, last_result: null, settled_at: null, next_attempt_at: null, ...row })),
    )
    .execute();
  await db
    .insertInto('messages')
    .values({ ...message, id: 'msg_mail', destinations: 1, environment: 'live', created_at: 1, expires_at: 2 })
    .execute();
  const mail = { tenant: 'ten_1', recipient: 'a@b.test', destination: 'b.test', state: 'delivered', attempts: 1 };
  await db
    .insertInto('deliveries')
    .values({ ...mail, id: 'dlv_1', message: 'msg_mail', created_at: 1, expires_at: 2, settled_at: 2 })
    .execute();
  await db
    .insertInto('attempts')
    .values({ delivery: 'dlv_1', number: 1, at: 2, outcome: 'delivered', reply: '250 ok' })
    .execute();
  await db.destroy();
  return url;
}

test('what webhooks were told, and what they are still to be told, is in the queue', async () => {
  const store = await createStore(await oldDatabase());
  onTestFinished(() => store.close());
  const told = await recentDeliveries(store, 'whk_1', 10);
  expect(told).toMatchObject([
    { id: 'whd_4', event: null, state: 'delivered', attempts: 1, last_status: 204, last_result: '204 No Content' },
    { id: 'whd_3', event: 'evt_3', state: 'pending', attempts: 1, last_status: 500, next_attempt_at: NOW },
    { id: 'whd_2', event: 'evt_2', state: 'failed', attempts: 8, last_status: null, last_result: 'ECONNREFUSED' },
    { id: 'whd_1', event: 'evt_1', state: 'delivered', attempts: 1, last_status: 200, last_attempt_at: MADE + 5 },
  ]);
  expect(await recentDeliveries(store, 'whk_2', 10)).toMatchObject([
    { id: 'whd_5', event: 'evt_3', state: 'pending', attempts: 0, last_attempt_at: null, created_at: MADE },
  ]);
  const due = await dueDestinations(store, 'ten_1', { now: NOW, limit: 10 });
  expect(due.map(({ name, next_due_at }) => [name, next_due_at])).toEqual([
    ['whk_2', NOW - 1],
    ['whk_1', NOW],
  ]);
  expect(await showMessage(store, 'whd_3')).toMatchObject({
    message: { id: 'msg_3', kind: 'webhook', tenant: 'ten_1' },
    deliveries: [
      { id: 'whd_3', state: 'deferred' },
      { id: 'whd_5', state: 'queued' },
    ],
  });
  expect(await showMessage(store, 'dlv_1')).toMatchObject({
    message: { id: 'msg_mail' },
    deliveries: [{ state: 'delivered', webhook: null, tries: [{ reply: '250 ok' }] }],
  });
});
