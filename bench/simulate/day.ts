/**
 * A day in steps of a second, for a number of daemons and processors of the database: what arrives is accepted, what is
 * accepted or due again is tried, as far as processors, transactions and connections reach; the rest waits, first come, first
 * served. What is accepted goes before what is delivered. The day before was the same.
 */
import { KINDS, ofEach, type Assumptions, type Costs, type Kind } from './inputs.ts';
import { keep, use, type Kept, type Rates, type Used } from './model.ts';
import { createRandom, type Random } from './random.ts';

const DAY_SECONDS = 86_400;
const HOUR_SECONDS = 3600;
/** What limits is judged by the busiest minute. */
const MINUTE_SECONDS = 60;
/** Messages of each second whose way to the recipient is drawn. */
const DRAWN = 2;
/** Times are counted in classes, each 2 % longer than the one before; the first ends at 1 ms. */
const CLASS = 1.02;

export interface Size {
  readonly daemons: number;
  readonly databaseCores: number;
  /** `delivery.concurrency` and `delivery.per_destination`, of all daemons together. */
  readonly concurrency: number;
  readonly perDestination: number;
}

/** `delivery` and `retention` of server.yml. */
export interface Settings {
  /** Between two attempts, s. */
  readonly retrySeconds: readonly number[];
  readonly expireSeconds: number;
  /** For how many days message bodies, events and submissions are kept. */
  readonly days: readonly number[];
}

export interface Inputs {
  readonly costs: Costs;
  readonly assumptions: Assumptions;
  readonly settings: Settings;
}

export const RESOURCES = [
  'main threads',
  'delivery threads',
  "daemons' processors",
  'transactions that accept',
  "database's processors",
  'connections',
  'connections to one destination',
  'disk',
  'VACUUM',
] as const;

export type Resource = (typeof RESOURCES)[number];

export interface Day {
  readonly kept: Kept;
  /** Part of each that the busiest minute used; over 1, what was asked of it. */
  readonly busiest: Readonly<Record<Resource, number>>;
  /** In the busiest second of each. */
  readonly peak: {
    readonly accepted: number;
    readonly walBytes: number;
    readonly fsyncs: number;
    readonly syncing: number;
    readonly connections: number;
  };
  /** Of the whole day. */
  readonly total: {
    readonly walBytes: number;
    readonly attempts: number;
    readonly messages: number;
    readonly transactions: number;
  };
  /** The most at the end of a second: mail that is due and not tried, and messages that are not accepted yet. */
  readonly mostDue: number;
  readonly mostUnaccepted: number;
  /** Units in a transaction that accepts posts, at most; part of them that waits for a lock. */
  readonly units: number;
  readonly waitsForLock: number;
  /** From arrival to the receiver's reply, of what no receiver put off, ms. */
  readonly delivered: { readonly p50: number; readonly p99: number };
}

export function simulate(perDay: number, size: Size, { costs, assumptions, settings }: Inputs): Day {
  const random = createRandom(assumptions.seed);
  const { mix, destinations, database, daemon } = assumptions;
  const arrivals = arrivalsOf(perDay, assumptions, random);
  const again = attemptsAgain(arrivals, assumptions, settings);
  const kept = keep(scaled(mix, perDay), settings.days, costs, assumptions);
  const means = destinations.map(({ latency_ms, spread }) => latency_ms * Math.exp(spread ** 2 / 2));
  const mostTried = destinations.map(({ domains }, i) => (domains * size.perDestination * 1000) / (means[i] ?? 1));
  const unaccepted: Record<Kind, number> = { post: 0, email: 0, inbound: 0 };
  const due = destinations.map(() => 0);
  const delays = new Histogram();
  const minutes = new Minutes();
  const peak = { accepted: 0, walBytes: 0, fsyncs: 0, syncing: 0, connections: 0 };
  const total = { walBytes: 0, attempts: 0, messages: 0, transactions: 0 };
  let [mostDue, mostUnaccepted, units, waitsForLock] = [0, 0, 1, 0];
  const cores = size.daemons * daemon.cores;

  for (let second = 0; second < DAY_SECONDS; second++) {
    const arrived = arrivals[second] ?? 0;
    total.messages += arrived;
    const wanted = ofEach((kind) => unaccepted[kind] + arrived * mix[kind]);
    const asked = use({ accepted: wanted, attempts: NO_MAIL }, { costs, assumptions, daemons: size.daemons });
    const accepting: Partial<Record<Resource, number>> = {
      'main threads': asked.main / size.daemons,
      "daemons' processors": (asked.daemons + kept.daemons) / cores,
      "database's processors": (asked.database + kept.database + kept.vacuum) / size.databaseCores,
      'transactions that accept': Math.max(...KINDS.map((kind) => wanted[kind] / asked.accept[kind].mostPerSecond)),
    };
    const acceptedPart = Math.min(1, 1 / Math.max(...Object.values(accepting)));
    const accepted = scaled(wanted, acceptedPart);
    for (const kind of KINDS) unaccepted[kind] = wanted[kind] - accepted[kind];

    const acceptedAll = sum(accepted);
    const tries = destinations.map(({ share }, i) => (due[i] ?? 0) + (acceptedAll + (again[second] ?? 0)) * share);
    const perDestination = tries.map((number, i) => number / (mostTried[i] ?? 1));
    const possible = tries.map((number, i) => Math.min(number, mostTried[i] ?? number));
    const connections = possible.reduce((all, number, i) => all + (number * (means[i] ?? 0)) / 1000, 0);
    const attempts = scaled(mix, sumOf(possible));
    const used = use({ accepted, attempts }, { costs, assumptions, daemons: size.daemons });
    const tried = {
      'delivery threads': used.delivery / size.daemons,
      'main threads': used.main / size.daemons,
      "daemons' processors": (used.daemons + kept.daemons) / cores,
      "database's processors": (used.database + kept.database + kept.vacuum) / size.databaseCores,
      connections: connections / size.concurrency,
    };
    const triedPart = Math.min(1, ...Object.values(tried).map((part) => 1 / part));
    for (const [i, number] of tries.entries()) due[i] = number - (possible[i] ?? 0) * triedPart;

    const waiting = sumOf(due);
    mostDue = Math.max(mostDue, waiting);
    mostUnaccepted = Math.max(mostUnaccepted, sum(unaccepted));
    units = Math.max(units, used.accept.post.units);
    waitsForLock = Math.max(waitsForLock, used.waitsForLock);
    const walBytes = used.walBytes + kept.walBytes;
    const disk = walBytes + kept.writtenBytes + kept.readBytes;
    minutes.add({
      ...tried,
      'transactions that accept': accepting['transactions that accept'] ?? 0,
      'connections to one destination': Math.max(...perDestination),
      disk: disk / database.disk_bytes_per_second,
      VACUUM: kept.vacuumHours / 24,
    });
    peak.accepted = Math.max(peak.accepted, acceptedAll);
    peak.walBytes = Math.max(peak.walBytes, walBytes);
    peak.fsyncs = Math.max(peak.fsyncs, used.fsyncs);
    peak.syncing = Math.max(peak.syncing, used.syncing);
    peak.connections = Math.max(peak.connections, connections * triedPart);
    total.walBytes += walBytes;
    total.attempts += sumOf(possible) * triedPart;
    total.transactions += used.transactions;
    const before = acceptedAll === 0 ? 0 : (1000 * sum(unaccepted)) / acceptedAll;
    for (const [i, { share, latency_ms, spread }] of destinations.entries()) {
      const served = (possible[i] ?? 0) * triedPart;
      if (served === 0) continue;
      for (let n = 0; n < DRAWN; n++) {
        const own = timeTo(used, { costs, assumptions, size, random, kind: draw(mix, random) });
        const exchange = latency_ms * Math.exp(spread * random.normal());
        delays.add(before + own + (1000 * (due[i] ?? 0)) / served + exchange, (acceptedAll * share) / DRAWN);
      }
    }
  }
  return {
    kept,
    busiest: minutes.most,
    peak,
    total,
    mostDue,
    mostUnaccepted,
    units,
    waitsForLock,
    delivered: { p50: delays.below(0.5), p99: delays.below(0.99) },
  };
}

/** Messages in each second. */
function arrivalsOf(perDay: number, { hours, bursts }: Assumptions, random: Random): Float64Array {
  const weights = Float64Array.from({ length: DAY_SECONDS }, (_, second) => {
    const hour = Math.floor(second / HOUR_SECONDS);
    const part = (second % HOUR_SECONDS) / HOUR_SECONDS;
    return (hours[hour] ?? 0) * (1 - part) + (hours[(hour + 1) % hours.length] ?? 0) * part;
  });
  for (let n = 0; n < bursts.per_day; n++) {
    const first = Math.floor(random.uniform() * DAY_SECONDS);
    for (let second = first; second < first + bursts.minutes * 60; second++)
      weights[second % DAY_SECONDS] = (weights[second % DAY_SECONDS] ?? 0) * bursts.times;
  }
  const all = sumOf(weights);
  return weights.map((weight) => random.poisson((perDay * weight) / all));
}

/** Attempts in each second for messages that were put off, or that nobody answers for; their pauses, which save most of these, are left out. */
function attemptsAgain(arrivals: Float64Array, { deferred, dead }: Assumptions, settings: Settings): Float64Array {
  const { retrySeconds, expireSeconds } = settings;
  const again = new Float64Array(DAY_SECONDS);
  function add(part: number, after: number): void {
    for (let second = 0; second < DAY_SECONDS; second++) {
      const at = Math.round(second + after) % DAY_SECONDS;
      again[at] = (again[at] ?? 0) + part * (arrivals[second] ?? 0);
    }
  }
  let after = 0;
  for (
    let tries = 0;
    (after += retrySeconds[Math.min(tries, retrySeconds.length - 1)] ?? DAY_SECONDS) < expireSeconds;
    tries++
  )
    add(dead + (tries < MAX_DEFERRED ? deferred ** (tries + 1) : 0), after);
  return again;
}

/** Of what is put off, the part that is put off again and again is soon next to nothing. */
const MAX_DEFERRED = 4;

/** From arrival until the connection is asked to send, ms: queues before the two threads, and round trips. */
function timeTo(
  { accept, main, delivery }: Used,
  {
    costs,
    assumptions,
    size,
    random,
    kind,
  }: Pick<Inputs, 'costs' | 'assumptions'> & { size: Size; random: Random; kind: Kind },
): number {
  const { accept: accepting, deliver } = costs.kinds[kind];
  const { round_trip_ms, fsync_ms } = assumptions.database;
  const { ms, transactionsPerSecond } = accept[kind];
  // Who comes while a transaction is on its way waits for its end first.
  const isBusy = random.uniform() < Math.min(1, (transactionsPerSecond / size.daemons / 1000) * ms);
  const commit = ms + (isBusy ? ms * random.uniform() : 0);
  const beforeAttempt = assumptions.daemon.round_trips_before_attempt * round_trip_ms + 2 * fsync_ms;
  return (
    commit +
    beforeAttempt +
    queue(main / size.daemons, accepting.main_us / 1000, random) +
    queue(delivery / size.daemons, deliver.all_us / 1000, random)
  );
}

/** Waiting and service of an M/M/1 queue, ms: exponential. */
function queue(utilization: number, serviceMs: number, random: Random): number {
  return (-Math.log(1 - random.uniform()) * serviceMs) / Math.max(0.01, 1 - utilization);
}

function draw(mix: Rates, random: Random): Kind {
  let left = random.uniform() * sum(mix);
  return KINDS.find((kind) => (left -= mix[kind]) < 0) ?? 'post';
}

/** The most of a minute's means. */
class Minutes {
  readonly most = nothing();
  #sums = nothing();
  #seconds = 0;

  add(parts: Readonly<Record<Resource, number>>): void {
    for (const resource of RESOURCES) this.#sums[resource] += parts[resource];
    if (++this.#seconds < MINUTE_SECONDS) return;
    for (const resource of RESOURCES)
      this.most[resource] = Math.max(this.most[resource], this.#sums[resource] / MINUTE_SECONDS);
    this.#sums = nothing();
    this.#seconds = 0;
  }
}

function nothing(): Record<Resource, number> {
  return {
    'main threads': 0,
    'delivery threads': 0,
    "daemons' processors": 0,
    'transactions that accept': 0,
    "database's processors": 0,
    connections: 0,
    'connections to one destination': 0,
    disk: 0,
    VACUUM: 0,
  };
}

/** Times by how many messages took them. */
class Histogram {
  readonly #counts: number[] = [];
  #all = 0;

  add(ms: number, count: number): void {
    const at = Math.max(0, Math.ceil(Math.log(ms) / Math.log(CLASS)));
    this.#counts[at] = (this.#counts[at] ?? 0) + count;
    this.#all += count;
  }

  /** What this part took at most, ms. */
  below(part: number): number {
    let at = 0;
    let left = part * this.#all - (this.#counts[0] ?? 0);
    while (left > 0) {
      at++;
      left -= this.#counts[at] ?? 0;
    }
    return CLASS ** at;
  }
}

const NO_MAIL: Rates = { post: 0, email: 0, inbound: 0 };

function scaled(rates: Rates, factor: number): Record<Kind, number> {
  return ofEach((kind) => rates[kind] * factor);
}

function sum(rates: Rates): number {
  return rates.post + rates.email + rates.inbound;
}

function sumOf(figures: Iterable<number>): number {
  let all = 0;
  for (const figure of figures) all += figure;
  return all;
}
