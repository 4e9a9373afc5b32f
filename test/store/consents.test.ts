/** What the database knows of consent, and what a database from before knew. */
import Database from 'better-sqlite3';
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely';
import pg from 'pg';
import { expect, test } from 'vitest';
import {
  confirmRecipient,
  noteAsked,
  recipientStatuses,
  refuseMailbox,
  releaseParked,
  takeMailbox,
} from '../../src/store/consents.ts';
import { insertDomain } from '../../src/store/domains.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import { OPERATOR, saveOperator } from '../../src/store/revisions.ts';
import { UnmetError } from '../../src/store/store.ts';
import { changeTenant, findTenant } from '../../src/store/tenants.ts';
import { newMessage, startQueue } from '../harness/queue.ts';
import { testKey } from '../harness/keys.ts';
import { freshDatabase, openTestStore } from '../harness/store.ts';

const HELD = { project: 'p', token: 't', next_check_at: 0, created_at: 0 } as const;

test('who gets mail of an account: by its trust, its domains, what was agreed and what was refused', async () => {
  const store = await openTestStore();
  await saveOperator(store, 'ops@inbox.test', 1);
  const { tenant } = await testKey(store, { account: { trusted: 0 } });
  const other = await testKey(store, { account: { trusted: 0 } });
  const domain = (name: string, status: 'pending' | 'verified' | 'degraded' | 'failed', owner = tenant) =>
    insertDomain({ ...HELD, tenant: owner, name, status });
  await store.write([
    domain('verified.test', 'verified'),
    domain('degraded.test', 'degraded'),
    domain('waiting.test', 'pending'),
    domain('failed.test', 'failed'),
    domain('other.test', 'verified', other.tenant),
    confirmRecipient({ tenant, address: 'ÀNA@inbox.test', at: 1 }),
    confirmRecipient({ tenant: other.tenant, address: 'bob@inbox.test', at: 1 }),
    confirmRecipient({ tenant, address: 'eve@gmail.com', at: 1 }),
    refuseMailbox({ mailbox: 'eve@gmail.com', at: 2 }),
    refuseMailbox({ mailbox: 'boss@verified.test', at: 2 }),
  ]);
  const expected = {
    'a@verified.test': 'confirmed',
    'boss@verified.test': 'confirmed',
    'a@sub.verified.test': 'pending',
    'a@degraded.test': 'confirmed',
    'a@waiting.test': 'pending',
    'a@failed.test': 'pending',
    'a@other.test': 'pending',
    'àna@inbox.test': 'confirmed',
    'àna+tag@inbox.test': 'pending',
    'bob@inbox.test': 'pending',
    'E.V.E+x@googlemail.com': 'refused',
    'eve@gmail.com': 'refused',
  };
  const addresses = Object.keys(expected);
  expect(Object.fromEntries(await recipientStatuses(store, tenant, addresses))).toEqual(expected);
  for (const trusted of [OPERATOR, (await testKey(store)).tenant])
    expect(new Set((await recipientStatuses(store, trusted, addresses)).values())).toEqual(new Set(['confirmed']));
});

test('an address is asked once in a while, however many ask at a time; a mailbox is one account’s', async () => {
  const store = await openTestStore();
  const question = { tenant: 'ten_1', address: 'A@inbox.test' };
  const asked = await Promise.allSettled(
    Array.from({ length: 5 }, () => store.write([noteAsked({ ...question, at: 10, since: 5 })])),
  );
  expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  await expect(store.write([noteAsked({ ...question, address: 'a@inbox.test', at: 14, since: 9 })])).rejects.toThrow(
    UnmetError,
  );
  await store.write([noteAsked({ ...question, at: 15, since: 10 })]);
  const mailbox = 'a@inbox.test';
  const taken = await Promise.allSettled(
    ['ten_1', 'ten_2', 'ten_3'].map((account) => store.write([takeMailbox({ mailbox, account }, 1)])),
  );
  expect(taken.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
});

test('mail waits for its recipient without a try, is not tried by hand either, and expires with the reason', async () => {
  const queue = await startQueue({ records: [] });
  const { store } = queue;
  const { tenant } = await testKey(store, { account: { trusted: 0 } });
  const day = 86_400_000;
  const mail = { tenant, ttl: 5 * day } as const;
  const forward = await queue.send('a@inbox.test', { ...mail, kind: 'forward' });
  const lead = await queue.send('b@inbox.test', { ...mail, kind: 'notification' });
  const free = await queue.send('c@inbox.test', { ...mail, kind: 'transactional' });
  const waiting = async (id: string) => Object.values(await queue.deliveries(id))[0];
  await expect.poll(async () => (await waiting(forward))?.next_attempt_at).toBeNull();
  await expect.poll(async () => (await waiting(lead))?.next_attempt_at).toBeNull();
  expect(await waiting(forward)).toMatchObject({ state: 'queued', attempts: 0 });
  // What needs no consent is tried.
  await expect.poll(async () => (await waiting(free))?.attempts).toBeGreaterThan(0);
  expect(await releaseParked(store, { now: queue.clock.now(), ttl: day })).toBe(false);
  queue.pass(6 * day);
  await expect.poll(async () => (await waiting(forward))?.state).toBe('expired');
  expect((await waiting(forward))?.last_reply).toContain('has not agreed yet');
  expect((await waiting(lead))?.state).toBe('queued');
  await store.write([confirmRecipient({ tenant, address: 'b@inbox.test', at: queue.clock.now() })]);
  expect(await releaseParked(store, { now: queue.clock.now(), ttl: day })).toBe(true);
  queue.worker.wake();
  await expect.poll(async () => (await waiting(lead))?.attempts).toBeGreaterThan(0);
});

test('an answer that comes while mail is being put aside is not missed', async () => {
  const queue = await startQueue({ records: [] });
  const { store } = queue;
  const { tenant } = await testKey(store, { account: { trusted: 0 } });
  for (let i = 0; i < 10; i++) {
    const address = `r${i}@inbox.test`;
    const sent = queue.send(address, newMessage(address, { tenant, kind: 'notification' }));
    await store.write([confirmRecipient({ tenant, address, at: queue.clock.now() })]);
    await releaseParked(store, { tenant, now: queue.clock.now(), ttl: 1000 });
    queue.worker.wake();
    const id = await sent;
    await expect.poll(async () => Object.values(await queue.deliveries(id))[0]?.attempts).toBeGreaterThan(0);
  }
});

test('accounts and agreements from before are carried over', async () => {
  const url = await freshDatabase();
  const isFile = url.startsWith('sqlite:');
  const db = new Kysely<Record<string, Record<string, unknown>>>({
    dialect: isFile
      ? new SqliteDialect({ database: new Database(url.slice('sqlite:'.length)) })
      : new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }),
  });
  const { '0004-consent': consent, ...before } = migrationsFor(isFile ? 'sqlite' : 'postgres');
  for (const { up } of Object.values(before).slice(0, 3)) await up(db);
  const account = { plan: 'free', requests_per_hour: null, suspended: 0, created_at: 1 };
  await db
    .insertInto('tenants')
    .values([
      { ...account, id: 'ten_1', name: 'A', email: 'An.na+x@gmail.com', confirmed_at: 5 },
      { ...account, id: 'ten_2', name: 'B', email: 'b@inbox.test', confirmed_at: null },
    ])
    .execute();
  const form = { tenant: 'ten_1', kind: 'instant', name: 'F', created_at: 1 };
  await db
    .insertInto('forms')
    .values([
      { ...form, id: 'frm_1', config: '{"to":"Host@inbox.test"}', confirmed_at: 7 },
      { ...form, id: 'frm_2', config: '{"to":"silent@inbox.test"}', confirmed_at: null },
      { ...form, id: 'frm_3', kind: 'api', config: '{"to":["api@inbox.test"]}', confirmed_at: 1 },
    ])
    .execute();
  const token = { tenant: 'ten_1', subject: 'frm_2', expires_at: 9, created_at: 1 };
  await db
    .insertInto('tokens')
    .values([
      { ...token, hash: 'a', kind: 'form' },
      { ...token, hash: 'b', kind: 'signup', subject: 'ten_2' },
    ])
    .execute();
  await consent?.up(db);
  const rows = (table: string, key: string) => db.selectFrom(table).selectAll().orderBy(key).execute();
  expect(await rows('consents', 'address')).toEqual(
    [
      ['an.na+x@gmail.com', 5],
      ['host@inbox.test', 7],
    ].map(([address, at]) => ({ tenant: 'ten_1', address, asked_at: null, confirmed_at: isFile ? at : String(at) })),
  );
  expect(await rows('mailboxes', 'mailbox')).toEqual([
    { mailbox: 'anna@gmail.com', account: 'ten_1', refused_at: null },
  ]);
  expect((await rows('tenants', 'id')).map(({ trusted }) => Number(trusted))).toEqual([1, 1]);
  expect((await rows('tokens', 'hash')).map(({ kind }) => kind)).toEqual(['signup']);
  expect(Object.keys((await rows('forms', 'id'))[0] ?? {})).not.toContain('confirmed_at');
  await db.destroy();
});

test('trust is shown and changed', async () => {
  const store = await openTestStore();
  const { tenant } = await testKey(store, { account: { trusted: 0 } });
  expect((await findTenant(store, tenant))?.trusted).toBe(0);
  await store.write(changeTenant(tenant, { trusted: true }));
  expect((await findTenant(store, tenant))?.trusted).toBe(1);
  expect((await recipientStatuses(store, tenant, ['a@inbox.test'])).get('a@inbox.test')).toBe('confirmed');
});
