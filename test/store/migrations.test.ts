/** A database of the release before becomes one of today, and what is in it goes on. */
import Database from 'better-sqlite3';
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { countUnreadReports } from '../../src/store/aggregate-reports.ts';
import { createStore } from '../../src/store/database.ts';
import { dueDestinations, findDestination } from '../../src/store/destinations.ts';
import { claimDeliveries, takeBackLeases } from '../../src/store/leases.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import type { Store } from '../../src/store/store.ts';
import { storedProjects, findRevision } from '../../src/store/projects.ts';
import { findTenant } from '../../src/store/tenants.ts';
import { freshDatabase } from '../harness/store.ts';

type Row = Readonly<Record<string, unknown>>;

interface OldDatabase {
  insert(table: string, rows: readonly Row[]): Promise<void>;
  /** Opens it as the daemon does, with all migrations. */
  open(): Promise<Store>;
}

async function startOld(without: readonly string[] = []): Promise<OldDatabase> {
  const url = await freshDatabase();
  const isFile = url.startsWith('sqlite:');
  const db = new Kysely<Record<string, Row>>({
    dialect: isFile
      ? new SqliteDialect({ database: new Database(url.slice('sqlite:'.length)) })
      : new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }),
  });
  const all = Object.entries(migrationsFor(isFile ? 'sqlite' : 'postgres'));
  const migrations = Object.fromEntries(all.filter(([name]) => !without.includes(name)));
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  const { error } = await (without.length > 0 ? migrator.migrateToLatest() : migrator.migrateTo('0003-inbound'));
  expect(error).toBeUndefined();
  return {
    async insert(table, rows) {
      for (const row of rows) await db.insertInto(table).values(row).execute();
    },
    async open() {
      await db.destroy();
      const store = await createStore(url);
      onTestFinished(() => store.close());
      return store;
    },
  };
}

const TENANT = { plan: 'free', requests_per_hour: null, suspended: 0, created_at: 1 };
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
};
const MESSAGE = {
  tenant: 'ten_1',
  kind: 'notification',
  submission: null,
  domain: 'd.example',
  source: '{}',
  body: 'none',
  size: 0,
  sender: null,
  encoding: '7bit',
  destinations: 1,
  environment: 'live',
  created_at: 1,
  expires_at: 9000,
};
const DELIVERY = {
  tenant: 'ten_1',
  recipient: 'a@d.example',
  destination: 'd.example',
  state: 'queued',
  attempts: 0,
  next_attempt_at: 1,
  lease_owner: null,
  lease_until: null,
  last_reply: null,
  created_at: 1,
  expires_at: 9000,
  settled_at: null,
};
const DESTINATION = { next_due_at: 1, failures: 0, pauses: 0, paused_until: null, held: 0, last_error: null };

test('accounts and agreements are carried over', async () => {
  const old = await startOld();
  await old.insert('tenants', [
    { ...TENANT, id: 'ten_1', name: 'A', email: 'An.na+x@gmail.com', confirmed_at: 5 },
    { ...TENANT, id: 'ten_2', name: 'B', email: 'b@inbox.test', confirmed_at: null },
  ]);
  const form = { tenant: 'ten_1', kind: 'instant', name: 'F', created_at: 1 };
  await old.insert('forms', [
    { ...form, id: 'frm_1', config: '{"to":"Host@inbox.test"}', confirmed_at: 7 },
    { ...form, id: 'frm_2', config: '{"to":"silent@inbox.test"}', confirmed_at: null },
    { ...form, id: 'frm_3', kind: 'api', config: '{"to":["api@inbox.test"]}', confirmed_at: 1 },
  ]);
  const token = { tenant: 'ten_1', subject: 'frm_2', expires_at: 9, created_at: 1 };
  await old.insert('tokens', [
    { ...token, hash: 'a', kind: 'form' },
    { ...token, hash: 'b', kind: 'signup', subject: 'ten_2' },
  ]);
  const store = await old.open();
  expect(await store.read.selectFrom('consents').selectAll().orderBy('address').execute()).toEqual([
    { tenant: 'ten_1', address: 'an.na+x@gmail.com', asked_at: null, confirmed_at: 5 },
    { tenant: 'ten_1', address: 'host@inbox.test', asked_at: null, confirmed_at: 7 },
  ]);
  expect(await store.read.selectFrom('mailboxes').selectAll().execute()).toEqual([
    { mailbox: 'anna@gmail.com', account: 'ten_1', refused_at: null },
  ]);
  for (const id of ['ten_1', 'ten_2']) {
    // Numbers of its own for messages come later: until then those of its plan hold.
    const limits = { messages_per_hour: null, messages_per_day: null };
    expect(await findTenant(store, id)).toMatchObject({ id, trusted: 1, ...limits });
  }
  expect(await store.read.selectFrom('tokens').select('kind').execute()).toEqual([{ kind: 'signup' }]);
  const forms = await store.read.selectFrom('forms').selectAll().orderBy('id').execute();
  expect(forms.map(({ id, domain }) => [id, domain])).toEqual([
    ['frm_1', null],
    ['frm_2', null],
    ['frm_3', null],
  ]);
  expect(Object.keys(forms[0] ?? {})).not.toContain('confirmed_at');
});

test('submissions and mail that test keys caused go to their partition, with what hangs on them; what is live stays', async () => {
  const old = await startOld();
  for (const environment of ['live', 'test'] as const) {
    const [submission, message] = [`sub_${environment}`, `msg_${environment}`];
    await old.insert('submissions', [{ ...SUBMISSION, id: submission, environment }]);
    await old.insert('messages', [{ ...MESSAGE, id: message, submission, environment }]);
    await old.insert('deliveries', [{ ...DELIVERY, id: `dlv_${environment}`, message }]);
    const event = { tenant: 'ten_1', data: '{}', domain: null, form: null, request: null, created_at: 1 };
    await old.insert('events', [
      { ...event, id: `evt_1${environment}`, type: 'submission.accepted', submission, message: null },
      { ...event, id: `evt_2${environment}`, type: 'email.queued', submission: null, message },
    ]);
  }
  const store = await old.open();
  for (const table of ['submissions', 'messages', 'deliveries', 'events'] as const) {
    const rows = await store.read.selectFrom(table).select(['id', 'tenant']).execute();
    expect(rows.length).toBeGreaterThan(1);
    for (const { id, tenant } of rows) expect([id, tenant]).toEqual([id, id.endsWith('test') ? 'ten_1:test' : 'ten_1']);
  }
});

test('what waits is sent: no try is taken for one that began, and what could not be reached is not taken for proven', async () => {
  const old = await startOld();
  await old.insert('messages', [{ ...MESSAGE, id: 'msg_1' }]);
  const lease = { state: 'sending', attempts: 2, lease_owner: 'dead', lease_until: 5, next_attempt_at: 900 };
  await old.insert('deliveries', [
    { ...DELIVERY, id: 'dlv_1', message: 'msg_1' },
    { ...DELIVERY, id: 'dlv_2', message: 'msg_1', ...lease },
    { ...DELIVERY, id: 'dlv_3', message: 'msg_1', destination: 'away.example' },
  ]);
  await old.insert('destinations', [
    { ...DESTINATION, name: 'd.example' },
    { ...DESTINATION, name: 'away.example', failures: 3, pauses: 3, paused_until: 800, next_due_at: 800 },
  ]);
  const store = await old.open();
  expect(await findDestination(store, 'away.example')).toMatchObject({ line: 'again:', failures: 3 });
  expect((await dueDestinations(store, '', { now: 10, limit: 10 })).map(({ name }) => name)).toEqual(['d.example']);
  expect(await takeBackLeases(store, 10, 10)).toBe(1);
  const claim = { destination: 'd.example', now: 10, owner: 'me', until: 70, delays: '[100]', last_delay: 0, limit: 9 };
  const [{ rows }] = await store.write([claimDeliveries(claim)]);
  const claimed = rows.map(({ id, attempts, counted_at: counted }) => [id, attempts, counted]);
  expect(claimed.toSorted()).toEqual([
    ['dlv_1', 1, null],
    ['dlv_2', 2, null],
  ]);
});

test('projects of files, pushes and the API become active documents', async () => {
  const old = await startOld();
  await old.insert(
    'tenants',
    ['ten_operator', 'ten_a'].map((id) => ({ ...TENANT, id, name: id, email: `${id}@example.org`, confirmed_at: 1 })),
  );
  const revision = { files: '{}', created_at: 1 };
  await old.insert('config_revisions', [
    { ...revision, id: 'rev_f', tenant: 'ten_operator', slug: 'file', file: 'projects/file.yml', yaml: 'f', hash: 'f' },
    { ...revision, id: 'rev_g', tenant: 'ten_operator', slug: 'gone', file: 'projects/gone.yml', yaml: 'g', hash: 'g' },
    { ...revision, id: 'rev_p', tenant: 'ten_a', slug: 'push', file: '', yaml: 'p', hash: 'p' },
  ]);
  const ofFile = { tenant: 'ten_operator', source: 'file' };
  const ofApi = { tenant: 'ten_a', source: 'api', revision: '' };
  await old.insert('projects', [
    { ...ofFile, id: 'prj_1', slug: 'file', name: 'F', revision: 'rev_f', created_at: 1 },
    { ...ofFile, id: 'prj_2', slug: 'gone', name: 'G', revision: 'rev_g', created_at: 2 },
    { ...ofApi, id: 'prj_3', slug: 'push', name: 'P', source: 'push', revision: 'rev_p', created_at: 3 },
    { ...ofApi, id: 'prj_4', slug: 'api', name: 'An "A": #1', created_at: 4 },
    { ...ofApi, id: 'prj_5', slug: 'empty', name: 'E', created_at: 5 },
  ]);
  const domain = { token: 't', status: 'verified', next_check_at: 0 };
  await old.insert('domains', [
    { ...domain, name: 'f.example', tenant: 'ten_operator', project: 'file', created_at: 1 },
    // Its file was removed: the domain was released, and the project's row stayed.
    { ...domain, name: 'g.example', tenant: 'ten_operator', project: '', created_at: 1 },
    { ...domain, name: 'b.example', tenant: 'ten_a', project: 'api', created_at: 2 },
    { ...domain, name: 'a.example', tenant: 'ten_a', project: 'api', created_at: 3 },
  ]);
  const store = await old.open();
  const projects = await storedProjects(store);
  expect(projects.map(({ slug, source, machine, file }) => [slug, source, machine, file])).toEqual([
    ['file', 'file', '', 'projects/file.yml'],
    ['push', 'push', null, null],
    ['api', 'api', null, null],
    ['empty', 'api', null, null],
  ]);
  const yaml = await Promise.all(projects.map(async ({ revision }) => (await findRevision(store, revision))?.yaml));
  expect(yaml).toEqual([
    'f',
    'p',
    'project:\n  name: "An \\"A\\": #1"\n  slug: "api"\ndomains:\n  "b.example": {}\n  "a.example": {}\n',
    'project:\n  name: "E"\n  slug: "empty"\n',
  ]);
});

test('a step that was not there when later ones ran is made up for', async () => {
  const old = await startOld(['0020-aggregate-reports']);
  await old.insert('tenants', [{ ...TENANT, id: 'ten_1', name: 'One', email: 'one@example.test', confirmed_at: 1 }]);
  const store = await old.open();
  expect(await findTenant(store, 'ten_1')).toMatchObject({ name: 'One' });
  expect(await countUnreadReports(store)).toBe(0);
});
