/** The delivery thread is there while there is something to deliver, and for a minute after. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createDeliveryMetrics } from '../../src/http/metrics.ts';
import { deliverInThread } from '../../src/daemon/delivery-remote.ts';
import { silentLog } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';
import { configOf } from '../harness/queue.ts';

const LISTENING = { smtp: undefined, http: [] };
const counted = createDeliveryMetrics();
counted.counted({ outcome: 'delivered', receiver: 'other', age: 5 });
const DELIVERED_ONE = await counted.read();

/** Delivery with threads that only say what happens to them; `queued`: whether something is to be delivered. */
async function delivery() {
  const clock = testClock();
  const happened: string[] = [];
  const state = { queued: false, ending: Promise.resolve() };
  const opened = await deliverInThread({
    clock,
    log: silentLog,
    server: configOf({}),
    isNeeded: async () => state.queued,
    start({ server }) {
      happened.push(`start with ${server.delivery.concurrency}`);
      return {
        wake: () => void happened.push('wake'),
        configure: ({ delivery: { concurrency } }) => void happened.push(`configure ${concurrency}`),
        problem: () => undefined,
        isStuck: () => false,
        metrics: () => DELIVERED_ONE,
        async stop() {
          happened.push('stop');
          await state.ending;
        },
      };
    },
  });
  onTestFinished(() => opened.stop(0));

  async function pass(seconds: number): Promise<void> {
    for (let i = 0; i < seconds; i += 5) {
      clock.advance(5000);
      await turn();
    }
  }

  async function delivered(): Promise<unknown> {
    const reading = await opened.metrics();
    return reading.find(({ name }) => name === 'postern_deliveries_total')?.values[0]?.value;
  }

  return { ...opened, state, happened, pass, delivered };
}

test('it is started when the daemon listens and something is to be delivered, not before', async () => {
  const { state, happened, wake, setListening, pass } = await delivery();
  wake();
  await pass(10);
  expect(happened).toEqual([]);
  setListening(LISTENING);
  await pass(10);
  expect(happened).toEqual([]);
  // By another daemon, which says nothing.
  state.queued = true;
  await pass(5);
  expect(happened).toEqual(['start with 100']);
});

test('it runs while something is to be delivered, ends a minute after, and is started again', async () => {
  const { state, happened, wake, setListening, pass, delivered } = await delivery();
  setListening(LISTENING);
  expect(await delivered()).toBeUndefined();
  wake();
  wake();
  expect(happened.splice(0)).toEqual(['start with 100', 'wake']);
  state.queued = true;
  await pass(600);
  expect(happened).toEqual([]);
  state.queued = false;
  await pass(50);
  expect(happened).toEqual([]);
  await pass(15);
  expect(happened.splice(0)).toEqual(['stop']);
  expect(await delivered()).toBe(1);
  wake();
  expect(happened).toEqual(['start with 100']);
  // Counters go on.
  expect(await delivered()).toBe(2);
});

test('what comes while it ends is delivered by the next', async () => {
  const { state, happened, wake, setListening, pass } = await delivery();
  setListening(LISTENING);
  wake();
  const ended = Promise.withResolvers<void>();
  state.ending = ended.promise;
  await pass(65);
  expect(happened.splice(0)).toEqual(['start with 100', 'stop']);
  wake();
  expect(happened).toEqual([]);
  ended.resolve();
  await turn();
  expect(happened).toEqual(['start with 100']);
});

test('it has the configuration of now, whether it ran when that changed or not', async () => {
  const { happened, wake, setListening, configure } = await delivery();
  setListening(LISTENING);
  configure(configOf({ delivery: { concurrency: 7 } }));
  expect(happened).toEqual([]);
  wake();
  configure(configOf({ delivery: { concurrency: 8 } }));
  expect(happened).toEqual(['start with 7', 'configure 8']);
});

test('a stop ends it, and nothing starts it again', async () => {
  const { happened, wake, setListening, stop, pass } = await delivery();
  setListening(LISTENING);
  wake();
  await stop(0);
  wake();
  await pass(10);
  expect(happened).toEqual(['start with 100', 'stop']);
});
