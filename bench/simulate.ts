/**
 * `npm run bench:simulate [-- --costs FILE --assumptions FILE --messages N,N,…]`: how many daemons and processors of the database a
 * day of so many messages takes, and what its busiest minutes are like; computed from measured costs and stated assumptions
 * (bench/simulate/*.yml), with the retry schedule and retention that server.yml has by default. Before that, what the model says
 * of loads that were measured, beside what was measured.
 */
import { parseArgs } from 'node:util';
import { serverSchema } from '../src/config/schema-server.ts';
import { predictions, TOLERANCE } from './simulate/check.ts';
import type { Inputs, Size } from './simulate/day.ts';
import { readAssumptions, readCosts } from './simulate/inputs.ts';
import { findSize, type Sized } from './simulate/size.ts';

const { values } = parseArgs({
  options: {
    costs: { type: 'string' },
    assumptions: { type: 'string' },
    messages: { type: 'string', default: '1000000,10000000,100000000' },
  },
});
const DAY_MS = 86_400_000;
const GB = 1e9;

const { delivery, retention } = serverSchema.parse({
  server: { hostname: 'mail.example.net', operator: 'ops@example.net' },
});
const inputs: Inputs = {
  costs: readCosts(values.costs),
  assumptions: readAssumptions(values.assumptions),
  settings: {
    retrySeconds: delivery.retry.map((ms) => ms / 1000),
    expireSeconds: delivery.expire.default / 1000,
    days: [retention.message_bodies, retention.events, retention.submissions].map((kept) =>
      kept === 'forever' ? Infinity : kept / DAY_MS,
    ),
  },
};

const { measured } = inputs.costs;
console.log(
  `Costs of ${measured.on}: ${measured.cores} × ${measured.processor}, ${measured.messages} messages of each kind\n`,
);
console.log('What the model says of loads that were measured:');
for (const { what, measured, predicted } of predictions(inputs.costs)) {
  const off = predicted / measured - 1;
  const verdict = Math.abs(off) <= TOLERANCE ? 'ok' : 'OFF';
  print([what, figure(measured), figure(predicted), `${off > 0 ? '+' : ''}${(off * 100).toFixed(0)} %`, verdict]);
  if (verdict !== 'ok') process.exitCode = 1;
}

const smallest: Size = {
  daemons: 1,
  databaseCores: 1,
  concurrency: delivery.concurrency,
  perDestination: delivery.per_destination,
};
const scales = values.messages.split(',').map(Number);
const sized = scales.map((messages) => findSize(messages, smallest, inputs));
console.log('');
print(['messages a day', ...scales.map(figure)]);
for (const [name, cell] of lines()) print([name, ...sized.map(cell)]);

function lines(): readonly (readonly [string, (sized: Sized) => string])[] {
  const { cores } = inputs.assumptions.daemon;
  const { disk_bytes_per_second: disk } = inputs.assumptions.database;
  return [
    ['messages a second, on average', ({ day }) => figure(day.total.messages / 86_400)],
    ['  in the busiest second', ({ day }) => figure(day.peak.accepted)],
    [`daemons, of ${cores} processors`, ({ size }) => figure(size.daemons)],
    ["database's processors", ({ size }) => figure(size.databaseCores)],
    ['  of them for retention and VACUUM', ({ day }) => figure(day.kept.database + day.kept.vacuum)],
    ['WAL in the busiest second, MB', ({ day }) => figure(day.peak.walBytes / 1e6)],
    ['WAL of the day, GB', ({ day }) => figure(day.total.walBytes / GB)],
    ['rows kept, millions', ({ day }) => figure(day.kept.rows / 1e6)],
    ['data files, GB', ({ day }) => figure(day.kept.bytes / GB)],
    ['disk: written and read in the busiest minute, MB/s', ({ day }) => figure((day.busiest.disk * disk) / 1e6)],
    ['fsyncs in the busiest second', ({ day }) => figure(day.peak.fsyncs)],
    ['  part of the time in which the disk syncs, %', ({ day }) => figure(day.peak.syncing * 100)],
    ['transactions of the day, millions', ({ day }) => figure(day.total.transactions / 1e6)],
    ['posts in a transaction, at most', ({ day }) => figure(day.units)],
    ['transactions with posts that wait for a lock, %', ({ day }) => figure(day.waitsForLock * 100)],
    ['VACUUM of one table, hours of a day', ({ day }) => `${figure(day.kept.vacuumHours)} (${day.kept.vacuumTable})`],
    ['connections to mail servers, at most', ({ day }) => figure(day.peak.connections)],
    ['delivery.concurrency', ({ size }) => figure(size.concurrency)],
    ['delivery.per_destination', ({ size }) => figure(size.perDestination)],
    ['messages that are due and wait, at most', ({ day }) => figure(day.mostDue)],
    ['messages that are not accepted at once, at most', ({ day }) => figure(day.mostUnaccepted)],
    ['from arrival to the 250 of the receiver: p50, ms', ({ day }) => figure(day.delivered.p50)],
    ['  p99, ms', ({ day }) => figure(day.delivered.p99)],
    ['nearest to its limit', ({ day, limit }) => `${limit} (${figure(day.busiest[limit] * 100)} %)`],
    ['over the limit, which more of these does not help', ({ short }) => short.join(', ') || 'none'],
  ];
}

function print(cells: readonly string[]): void {
  console.log(cells.map((cell, i) => (i === 0 ? cell.padEnd(52) : cell.padStart(24))).join(''));
}

/** Three digits. */
function figure(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en', { maximumSignificantDigits: 3 });
}
