/** What follows from mail that never arrives is written with its end, and once. Runs on both databases. */
import { describe, expect, test } from 'vitest';
import type { Failure, OnFailure } from '../../src/queue/transport.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { suppress } from '../../src/store/suppressions.ts';
import { mailDomain, startQueue, type TestQueue } from '../harness/queue.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';
import { openTestStore } from '../harness/store.ts';

const HOUR = 3_600_000;

/** Marks each failure with a row of its own, so that a test sees how often that was committed. */
function marking(): { failures: Failure[]; onFailure: OnFailure } {
  const failures: Failure[] = [];
  return {
    failures,
    onFailure(failure) {
      failures.push(failure);
      const address = `${failures.length}@marked.test`;
      const mark = suppress({ tenant: 'marks', address, reason: 'manual', created_at: failure.at });
      return Promise.resolve({ unit: [mark], data: { noted: failure.recipients.length } });
    },
  };
}

async function marksOf({ store }: TestQueue): Promise<number> {
  return (await store.read.selectFrom('suppressions').select('address').where('tenant', '=', 'marks').execute()).length;
}

async function bouncesOf({ store }: TestQueue, message: string): Promise<Record<string, unknown>[]> {
  const rows = await store.read
    .selectFrom('events')
    .select('data')
    .where('message', '=', message)
    .where('type', 'in', ['email.bounced', 'email.suppressed'])
    .execute();
  return rows.map(({ data }) => JSON.parse(data) as Record<string, unknown>);
}

describe('a failure', () => {
  test('of some of the recipients at a server', async () => {
    const peer = await startSmtpPeer({
      script: { rcpt: ({ line }) => (line.includes('gone') ? '550 5.1.1 no such user' : '250 ok') },
    });
    const { failures, onFailure } = marking();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, onFailure });
    const id = await queue.send(['gone1@example.test', 'here@example.test', 'gone2@example.test']);
    await expect.poll(async () => (await bouncesOf(queue, id)).length).toBe(2);
    expect(failures).toMatchObject([{ message: { id }, at: queue.clock.now() }]);
    const words = { reply: '550 5.1.1 no such user', host: 'mx.example.test', class: 'no_mailbox' };
    expect(failures[0]?.recipients.toSorted((a, b) => (a.address < b.address ? -1 : 1))).toEqual([
      { address: 'gone1@example.test', ...words },
      { address: 'gone2@example.test', ...words },
    ]);
    expect(await bouncesOf(queue, id)).toMatchObject([{ noted: 2 }, { noted: 2 }]);
    expect(await marksOf(queue)).toBe(1);
  });

  test('of mail whose time is over', async () => {
    const peer = await startSmtpPeer({ script: { rcpt: '451 4.7.1 later' } });
    const { failures, onFailure } = marking();
    const options = { records: mailDomain('example.test'), port: peer.port, onFailure };
    const queue = await startQueue({ ...options, delivery: { retry: ['1h'] } });
    const id = await queue.send(['a@example.test', 'b@example.test'], { ttl: HOUR / 2 });
    await queue.reaches(id, 'deferred');
    queue.pass(HOUR * 0.75);
    await queue.reaches(id, 'expired');
    const reply = '550 4.4.7 given up after 1 attempt; last reply: 451 4.7.1 later';
    const words = { reply: expect.stringContaining(reply), host: null, class: 'policy' };
    expect(failures).toHaveLength(1);
    expect(failures[0]?.recipients.toSorted((a, b) => (a.address < b.address ? -1 : 1))).toEqual([
      { address: 'a@example.test', ...words },
      { address: 'b@example.test', ...words },
    ]);
    expect(await bouncesOf(queue, id)).toMatchObject([{ noted: 2 }, { noted: 2 }]);
    expect(await marksOf(queue)).toBe(1);
  });

  test('of mail that its recipient does not want', async () => {
    const { failures, onFailure } = marking();
    const queue = await startQueue({ onFailure });
    await queue.store.write([
      suppress({ tenant: 'ten_a', address: 'a@example.test', reason: 'complaint', created_at: 1 }),
    ]);
    await queue.reaches(await queue.send('a@example.test', { kind: 'forward' }), 'suppressed');
    expect(failures).toMatchObject([{ recipients: [{ address: 'a@example.test', host: null }] }]);
    expect(await marksOf(queue)).toBe(1);
  });

  test('is written once though the store could not at first', async () => {
    const store = await openTestStore();
    let broken = 2;
    const failing: Store = {
      ...store,
      async write(unit) {
        if (unit.some(({ values }) => 'address' in values) && broken-- > 0)
          throw new StoreError('disk full', 'SQLITE_FULL');
        return store.write(unit);
      },
    };
    const peer = await startSmtpPeer({ script: { rcpt: '550 5.1.1 no such user' } });
    const { failures, onFailure } = marking();
    const options = { records: mailDomain('example.test'), port: peer.port, onFailure };
    const queue = await startQueue({ ...options, store: failing });
    const id = await queue.send('gone@example.test');
    await expect
      .poll(async () => {
        queue.pass(1000);
        return (await bouncesOf(queue, id)).length;
      })
      .toBe(1);
    expect(failures).toHaveLength(3);
    expect(await marksOf(queue)).toBe(1);
  });

  test('is nobody’s where the mail arrives or may yet arrive', async () => {
    const peer = await startSmtpPeer({
      script: { rcpt: ({ line }) => (line.includes('later') ? '451 4.7.1 later' : '250 ok') },
    });
    const { failures, onFailure } = marking();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, onFailure });
    await queue.reaches(await queue.send('here@example.test'), 'delivered');
    await queue.reaches(await queue.send('later@example.test'), 'deferred');
    expect(failures).toEqual([]);
  });
});
