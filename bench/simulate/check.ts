/**
 * What the model says of the loads that were measured: it is told how many clients there were, how long an fsync took, and how
 * long the daemon waited for a processor that others used, and nothing else of them.
 */
import type { Costs, Load } from './inputs.ts';
import { MAX_UNITS, shared } from './model.ts';

/** How far off a prediction may be. */
export const TOLERANCE = 0.4;

export interface Prediction {
  readonly what: string;
  readonly measured: number;
  readonly predicted: number;
}

/**
 * What a post and a transaction cost is the same for all loads. Clients post again as soon as they are answered: a closed network. With
 * the response time R of one alone, and the service time D of what is busiest (the main thread or the load generator), N clients get
 * between N / (R + (N - 1) D) and the lesser of 1 / D and N / R (queueing theory: balanced job bounds); the geometric mean is taken.
 */
export function predictions(costs: Costs): Prediction[] {
  return costs.loads.flatMap((load) => {
    const { posts_per_second, transactions, fsyncs } = predict(load, costs);
    const { clients } = load;
    return [
      { what: `posts a second, ${clients} clients`, measured: load.posts_per_second, predicted: posts_per_second },
      { what: `transactions for a post, ${clients} clients`, measured: load.transactions, predicted: transactions },
      { what: `fsyncs for a post, ${clients} clients`, measured: load.fsyncs, predicted: fsyncs },
    ];
  });
}

/** Beyond it, queueing theory says nothing of so few clients. */
const MAX_UTILIZATION = 0.95;

function predict(
  { clients, fsync_ms, stretch, database_stretch }: Load,
  { loads, transaction: perTransaction }: Costs,
): Pick<Load, 'posts_per_second' | 'transactions' | 'fsyncs'> {
  function mean(what: keyof Load): number {
    return loads.reduce((sum, each) => sum + each[what], 0) / loads.length;
  }

  /** Without the part of each transaction, µs. */
  function ofPost(what: 'main_us' | 'database_us'): number {
    return mean(what) - perTransaction[what] * mean('transactions');
  }

  // As long as it takes on this machine, ms.
  const poster = (stretch * mean('poster_us')) / 1000;
  const fixedMs = fsync_ms + (stretch * perTransaction.main_us + database_stretch * perTransaction.database_us) / 1000;
  const eachMs = (database_stretch * ofPost('database_us')) / 1000;
  let each = 1;
  let perSecond = 0;
  for (let i = 0; i < 200; i++) {
    const ms = fixedMs + each * eachMs;
    const main = (stretch * (ofPost('main_us') + perTransaction.main_us / each)) / 1000;
    // Who is answered together comes back together: in the middle of another's transaction, where there is another.
    const alone = ms * (1 + (clients - 1) / clients / 2) + main + poster;
    const busiest = Math.max(main, poster);
    const least = (clients * 1000) / (alone + (clients - 1) * busiest);
    const most = Math.min(1000 / busiest, (clients * 1000) / alone);
    perSecond = Math.sqrt(least * most);
    // Its two replies wait behind the posts that the main thread has before them (M/M/1); meanwhile the others wait for the next.
    const utilization = Math.min(MAX_UTILIZATION, (perSecond * main) / 1000);
    const replies = (2 * main * utilization) / (1 - utilization);
    const arrive = (perSecond * (ms + replies)) / 1000;
    each = (each + Math.min(Math.max(1, clients / 2), MAX_UNITS, arrive + Math.exp(-arrive))) / 2;
  }
  const syncs = shared(perSecond / each, { fixedMs: fsync_ms, eachMs: 0 });
  return { posts_per_second: perSecond, transactions: 1 / each, fsyncs: syncs.transactionsPerSecond / perSecond };
}
