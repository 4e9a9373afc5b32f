/** Limits as the client sees them. */
import type { Verdict } from '../access/limits.ts';
import { refuse, type Refusal } from './errors.ts';
import { tighter, type Exchange } from './exchange.ts';

/** The refusal of a request for which there is no room. */
export function rateLimited({ reset }: Verdict, now: number): Refusal {
  const seconds = Math.max(1, reset - Math.floor(now / 1000));
  return refuse('RATE_LIMITED', { headers: { 'Retry-After': String(seconds) } });
}

/** The same where the limit is one of this request's own; the headers of the answer then show it. */
export function overLimit(verdict: Verdict, exchange: Exchange): Refusal {
  exchange.limit = tighter(exchange.limit, verdict);
  return rateLimited(verdict, exchange.at);
}

/** The headers that every response carries, names and values in turn. */
export function rateHeaders({ limit, remaining, reset }: Verdict): string[] {
  return [
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    String(reset),
  ];
}
