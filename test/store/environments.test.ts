/** The migration that gives test keys a partition of their own. */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { expect, onTestFinished, test } from 'vitest';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import { temporaryFolder } from '../harness/store.ts';

/** The tables as they were; later columns are unknown to them. */
type Old = Record<'submissions' | 'messages' | 'deliveries' | 'events', Row>;

interface Row {
  readonly id: string;
  readonly tenant: string;
  readonly [column: string]: unknown;
}

const MESSAGE = { tenant: 'ten_1', kind: 'notification', domain: 'd.example', source: '{}', body: 'none' } as const;
const SUBMISSION = {
  tenant: 'ten_1',
  form: 'd.example/contact',
  domain: 'd.example',
  revision: '',
  fields: '[]',
  control: '{}',
  ip: '',
  user_agent: '',
  referer: '',
  status: 'accepted',
  spam_score: 0,
  spam_reasons: '[]',
  created_at: 1,
} as const;

test('submissions and mail that test keys caused go there, with what hangs on them; what is live stays', async () => {
  const database = new Database(join(await temporaryFolder(), 'old.db'));
  const db = new Kysely<Old>({ dialect: new SqliteDialect({ database }) });
  onTestFinished(() => db.destroy());
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrationsFor('sqlite')) } });
  expect((await migrator.migrateTo('0003-inbound')).error).toBeUndefined();
  for (const environment of ['live', 'test'] as const) {
    const [submission, message] = [`sub_${environment}`, `msg_${environment}`];
    await db
      .insertInto('submissions')
      .values({ ...SUBMISSION, id: submission, environment })
      .execute();
    const sizes = { size: 0, sender: null, encoding: '7bit', destinations: 1, created_at: 1, expires_at: 2 } as const;
    await db
      .insertInto('messages')
      .values({ ...MESSAGE, ...sizes, id: message, submission, environment })
      .execute();
    const delivery = { tenant: 'ten_1', recipient: 'a@d.example', destination: 'd.example', attempts: 0 };
    const nothing = { next_attempt_at: null, lease_owner: null, lease_until: null, last_reply: null, settled_at: null };
    await db
      .insertInto('deliveries')
      .values({
        ...delivery,
        ...nothing,
        id: `dlv_${environment}`,
        message,
        state: 'queued',
        created_at: 1,
        expires_at: 2,
      })
      .execute();
    const event = { tenant: 'ten_1', data: '{}', domain: null, form: null, request: null, created_at: 1 };
    await db
      .insertInto('events')
      .values([
        { ...event, id: `evt_1${environment}`, type: 'submission.accepted', submission, message: null },
        { ...event, id: `evt_2${environment}`, type: 'email.queued', submission: null, message },
      ])
      .execute();
  }
  expect((await migrator.migrateToLatest()).error).toBeUndefined();
  for (const table of ['submissions', 'messages', 'deliveries', 'events'] as const) {
    const rows = await db.selectFrom(table).select(['id', 'tenant']).execute();
    expect(rows.length).toBeGreaterThan(1);
    for (const { id, tenant } of rows) expect([id, tenant]).toEqual([id, id.endsWith('test') ? 'ten_1:test' : 'ten_1']);
  }
});
