/** The simulation of bench/simulate, with the costs that are checked in. */
import { expect, test } from 'vitest';
import { predictions, TOLERANCE } from '../../bench/simulate/check.ts';
import { simulate, type Inputs, type Size } from '../../bench/simulate/day.ts';
import { readAssumptions, readCosts } from '../../bench/simulate/inputs.ts';
import { shared } from '../../bench/simulate/model.ts';
import { createRandom } from '../../bench/simulate/random.ts';

const DAY = 86_400;
const inputs: Inputs = {
  costs: readCosts(),
  assumptions: readAssumptions(),
  settings: { retrySeconds: [300, 3600], expireSeconds: 2 * DAY, days: [7, 30, 90] },
};
const SIZE: Size = { daemons: 1, databaseCores: 2, concurrency: 500, perDestination: 100 };

test('units that come one by one share a transaction as queueing says: against a simulation of each unit', () => {
  for (const perSecond of [10, 200, 1000, 5000]) {
    const one = { fixedMs: 2, eachMs: 0.1 };
    expect(shared(perSecond, one).units / unitsDrawn(perSecond, one)).toBeCloseTo(1, 1);
  }
  expect(shared(1, { fixedMs: 2, eachMs: 0.1 }).units).toBeCloseTo(1);
  const full = shared(100_000, { fixedMs: 2, eachMs: 0.1, most: 100 });
  expect(full).toMatchObject({ units: 100, ms: 12 });
  expect(full.mostPerSecond).toBeCloseTo(100 / 0.012);
});

/** Poisson arrivals, one transaction after the other: units of each, on average. */
function unitsDrawn(perSecond: number, { fixedMs, eachMs }: { fixedMs: number; eachMs: number }): number {
  const random = createRandom(7);
  const next = () => (-Math.log(1 - random.uniform()) / perSecond) * 1000;
  let [now, arrival, units, transactions] = [0, next(), 0, 0];
  while (units < 50_000) {
    let waiting = 0;
    now = Math.max(now, arrival);
    for (; arrival <= now; arrival += next()) waiting++;
    now += fixedMs + eachMs * waiting;
    units += waiting;
    transactions++;
  }
  return units / transactions;
}

test('the model says of the loads that were measured what was measured, within its tolerance', () => {
  const off = predictions(inputs.costs).filter(
    ({ measured, predicted }) => Math.abs(predicted / measured - 1) > TOLERANCE,
  );
  expect(off).toEqual([]);
});

test('a day is the same for the same seed, and all that arrives is accepted and tried', () => {
  const day = simulate(300_000, SIZE, inputs);
  expect(simulate(300_000, SIZE, inputs)).toEqual(day);
  expect(day.total.messages / 300_000).toBeCloseTo(1, 2);
  const { deferred, dead } = inputs.assumptions;
  // After 5 minutes, and then every hour, for two days; nobody puts off more than four times.
  const again = [1, 2, 3, 4].reduce((sum, tries) => sum + deferred ** tries, 0) + dead * 48;
  expect(day.total.attempts / day.total.messages).toBeCloseTo(1 + again, 2);
  expect(day.mostUnaccepted).toBe(0);
});

test('what is too small for the day shows: mail waits, and arrives late', () => {
  const slow = simulate(300_000, { ...SIZE, concurrency: 2 }, inputs);
  expect(slow.busiest.connections).toBeGreaterThan(1);
  expect(slow.mostDue).toBeGreaterThan(1000);
  expect(slow.delivered.p50).toBeGreaterThan(10_000);
  const tiny = simulate(30_000_000, { ...SIZE, databaseCores: 0.2 }, inputs);
  expect(tiny.mostUnaccepted).toBeGreaterThan(1000);
});
