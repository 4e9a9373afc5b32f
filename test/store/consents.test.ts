/** What the database knows of consent. */
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
import { OPERATOR, saveOperator, changeTenant, findTenant } from '../../src/store/tenants.ts';
import { UnmetError } from '../../src/store/store.ts';
import { newMessage, startQueue } from '../harness/queue.ts';
import { testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

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

test('trust is shown and changed', async () => {
  const store = await openTestStore();
  const { tenant } = await testKey(store, { account: { trusted: 0 } });
  expect((await findTenant(store, tenant))?.trusted).toBe(0);
  await store.write(changeTenant(tenant, { trusted: true }));
  expect((await findTenant(store, tenant))?.trusted).toBe(1);
  expect((await recipientStatuses(store, tenant, ['a@inbox.test'])).get('a@inbox.test')).toBe('confirmed');
});
