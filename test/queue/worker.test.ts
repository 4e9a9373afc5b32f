/** What survives: crashes, stops, stores that fail, leases that are lost. Runs on both databases. */
import { describe, expect, test } from 'vitest';
import { enqueue, type NewMessage } from '../../src/queue/enqueue.ts';
import type { Transport, Batch, Source } from '../../src/queue/transport.ts';
import { resume } from '../../src/queue/operate.ts';
import { beginDeliveries, claimDeliveries, takeBackLeases } from '../../src/store/leases.ts';
import { recomputeDue } from '../../src/store/destinations.ts';
import { CHUNK_BYTES, findMessage } from '../../src/store/messages.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { suppress } from '../../src/store/suppressions.ts';
import { changeTenant } from '../../src/store/tenants.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';
import { mailDomain, newMessage, plainSource, startQueue, type TestQueue } from '../harness/queue.ts';
import { HANG, startSmtpPeer } from '../harness/smtp-peer.ts';
import { openTestStore } from '../harness/store.ts';

const MINUTE = 60_000;

/** A transport that keeps what it is given until the test says what became of it. */
function heldTransport(capacity = 10): {
  transport: Transport;
  batches: Batch[];
  stopped: Promise<void>;
  end: () => void;
} {
  const batches: Batch[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    batches,
    stopped: promise,
    end: resolve,
    transport: {
      send: (_, more) => void batches.push(...more),
      capacity: () => capacity,
      stop: () => Promise.resolve(resolve()),
    },
  };
}

function delivered(batch: Batch | undefined): Promise<void> | undefined {
  const peer = { host: 'mx.test', address: '127.0.0.1', tls: null };
  return batch?.done({
    kind: 'decided',
    recipients: batch.recipients.map((recipient) => ({
      recipient,
      outcome: 'delivered',
      cause: 'reply',
      reply: '250 ok',
      ...peer,
    })),
  });
}

/** Lets what is pending go on for a while. */
function aWhile(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
}

/** What a daemon left that died: mail to this address, claimed, begun or not; its next try was to be in ten minutes. */
async function leftByACrash(store: Store, clock: TestClock, begun: boolean): Promise<string> {
  const now = clock.now();
  const { id, unit } = enqueue(newMessage('you@example.test'), now);
  await store.write(unit);
  const claim = { destination: 'example.test', now, owner: 'the one before', until: now + MINUTE, limit: 1 };
  const [{ rows }] = await store.write([
    claimDeliveries({ ...claim, delays: `[${10 * MINUTE}]`, last_delay: 0 }),
    recomputeDue({ name: 'example.test' }),
  ]);
  const ids = rows.map((row) => row.id);
  if (begun) await store.write([beginDeliveries({ ids, owner: claim.owner })]);
  return id;
}

/** Starts where that daemon was; on PostgreSQL others cannot know that its leases are nobody's before they have run out. */
async function startAfterACrash(store: Store, clock: TestClock, port: number): Promise<TestQueue> {
  const now = clock.now();
  const queue = await startQueue({ store, clock, records: mailDomain('example.test'), port });
  if (store.dialect === 'postgres') {
    await expect.poll(() => queue.worker.progress().lookedAt).toBe(now);
    await aWhile();
    queue.pass(2 * MINUTE);
  }
  return queue;
}

test('what a crash left claimed is sent at once, and its try does not count', async () => {
  const peer = await startSmtpPeer();
  const [store, clock] = [await openTestStore(), testClock()];
  const id = await leftByACrash(store, clock, false);
  const queue = await startAfterACrash(store, clock, peer.port);
  const { tries } = await queue.reaches(id, 'delivered');
  expect(tries.map(({ number, outcome }) => [number, outcome])).toEqual([[1, 'delivered']]);
});

test('a try in the middle of which the daemon died counts, and is made again some seconds later', async () => {
  const peer = await startSmtpPeer();
  const [store, clock] = [await openTestStore(), testClock()];
  const id = await leftByACrash(store, clock, true);
  const queue = await startAfterACrash(store, clock, peer.port);
  expect(await queue.reaches(id, 'deferred')).toMatchObject({ attempts: 1, next_attempt_at: clock.now() + 5000 });
  expect(peer.connections().total).toBe(0);
  await queue.whenDue(id);
  const { tries } = await queue.reaches(id, 'delivered');
  expect(tries.map(({ number, outcome }) => [number, outcome])).toEqual([
    [1, 'interrupted'],
    [2, 'delivered'],
  ]);
  expect(peer.messages.length).toBe(1);
});

test('that a try begins is on the disk before anybody is dialled', async () => {
  const peer = await startSmtpPeer({ script: { greeting: HANG } });
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  const id = await queue.send('you@example.test');
  await expect.poll(() => peer.connections().total).toBe(1);
  expect((await queue.deliveries(id))['you@example.test']).toMatchObject({ state: 'sending', begun: 1 });
});

describe('a stop', () => {
  test('gives back what was not tried, and the next start delivers it at once', async () => {
    const peer = await startSmtpPeer({ script: { rcpt: HANG } });
    const first = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const messages = [];
    for (let i = 0; i < 6; i++) messages.push(await first.send(`u${i}@example.test`));
    await expect.poll(() => peer.lines.filter((line) => line.startsWith('RCPT')).length).toBe(2);
    await first.worker.stop(20);
    expect(first.worker.progress()).toMatchObject({ claimed: 0 });
    await expect.poll(() => peer.connections().open).toBe(0);
    for (const message of messages) await first.reaches(message, 'queued');

    peer.script({});
    const { store, clock } = first;
    const second = await startQueue({
      store,
      clock,
      records: mailDomain('example.test'),
      port: peer.port,
      owner: 'second',
    });
    for (const message of messages) {
      const { tries, attempts } = await second.reaches(message, 'delivered');
      expect([attempts, tries.length]).toEqual([1, 1]);
    }
    expect(peer.messages.length).toBe(6);
  });

  test('after the message has left counts the try, because it may have arrived', async () => {
    const peer = await startSmtpPeer({ script: { final: HANG } });
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const start = queue.clock.now();
    const message = await queue.send('you@example.test');
    await expect.poll(() => peer.lines.includes('DATA')).toBe(true);
    await aWhile();
    await queue.worker.stop(20);
    const { tries } = await queue.reaches(message, 'deferred');
    expect(tries).toMatchObject([{ number: 1, outcome: 'interrupted' }]);
    expect((await queue.deliveries(message))['you@example.test']).toMatchObject({
      next_attempt_at: start + 5 * MINUTE,
    });
  });

  test('waits for what is on its way', async () => {
    const peer = await startSmtpPeer({ script: { final: { reply: '250 2.0.0 taken', afterMs: 100 } } });
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const message = await queue.send('you@example.test');
    await expect.poll(() => peer.lines.includes('DATA')).toBe(true);
    await queue.worker.stop(5000);
    await queue.reaches(message, 'delivered');
  });
});

/** Fails as a full disk does while `isFull`. */
function filling(store: Store): { store: Store; disk: { isFull: boolean; refused: number } } {
  const disk = { isFull: false, refused: 0 };
  const write: Store['write'] = (unit) => {
    if (!disk.isFull) return store.write(unit);
    disk.refused += 1;
    return Promise.reject(new StoreError('database or disk is full', 'SQLITE_FULL'));
  };
  return { store: { ...store, write }, disk };
}

describe('a store that cannot write', () => {
  test('gets the end of a delivery as soon as it can, and the message is sent once', async () => {
    const { store, disk } = filling(await openTestStore());
    const peer = await startSmtpPeer({ script: { final: () => void (disk.isFull = true) } });
    const queue = await startQueue({ store, records: mailDomain('example.test'), port: peer.port });
    const message = await queue.send('you@example.test');
    await expect.poll(() => disk.refused).toBeGreaterThan(0);
    await queue.reaches(message, 'sending');
    disk.isFull = false;
    for (let i = 0; i < 3; i++) {
      queue.pass(1000);
      await aWhile();
    }
    await queue.reaches(message, 'delivered');
    expect(peer.messages.length).toBe(1);
    expect(queue.log.filter(({ event }) => event === 'delivery.unwritten').length).toBe(1);
  });

  test('claims nothing, says why, and goes on by itself', async () => {
    const { store, disk } = filling(await openTestStore());
    const peer = await startSmtpPeer();
    const queue = await startQueue({ store, records: mailDomain('example.test'), port: peer.port });
    await expect.poll(() => queue.worker.progress().lookedAt).toBe(queue.clock.now());
    const { id, unit } = enqueue(newMessage('you@example.test'), queue.clock.now());
    await store.write(unit);
    disk.isFull = true;
    queue.worker.wake();
    await expect.poll(() => queue.worker.progress().fault).toBe('database or disk is full');
    expect(peer.connections().total).toBe(0);
    // What it tries in vain it does try: nobody may take it for stuck.
    const { lookedAt } = queue.worker.progress();
    queue.pass(1000);
    await expect.poll(() => queue.worker.progress().triedAt).toBe(queue.clock.monotonic());
    expect(queue.worker.progress().lookedAt).toBe(lookedAt);
    disk.isFull = false;
    queue.pass(1000);
    await queue.reaches(id, 'delivered');
    expect(queue.worker.progress().fault).toBeUndefined();
  });
});

test('a lease that somebody else took over decides nothing any more', async () => {
  const held = heldTransport();
  const queue = await startQueue({ transport: held.transport });
  const message = await queue.send('you@example.test');
  await expect.poll(() => held.batches.length).toBe(1);
  expect(await held.batches[0]?.begin()).toBe(true);
  await queue.store.write([recomputeDue({ name: 'example.test' })]);
  await takeBackLeases(queue.store, Number.MAX_SAFE_INTEGER, queue.clock.now());
  await delivered(held.batches[0]);
  await queue.reaches(message, 'deferred');
  expect(queue.log.map(({ event }) => event)).toContain('delivery.lease_lost');
  expect(queue.worker.progress().claimed).toBe(0);
});

test('leases are renewed; where that fails and others may take over, nothing leaves any more', async () => {
  const { store, disk } = filling(await openTestStore());
  const held = heldTransport();
  const queue = await startQueue({ store, transport: held.transport });
  const message = await queue.send('you@example.test');
  await expect.poll(() => held.batches.length).toBe(1);
  for (let i = 0; i < 6; i++) {
    queue.pass(25_000);
    await expect.poll(() => queue.worker.progress().lookedAt).toBe(queue.clock.now());
  }
  expect(held.batches[0]?.mayLeave()).toBe(true);
  await queue.reaches(message, 'sending');
  disk.isFull = true;
  queue.pass(46_000);
  await aWhile();
  // On SQLite there is nobody else.
  expect(held.batches[0]?.mayLeave()).toBe(store.dialect === 'sqlite');
  disk.isFull = false;
  queue.pass(1000);
  await expect.poll(() => held.batches[0]?.mayLeave()).toBe(true);
});

test('messages arrive once each, however many daemons share the database', async () => {
  const peer = await startSmtpPeer();
  const store = await openTestStore();
  const clock = testClock();
  const records = ['a.test', 'b.test', 'c.test'].flatMap((name) => mailDomain(name));
  // A second one on the same SQLite file is kept out by its lock.
  const owners = store.dialect === 'sqlite' ? ['one'] : ['one', 'two', 'three'];
  const queues = await Promise.all(
    owners.map((owner) => startQueue({ store, clock, records, port: peer.port, owner })),
  );
  const units = Array.from(
    { length: 300 },
    (_, i) => enqueue(newMessage(`u${i}@${'abc'[i % 3]}.test`), clock.now()).unit,
  );
  await Promise.all(units.map((unit) => store.write(unit)));
  for (const { worker } of queues) worker.wake();
  await expect.poll(() => peer.messages.length).toBe(300);
  expect(new Set(peer.messages.map(({ to }) => to[0])).size).toBe(300);
  const attempts = () => store.read.selectFrom('attempts').select(['number', 'outcome']).execute();
  await expect.poll(async () => (await attempts()).length).toBe(300);
  expect((await attempts()).every(({ number, outcome }) => number === 1 && outcome === 'delivered')).toBe(true);
});

test('a claim whose commit only seemed to fail is found and given back', async () => {
  const store = await openTestStore();
  let lie = true;
  const write: Store['write'] = async (unit) => {
    const results = await store.write(unit);
    if (lie && unit.length === 2) {
      lie = false;
      throw new StoreError('connection lost', 'ECONNRESET');
    }
    return results;
  };
  const peer = await startSmtpPeer();
  const { id, unit } = enqueue(newMessage('you@example.test'), testClock().now());
  await store.write(unit);
  const records = mailDomain('example.test');
  const queue = await startQueue({ store: { ...store, write }, records, port: peer.port });
  await expect.poll(() => queue.worker.progress().fault).toBe('connection lost');
  await queue.reaches(id, 'sending');
  for (let i = 0; i < 3; i++) {
    queue.pass(30_000);
    await aWhile();
  }
  expect(await queue.reaches(id, 'delivered')).toMatchObject({ attempts: 1 });
});

describe('the bytes of a message', () => {
  test('are rendered once for several destinations, and all get the same', async () => {
    const peer = await startSmtpPeer();
    const source = plainSource();
    const records = ['a.test', 'b.test', 'c.test'].flatMap((name) => mailDomain(name));
    const queue = await startQueue({ records, port: peer.port, source });
    const message = await queue.send(['x@a.test', 'x@b.test', 'x@c.test', 'y@c.test']);
    await queue.reaches(message, 'delivered');
    expect(peer.messages.length).toBe(3);
    expect(new Set(peer.messages.map(({ data }) => data)).size).toBe(1);
    expect(source.made).toBe(1);
    expect(await findMessage(queue.store, message)).toMatchObject({ body: 'stored', sender: 'b+1@mail.example.net' });
  });

  test('that are many pass through the store in pieces', async () => {
    const line = `${'x'.repeat(70)}\r\n`;
    const text = `Subject: large\r\n\r\n${line.repeat(Math.ceil((3 * CHUNK_BYTES) / line.length))}`;
    const peer = await startSmtpPeer();
    const source = plainSource({ content: [Buffer.from(text)] });
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, source });
    const message = await queue.send('you@example.test');
    await queue.reaches(message, 'delivered');
    expect(`${peer.messages[0]?.data}\r\n` === text).toBe(true);
    expect(await findMessage(queue.store, message)).toMatchObject({ body: 'stored', size: text.length });
  });

  test('that were never shown to anybody are not stored', async () => {
    const peer = await startSmtpPeer({ script: { greeting: '450 4.3.2 not now' } });
    const source = plainSource();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, source });
    const message = await queue.send('you@example.test');
    await queue.reaches(message, 'deferred');
    expect(await findMessage(queue.store, message)).toMatchObject({ body: 'none' });
    expect(source.made).toBe(0);
  });

  test.each<[string, Source['prepare'], string, RegExp]>([
    [
      'cannot be made',
      () => Promise.resolve({ kind: 'unrenderable', reason: 'nothing there' }),
      'bounced',
      /^550 5\.6\.0 nothing there$/,
    ],
    ['cannot be made now', () => Promise.reject(new Error('no key')), 'deferred', /^451 4\.3\.0 /],
  ])('that %s', async (_, prepare, state, reply) => {
    const peer = await startSmtpPeer();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, source: { prepare } });
    const message = await queue.send('you@example.test');
    await expect.poll(async () => (await queue.deliveries(message))['you@example.test']?.state).toBe(state);
    expect((await queue.deliveries(message))['you@example.test']?.last_reply).toMatch(reply);
    expect(peer.messages).toEqual([]);
  });

  test('that cannot be made because the database is away is sent when it is back, and no attempt is counted', async () => {
    const peer = await startSmtpPeer();
    const plain = plainSource();
    let isAway = true;
    const prepare: Source['prepare'] = (message) =>
      isAway ? Promise.reject(new StoreError('shutting down', '57P01')) : plain.prepare(message);
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, source: { prepare } });
    const message = await queue.send('you@example.test');
    await queue.reaches(message, 'deferred');
    isAway = false;
    queue.pass(2000);
    const { attempts, tries } = await queue.reaches(message, 'delivered');
    expect([attempts, tries.length]).toEqual([1, 1]);
  });
});

test('a suppressed address gets nothing, the others do', async () => {
  const peer = await startSmtpPeer();
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  await queue.store.write([suppress({ tenant: 'ten_a', address: 'no@example.test', reason: 'bounce', created_at: 1 })]);
  const message = await queue.send(['No@example.test', 'yes@example.test'], { kind: 'transactional' });
  await expect
    .poll(async () =>
      Object.values(await queue.deliveries(message))
        .map(({ state }) => state)
        .toSorted(),
    )
    .toEqual(['delivered', 'suppressed']);
  expect(peer.messages.map(({ to }) => to)).toEqual([['yes@example.test']]);
  expect(await queue.events(message)).toEqual(['email.delivered', 'email.queued', 'email.suppressed']);
});

describe('mail of a suspended tenant', () => {
  test('waits without a try, whatever it is, and leaves when the tenant is served again', async () => {
    const peer = await startSmtpPeer();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const { tenant } = await testKey(queue.store, { account: { suspended: 1 } });
    const message = await queue.send('you@example.test', { tenant });
    const other = await queue.send('me@example.test');
    await queue.reaches(other, 'delivered');
    const waiting = await queue.reaches(message, 'deferred');
    expect(waiting).toMatchObject({
      last_reply: '451 4.7.1 the account is suspended: its mail waits',
      attempts: 0,
      tries: [],
    });
    expect(peer.messages.map(({ to }) => to)).toEqual([['me@example.test']]);
    await queue.store.write(changeTenant(tenant, { suspended: false }));
    await resume(queue.store, tenant, queue.clock.now());
    queue.worker.wake();
    expect(await queue.reaches(message, 'delivered')).toMatchObject({ attempts: 1 });
    expect(peer.messages).toHaveLength(2);
  });

  test('that is claimed and waits for a connection is not sent, and one that is being made carries nothing', async () => {
    const peer = await startSmtpPeer({ script: { rcpt: { reply: '250 2.1.5 ok', afterMs: 3000 } } });
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const { tenant } = await testKey(queue.store);
    const messages: string[] = [];
    for (let i = 0; i < 4; i++) messages.push(await queue.send(`u${i}@example.test`, { tenant }));
    await expect.poll(() => peer.lines.filter((line) => line.startsWith('RCPT')).length).toBe(2);
    await queue.store.write(changeTenant(tenant, { suspended: true }));
    queue.worker.wake();
    // What is given back is claimed at the next look, within five seconds of the clock that stands still here.
    async function states() {
      queue.worker.wake();
      const all = await Promise.all(messages.map((message) => queue.deliveries(message)));
      return all.flatMap((each) => Object.values(each).map(({ state }) => state));
    }
    await expect.poll(states, { interval: 200 }).toEqual(messages.map(() => 'deferred'));
    for (const message of messages) {
      expect(await queue.reaches(message, 'deferred')).toMatchObject({ attempts: 0, tries: [] });
    }
    expect(peer.messages).toEqual([]);
  });

  test('expires as any other', async () => {
    const peer = await startSmtpPeer();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const { tenant } = await testKey(queue.store, { account: { suspended: 1 } });
    const message = await queue.send('you@example.test', { tenant, ttl: 2 * 3_600_000 });
    await queue.reaches(message, 'deferred');
    const state = async () => {
      queue.pass(10 * MINUTE);
      return (await queue.deliveries(message))['you@example.test']?.state;
    };
    await expect.poll(state, { interval: 20 }).toBe('expired');
    expect(await queue.reaches(message, 'expired')).toMatchObject({ attempts: 0 });
    expect(peer.messages).toEqual([]);
  });
});

describe('from a long queue', () => {
  /** Who is among the first `count` that are sent of what `parts` enqueue, each a millisecond after the one before. */
  async function firstServed(
    count: number,
    parts: readonly { readonly to: readonly string[]; readonly more?: Partial<NewMessage> }[],
  ): Promise<string[]> {
    const held = heldTransport(12);
    const store = await openTestStore();
    const clock = testClock();
    for (const { to, more } of parts) {
      for (const address of to) await store.write(enqueue(newMessage(address, more), clock.now()).unit);
      clock.advance(1);
    }
    await startQueue({ store, clock, transport: held.transport });
    const served: string[] = [];
    for (let i = 0; i < count; i++) {
      await expect.poll(() => held.batches.length).toBeGreaterThan(0);
      const batch = held.batches.shift();
      served.push(batch?.recipients[0]?.address ?? '');
      await delivered(batch);
    }
    return served;
  }

  function addresses(name: string, count: number): string[] {
    return Array.from({ length: count }, (_, i) => `${name}${i}@example.test`);
  }

  test('tenants are served in turn', async () => {
    const served = await firstServed(24, [
      { to: addresses('a', 60), more: { tenant: 'ten_a' } },
      { to: ['b@example.test'], more: { tenant: 'ten_b' } },
      { to: ['c@example.test'], more: { tenant: 'ten_c' } },
      { to: addresses('late', 60), more: { tenant: 'ten_a' } },
    ]);
    expect(served).toContain('b@example.test');
    expect(served).toContain('c@example.test');
  });

  test('forms of a tenant are served in turn', async () => {
    const served = await firstServed(48, [
      { to: addresses('a', 60), more: { form: 'site/a' } },
      { to: ['b@example.test'], more: { form: 'site/b' } },
      { to: ['c@example.test'], more: { form: 'site/c' } },
      { to: addresses('late', 60), more: { form: 'site/a' } },
    ]);
    expect(served).toContain('b@example.test');
    expect(served).toContain('c@example.test');
  });

  test('bulk waits for other mail, and goes on all the same', async () => {
    const served = await firstServed(48, [
      { to: addresses('bulk', 60), more: { kind: 'forward' } },
      { to: addresses('lead', 60), more: { tenant: 'ten_b' } },
      { to: addresses('late', 60), more: { kind: 'forward' } },
    ]);
    const [leads, bulk] = ['lead', 'bulk'].map((name) => served.filter((address) => address.startsWith(name)).length);
    expect(leads).toBeGreaterThan(bulk ?? 0);
    expect(bulk).toBeGreaterThan(5);
  });

  test('what comes last does not wait for all that came before', async () => {
    const served = await firstServed(24, [{ to: addresses('a', 100) }, { to: ['fresh@example.test'] }]);
    expect(served).toContain('fresh@example.test');
  });
});

/** A store with mail for so many destinations that nobody has tried. */
async function openWithFirstContacts(store: Store, count: number, tenant = 'ten_a', at = 0): Promise<void> {
  const units = Array.from(
    { length: count },
    (_, i) => enqueue(newMessage(`u@${tenant.slice(4)}${i}.test`, { tenant }), at).unit,
  );
  await Promise.all(units.map((unit) => store.write(unit)));
}

describe('destinations that do not answer', () => {
  // `delivery.concurrency` 4: at most 80 of them at a time.
  const delivery = { concurrency: 4 };
  const names = (batches: readonly Batch[]) => batches.map(({ destination }) => destination);

  test('leave half of the room to another tenant, whose first contact begins at once', async () => {
    const held = heldTransport();
    const store = await openTestStore();
    const clock = testClock();
    await openWithFirstContacts(store, 200, 'ten_a', clock.now() - 1);
    const queue = await startQueue({ store, clock, transport: held.transport, delivery });
    await expect.poll(() => held.batches.length).toBe(40);
    await expect.poll(() => held.batches.every((batch) => batch.isPressed())).toBe(true);
    await queue.send('you@new.test', { tenant: 'ten_b' });
    await expect.poll(() => names(held.batches)).toContain('new.test');
    // Only who has all that he may have is to hurry.
    expect(held.batches.find(({ destination }) => destination === 'new.test')?.isPressed()).toBe(false);
    expect(held.batches.length).toBe(41);
  });

  test('are not hurried while nobody waits', async () => {
    const held = heldTransport();
    const store = await openTestStore();
    const clock = testClock();
    await openWithFirstContacts(store, 30, 'ten_a', clock.now());
    await startQueue({ store, clock, transport: held.transport, delivery });
    await expect.poll(() => held.batches.length).toBe(30);
    expect(held.batches.some((batch) => batch.isPressed())).toBe(false);
  });

  test('leave room to the first contacts of the same tenant when they are tried again', async () => {
    const held = heldTransport();
    const store = await openTestStore();
    const clock = testClock();
    await openWithFirstContacts(store, 60, 'ten_a', clock.now());
    const queue = await startQueue({ store, clock, transport: held.transport, delivery });
    const nobody = { host: null, address: null, tls: null };
    for (let i = 0; i < 60; i++) {
      await expect.poll(() => held.batches.length).toBeGreaterThan(0);
      await held.batches.shift()?.done({ kind: 'unreachable', reply: '421 4.4.2 silent', began: 0, ...nobody });
    }
    await expect.poll(() => queue.worker.progress().claimed).toBe(0);
    queue.pass(2 * MINUTE);
    await expect.poll(() => held.batches.length).toBe(40);
    await queue.send('you@new.test');
    await expect.poll(() => names(held.batches)).toContain('new.test');
  });

  test('have no part in what those get that do, also after a restart', async () => {
    const first = heldTransport();
    const store = await openTestStore();
    const clock = testClock();
    const before = await startQueue({ store, clock, transport: first.transport, delivery });
    await before.send('you@healthy.test');
    await expect.poll(() => first.batches.length).toBe(1);
    expect(first.batches[0]?.isProven).toBe(false);
    await delivered(first.batches[0]);
    await before.worker.stop(0);

    const held = heldTransport(20);
    for (const tenant of ['ten_a', 'ten_b', 'ten_c', 'ten_d', 'ten_e'])
      await openWithFirstContacts(store, 50, tenant, clock.now() - 1);
    const queue = await startQueue({ store, clock, transport: held.transport, delivery, owner: 'second' });
    await expect.poll(() => held.batches.length).toBeGreaterThan(60);
    for (let i = 0; i < 4; i++) await queue.send('you@healthy.test');
    const healthy = () => held.batches.filter(({ destination }) => destination === 'healthy.test');
    await expect.poll(() => healthy().length).toBe(4);
    expect(healthy().every(({ isProven }) => isProven)).toBe(true);
  });
});

test('what is claimed is bounded', async () => {
  const held = heldTransport(3000);
  const store = await openTestStore();
  const clock = testClock();
  const queue = await startQueue({ store, clock, transport: held.transport });
  await queue.send('you@healthy.test');
  await expect.poll(() => held.batches.length).toBe(1);
  await delivered(held.batches[0]);
  const units = Array.from({ length: 3000 }, (_, i) => enqueue(newMessage(`u${i}@healthy.test`), clock.now()).unit);
  await Promise.all(units.map((unit) => store.write(unit)));
  queue.worker.wake();
  await expect.poll(() => queue.worker.progress().claimed).toBe(2000);
});
