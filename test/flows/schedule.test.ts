/** When mail is tried again, with the whole daemon on a clock of the test: to the minute what the configuration says. */
import { expect, onTestFinished, test } from 'vitest';
import type { Behaviour } from '../../src/dev/catching-mx.ts';
import { ask } from '../harness/binary.ts';
import { until } from '../harness/child.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** `delivery.retry` and `delivery.expire` at their defaults. */
const TABLE = [5, 10, 20, 40, 60, 60, 120, 120, 240, 240, 240, 360];
const EXPIRE = 120 * HOUR;

test('451 twice, then 250: three attempts at the times of the table, one mail', async () => {
  const { world, clock, post } = await startOnTestClock();
  let tries = 0;
  world.mx.behave(({ stage }) => (stage === 'data' && ++tries <= 2 ? LATER : undefined));
  const start = clock.now();
  await post();
  await attempts(world, 1);
  clock.advance(5 * MINUTE - 1);
  await quiet(world);
  expect(tries).toBe(1);
  clock.advance(1);
  await attempts(world, 2);
  clock.advance(10 * MINUTE - 1);
  await quiet(world);
  expect(tries).toBe(2);
  clock.advance(1);
  expect((await attempts(world, 3)).map(({ at, outcome, reply }) => [at - start, outcome, reply])).toEqual([
    [0, 'deferred', '451 4.7.1 try again later'],
    [5 * MINUTE, 'deferred', '451 4.7.1 try again later'],
    [15 * MINUTE, 'delivered', expect.stringMatching(/^250 /)],
  ]);
  expect(world.mx.mails.list()).toMatchObject([{ verdicts: { dkim: [{ result: 'pass' }] } }]);
});

test('a server that never takes it is tried by the table to its end, then every six hours, and given up once', async () => {
  const { world, clock, post } = await startOnTestClock();
  world.mx.behave(({ stage }) => (stage === 'rcpt' ? LATER : undefined));
  const start = clock.now();
  await post();
  const wanted = scheduled();
  for (let made = 1; made <= wanted.length; made++) {
    await attempts(world, made);
    clock.advance(start + (wanted[made] ?? EXPIRE) - clock.now());
  }
  await lookedThrough(world, async () => (await stateOf(world)) === 'expired');
  const made = await attempts(world, wanted.length);
  const tries = made.filter(({ outcome }) => outcome === 'deferred');
  expect(tries.map(({ at }) => at - start)).toEqual(wanted);
  expect(await events(world)).toEqual([...wanted.map(() => 'email.deferred'), 'email.bounced']);
  expect(world.mx.mails.list()).toEqual([]);
});

const LATER: Behaviour = { code: 451, text: '4.7.1 try again later' };

interface OnTestClock {
  readonly world: TestWorld;
  readonly clock: TestClock;
  readonly post: () => Promise<void>;
}

/** The daemon on a clock that stands still but for `advance`, without jitter. */
async function startOnTestClock(): Promise<OnTestClock> {
  const clock = testClock();
  let passing: NodeJS.Timeout | undefined;
  onTestFinished(() => clearInterval(passing));
  const world = await startTestWorld({ parts: { clock, random: () => 0.5 } });
  // Before the daemon ends: its stop takes time.
  onTestFinished(() => void (passing = setInterval(() => clock.advance(100), 1)));
  return { world, clock, post };

  async function post(): Promise<void> {
    const answer = await world.post('/example.test/contact', { message: 'Are you open on Friday?' });
    expect(answer.status).toBe(200);
  }
}

/** When tries are made of mail that nobody takes, ms after it was accepted. */
function scheduled(): number[] {
  const times: number[] = [];
  let at = 0;
  for (let i = 0; at < EXPIRE; i++) {
    times.push(at);
    at += (TABLE[Math.min(i, TABLE.length - 1)] ?? 0) * MINUTE;
  }
  return times;
}

/** Waits until this many attempts are written down, and nothing is being tried. */
async function attempts(world: TestWorld, count: number) {
  const read = () => world.daemon.store.read.selectFrom('attempts').selectAll().orderBy('number').execute();
  await lookedThrough(world, async () => (await read()).length >= count && (await stateOf(world)) !== 'sending');
  return read();
}

/** Waits until the queue was looked through at the new time: before that the daemon is not ready. */
function quiet(world: TestWorld): Promise<void> {
  return lookedThrough(world, async () => (await fetch(`${world.url}/readyz`)).status === 200);
}

/** Waits for what a look through the queue brings. Time may have moved just during the last one, and now it stands still. */
async function lookedThrough({ daemon }: TestWorld, done: () => Promise<boolean>): Promise<void> {
  await until('the queue is looked through', async () => {
    // What the operator does to any destination wakes the queue.
    const release = { path: '/admin/queue/release', method: 'POST', headers: { 'Content-Type': 'application/json' } };
    await ask({ ...release, socketPath: daemon.addresses?.socket }, JSON.stringify({ domain: 'nobody.test' }));
    return done();
  });
}

async function stateOf(world: TestWorld): Promise<string> {
  return (await world.queue())[0]?.state ?? 'none';
}

async function events(world: TestWorld): Promise<string[]> {
  const rows = await world.daemon.store.read
    .selectFrom('events')
    .select('type')
    .where('type', 'in', ['email.deferred', 'email.bounced', 'email.delivered'])
    .orderBy('created_at')
    .execute();
  return rows.map(({ type }) => type);
}
