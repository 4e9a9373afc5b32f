/** What the simulation is told: costs that were measured (`npm run bench:costs`), and assumptions, both in YAML. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

const amount = z.number().min(0);

/** Of one message; `_us` is time of the processor. Of accepting, and of one attempt to deliver. */
const usage = z.object({
  main_us: amount,
  thread_us: amount,
  all_us: amount,
  database_us: amount,
  wal_bytes: amount,
  transactions: amount,
});

/** After it came; when what it says is forgotten; when its events and records are. */
const stages = z.tuple([z.number(), z.number(), z.number()]);

const kind = z.object({
  accept: usage,
  deliver: usage,
  forget: usage.pick({ all_us: true, database_us: true, wal_bytes: true }),
  vacuum: z.object({ page_us: amount, page_wal_bytes: amount }),
  tables: z.record(
    z.string(),
    z.object({ rows: stages, heap_bytes: stages, index_bytes: stages, dead_rows: z.number() }),
  ),
});

const load = usage.extend({
  clients: amount,
  poster_us: amount,
  stretch: amount,
  database_stretch: amount,
  posts_per_second: amount,
  fsyncs: amount,
  fsync_ms: amount,
});

const costsSchema = z
  .object({
    measured: z.object({ on: z.string(), processor: z.string(), cores: amount, messages: amount }),
    kinds: z.object({ post: kind, email: kind, inbound: kind }),
    loads: z.array(load).min(2),
  })
  .transform((costs) => ({ ...costs, transaction: transactionCosts(costs.loads) }));

const assumptionsSchema = z.strictObject({
  seed: z.int(),
  mix: z.strictObject({ post: amount, email: amount, inbound: amount }),
  hours: z.array(amount).length(24),
  bursts: z.strictObject({ per_day: amount, times: amount, minutes: amount }),
  destinations: z.array(
    z.strictObject({ name: z.string(), share: amount, domains: amount, latency_ms: amount, spread: amount }),
  ),
  deferred: amount,
  dead: amount,
  places: amount,
  scattered_indexes: amount,
  daemon: z.strictObject({ cores: amount, round_trips_before_attempt: amount }),
  database: z.strictObject({
    round_trip_ms: amount,
    fsync_ms: amount,
    disk_bytes_per_second: amount,
    checkpoint_minutes: amount,
    vacuum_scale_factor: amount,
    vacuum_memory_bytes: amount,
  }),
  utilization: amount,
});

export type Load = z.infer<typeof load>;

type Processors = 'main_us' | 'all_us' | 'database_us';

/** Of the processor, for each transaction, µs: the slope of what posts cost over how many of them shared one. */
function transactionCosts(loads: readonly Load[]): Readonly<Record<Processors, number>> {
  return {
    main_us: slope(loads, 'main_us'),
    all_us: slope(loads, 'all_us'),
    database_us: slope(loads, 'database_us'),
  };
}

function slope(loads: readonly Load[], what: Processors): number {
  const x = mean(loads.map(({ transactions }) => transactions));
  const y = mean(loads.map((load) => load[what]));
  const covariance = loads.reduce((sum, load) => sum + (load.transactions - x) * (load[what] - y), 0);
  return Math.max(0, covariance / loads.reduce((sum, { transactions }) => sum + (transactions - x) ** 2, 0));
}

function mean(figures: readonly number[]): number {
  return figures.reduce((sum, figure) => sum + figure, 0) / figures.length;
}

export type Costs = z.infer<typeof costsSchema>;
export type Assumptions = z.infer<typeof assumptionsSchema>;
export type Kind = keyof Costs['kinds'];
export const KINDS: readonly Kind[] = ['post', 'email', 'inbound'];

export function ofEach<T>(make: (kind: Kind) => T): Record<Kind, T> {
  return { post: make('post'), email: make('email'), inbound: make('inbound') };
}

export function readCosts(path = `${import.meta.dirname}/costs.yml`): Costs {
  return costsSchema.parse(parse(readFileSync(path, 'utf8')));
}

export function readAssumptions(path = `${import.meta.dirname}/assumptions.yml`): Assumptions {
  return assumptionsSchema.parse(parse(readFileSync(path, 'utf8')));
}
