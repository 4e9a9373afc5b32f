/** Several daemons share a queue, and one of them cannot reach what the others can. Runs on both databases. */
import { expect, test } from 'vitest';
import { NOBODY, type Batch, type Result, type Transport } from '../../src/queue/transport.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { startQueue } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

const PEER = { host: 'mx.test', address: '127.0.0.1', tls: null };

/** A network that works or does not, and what was tried in it. */
function network(clock: TestClock) {
  const tried: string[] = [];
  const state = { isDown: false };
  function resultOf({ recipients }: Batch): Result {
    if (state.isDown)
      return { ...NOBODY, kind: 'unreachable', reply: '451 4.4.1 no route to host', began: clock.monotonic() };
    const words = { outcome: 'delivered', cause: 'reply', reply: '250 ok', ...PEER } as const;
    return { kind: 'decided', recipients: recipients.map((recipient) => ({ recipient, ...words })) };
  }
  const transport: Transport = {
    send(destination, batches) {
      tried.push(destination);
      for (const batch of batches) void batch.begin().then(() => batch.done(resultOf(batch)));
    },
    capacity: () => 10,
    stop: () => Promise.resolve(),
  };
  return { tried, state, transport };
}

const hasOthers = () => true;

test('what one daemon cannot reach, another delivers a second later; the first leaves it alone for its own pause', async () => {
  const [store, clock] = [await openTestStore(), testClock()];
  const cut = network(clock);
  cut.state.isDown = true;
  const first = await startQueue({ store, clock, owner: 'first', transport: cut.transport, hasOthers });
  const message = await first.send('ann@one.test');
  await first.reaches(message, 'deferred');
  const works = network(clock);
  const second = await startQueue({ store, clock, owner: 'second', transport: works.transport, hasOthers });
  first.pass(1000);
  second.worker.wake();
  const { attempts } = await second.reaches(message, 'delivered');
  expect(attempts).toBe(2);
  const later = await second.send('bob@one.test');
  first.worker.wake();
  await second.reaches(later, 'delivered');
  expect(cut.tried).toEqual(['one.test']);
});

test('what two daemons cannot reach is paused for all', async () => {
  const [store, clock] = [await openTestStore(), testClock()];
  const [one, other] = [network(clock), network(clock)];
  one.state.isDown = true;
  other.state.isDown = true;
  const first = await startQueue({ store, clock, owner: 'first', transport: one.transport, hasOthers });
  const message = await first.send('ann@one.test');
  await first.reaches(message, 'deferred');
  const second = await startQueue({ store, clock, owner: 'second', transport: other.transport, hasOthers });
  first.pass(1000);
  second.worker.wake();
  await expect.poll(() => other.tried).toEqual(['one.test']);
  await expect.poll(() => second.log.map(({ event }) => event)).toContain('delivery.deferred');
  for (let i = 0; i < 5; i++) first.pass(5000);
  second.worker.wake();
  await first.worker.stop(0);
  await second.worker.stop(0);
  expect([...one.tried, ...other.tried]).toEqual(['one.test', 'one.test']);
});

test('a daemon that fails everywhere claims no more but one message from time to time, says so, and goes on when one is answered', async () => {
  const [store, clock] = [await openTestStore(), testClock()];
  const { tried, state, transport } = network(clock);
  const lost: string[] = [];
  const onNoRoute = (reply: string) => void lost.push(reply);
  const queue = await startQueue({ store, clock, transport, hasOthers, onNoRoute });
  const names = ['one.test', 'two.test', 'three.test', 'four.test', 'five.test'];
  for (const name of names) await queue.reaches(await queue.send(`ann@${name}`), 'delivered');
  expect(queue.worker.progress().hasRoute).toBe(true);

  state.isDown = true;
  for (const name of names.slice(0, 3)) await queue.reaches(await queue.send(`bob@${name}`), 'deferred');
  expect(lost).toEqual(['451 4.4.1 no route to host']);
  expect(queue.worker.progress().hasRoute).toBe(false);
  tried.length = 0;
  const left = [await queue.send('bob@four.test'), await queue.send('bob@five.test')];
  for (let i = 0; i < 5; i++) queue.pass(5000);
  expect(tried).toEqual([]);

  queue.pass(10_000);
  await expect.poll(() => tried.length).toBe(1);
  state.isDown = false;
  queue.pass(31_000);
  for (const message of left) await queue.reaches(message, 'delivered');
  expect(queue.worker.progress().hasRoute).toBe(true);
  const said = queue.log.map(({ event }) => event).filter((event) => /route/.test(event));
  expect(said).toEqual(['delivery.no_route', 'delivery.route_back']);
});
