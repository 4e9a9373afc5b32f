/** Jobs run by the monotonic clock: what the wall clock does neither stops one nor runs one twice. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startJobs, watchClock } from '../../src/daemon/jobs.ts';
import { silentLog, type Fields } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';

const HOUR = 3_600_000;

function start(jobs: Record<string, () => Promise<void>>) {
  const clock = testClock();
  const lines: [string, Fields | undefined][] = [];
  const log = {
    ...silentLog,
    warn: (event: string, fields?: Fields) => lines.push([event, fields]),
    error: (event: string, fields?: Fields) => lines.push([event, fields]),
  };
  const all = { clock: watchClock({ clock, log, isBehind: async () => false, onStepBack: async () => undefined }) };
  const end = startJobs({ clock, log, jobs: { ...all, ...jobs } });
  onTestFinished(end);
  return { clock, lines, end };
}

test.for([
  ['an hour back', -HOUR],
  ['a day forward, as a machine that was suspended', 24 * HOUR],
] as const)('the wall clock steps %s: one warning, and each job goes on, once every ten seconds', async ([, by_ms]) => {
  let runs = 0;
  const { clock, lines } = start({ count: async () => void runs++ });
  await turn();
  expect(runs).toBe(1);
  clock.step(by_ms);
  await turn();
  expect(runs).toBe(1);
  for (let tick = 2; tick <= 5; tick++) {
    clock.advance(10_000);
    await turn();
    expect(runs).toBe(tick);
  }
  expect(lines).toEqual([['clock.stepped', { by_ms }]]);
});

test('a clock that NTP corrects as it goes has not stepped', async () => {
  const { clock, lines } = start({});
  for (let i = 0; i < 5; i++) {
    clock.advance(10_000);
    clock.step(-1000);
    await turn();
  }
  expect(lines).toEqual([]);
});

test('a job that still runs is not started again; one that fails is told of, and runs again', async () => {
  let slow = 0;
  let failed = 0;
  const { clock, lines, end } = start({
    slow: () => new Promise(() => slow++),
    failing: async () => {
      failed++;
      throw new Error('no luck');
    },
  });
  for (let i = 0; i < 3; i++) {
    await turn();
    clock.advance(10_000);
  }
  await turn();
  expect({ slow, failed }).toEqual({ slow: 1, failed: 4 });
  expect(lines[0]).toEqual(['job.failed', expect.objectContaining({ job: 'failing', error: 'no luck' })]);
  await end();
  clock.advance(10_000);
  await turn();
  expect(failed).toBe(4);
});

test.for([
  ['stepped back while the daemon ran', { step: -HOUR, behind: false, calls: 1 }],
  ['was set back while no daemon ran', { step: 0, behind: true, calls: 1 }],
  ['stepped forward', { step: HOUR, behind: false, calls: 0 }],
  ['is as it was', { step: 0, behind: false, calls: 0 }],
] as const)(
  'due times are pulled back once, again only where that failed: the clock %s',
  async ([, { step, behind, calls }]) => {
    const clock = testClock();
    let tried = 0;
    const watch = watchClock({
      clock,
      log: silentLog,
      isBehind: async () => behind,
      onStepBack: async () => {
        if (++tried === 1) throw new Error('the database is away');
      },
    });
    clock.step(step);
    const first = watch();
    if (calls === 0) await first;
    else await expect(first).rejects.toThrow('away');
    for (let i = 0; i < 3; i++) await watch();
    expect(tried).toBe(calls * 2);
  },
);
