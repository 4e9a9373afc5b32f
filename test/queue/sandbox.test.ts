import { expect, test } from 'vitest';
import { bodyChunk } from '../../src/store/messages.ts';
import { selectSuppressions, suppress } from '../../src/store/suppressions.ts';
import { mailDomain, startQueue } from '../harness/queue.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const TEST = { environment: 'test', kind: 'transactional' } as const;

async function listed(store: Parameters<typeof selectSuppressions>[0]): Promise<string[]> {
  const rows = await selectSuppressions(store, { tenant: 'ten_a', after: undefined, limit: 50 });
  return rows.map(({ address, reason }) => `${address} ${reason}`);
}

test('mail of a test key is rendered, kept and captured; nothing is dialled, whatever is wrong with the real destination', async () => {
  const peer = await startSmtpPeer();
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  const message = await queue.send(['a@example.test', 'b@no.such.example'], TEST);
  const { tries, last_reply } = await queue.reaches(message, 'captured');
  expect(last_reply).toBe('250 2.0.0 captured: test mail is not sent');
  expect(tries).toMatchObject([{ number: 1, outcome: 'captured', host: null, address: null, tls: null }]);
  expect(Buffer.from((await bodyChunk(queue.store, message, 0)) ?? []).toString()).toContain(`Subject: ${message}`);
  expect(peer.connections().total).toBe(0);
  const events = await queue.store.read.selectFrom('events').select(['type', 'data']).orderBy('id').execute();
  expect(events.map(({ data }) => (JSON.parse(data) as { environment: string }).environment)).toEqual([
    'test',
    'test',
    'test',
  ]);
  expect(events.map(({ type }) => type).sort()).toEqual(['email.delivered', 'email.delivered', 'email.queued']);
});

test('addresses of the sandbox play their part', async () => {
  const queue = await startQueue();
  const bounced = await queue.send('Bounce+1@sandbox.invalid', TEST);
  expect((await queue.reaches(bounced, 'bounced')).last_reply).toMatch(/^550 5\.1\.1 /);
  const delivered = await queue.send('deliver@sandbox.invalid', TEST);
  await queue.reaches(delivered, 'captured');

  const deferred = await queue.send('defer@sandbox.invalid', TEST);
  expect((await queue.reaches(deferred, 'deferred')).last_reply).toMatch(/^451 4\.7\.1 /);
  await queue.whenDue(deferred);
  const { tries } = await queue.reaches(deferred, 'captured');
  expect(tries.map(({ outcome }) => outcome)).toEqual(['deferred', 'captured']);

  // A test does not change what live mail does, but for an address that is nobody's.
  expect(await listed(queue.store)).toEqual([]);
  const complained = await queue.send('complain@sandbox.invalid', TEST);
  await queue.reaches(complained, 'captured');
  expect(await queue.events(complained)).toEqual(['email.complained', 'email.delivered', 'email.queued']);
  expect(await listed(queue.store)).toEqual(['complain@sandbox.invalid complaint']);
  await queue.reaches(await queue.send('complain@sandbox.invalid', TEST), 'suppressed');
});

test('the list holds back what the tenant sends, but no lead from the owner of a form', async () => {
  const queue = await startQueue();
  await queue.store.write([suppress({ tenant: 'ten_a', address: 'no@x.example', reason: 'bounce', created_at: 1 })]);
  for (const [kind, state] of [
    ['transactional', 'suppressed'],
    ['acknowledgment', 'suppressed'],
    ['notification', 'captured'],
    ['system', 'captured'],
  ] as const) {
    const row = await queue.reaches(await queue.send('no@x.example', { ...TEST, kind }), state);
    expect([kind, row.state]).toEqual([kind, state]);
  }
});

test.each([
  ['transactional', '550 5.1.1 no such user', ['a@example.test bounce']],
  ['acknowledgment', '550 5.1.10 no such user', ['a@example.test bounce']],
  ['transactional', '550 5.7.1 we do not like you', []],
  ['transactional', '550 no such user', ['a@example.test bounce']],
  ['transactional', '550 Requested action not taken: mailbox unavailable', ['a@example.test bounce']],
  ['transactional', '550 5.1.1 IP address blacklisted', []],
  ['transactional', '550 5.1.1 rejected by policy', []],
  ['transactional', '552 5.2.2 mailbox full', []],
  ['notification', '550 5.1.1 no such user', []],
] as const)('a bounce of %s mail (%s) suppresses %j', async (kind, reply, expected) => {
  const peer = await startSmtpPeer({ script: { rcpt: reply } });
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  await queue.reaches(await queue.send('a@example.test', { kind }), 'bounced');
  expect(await listed(queue.store)).toEqual(expected);
});

test('a refusal before RCPT is about the sender, whatever it says', async () => {
  const peer = await startSmtpPeer({ script: { mail: '550 5.1.1 no such user' } });
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  await queue.reaches(await queue.send('a@example.test', { kind: 'transactional' }), 'bounced');
  expect(await listed(queue.store)).toEqual([]);
});
