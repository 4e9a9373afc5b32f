/** Limits as the client sees them. */
import type { Room } from '../accounts/message-limits.ts';
import type { OverLimit } from '../accounts/object-limits.ts';

import type { Verdict } from '../accounts/sliding-window.ts';
import type { ServerConfig } from '../config/schema.ts';
import { refuse, type Refusal } from './errors.ts';
import { tighter, type Exchange } from './context.ts';

/** The refusal of a request for which there is no room. */
export function rateLimited({ reset }: Verdict, now: number): Refusal {
  const seconds = Math.max(1, reset - Math.floor(now / 1000));
  return refuse('RATE_LIMITED', { headers: { 'Retry-After': String(seconds) } });
}

/** The same where the limit is one of this request's own; the headers of the answer then show it. */
export function overCap(verdict: Verdict, exchange: Exchange): Refusal {
  exchange.limit = tighter(exchange.limit, verdict);
  return rateLimited(verdict, exchange.at);
}

/** The refusal of mail for which the plan of the account has no room. */
export function overPlan({ message, ...room }: Exclude<Room, { kind: 'room' }>, now: number): Refusal {
  if (room.kind === 'never') return refuse('PLAN_LIMIT', { message });
  const seconds = Math.max(1, Math.ceil((room.at - now) / 1000));
  return refuse('RATE_LIMITED', { message, headers: { 'Retry-After': String(seconds) } });
}

/** The refusal of something that the plan of the account does not allow; it says who can. */
export function overLimit(
  { plan, object, limit, used, added }: OverLimit,
  { server }: Pick<ServerConfig, 'server'>,
): Refusal {
  const name = object === 'keys' ? 'active API keys' : object;
  const message = `The plan ${plan} allows ${limit} ${name}; the account has ${used}, and this adds ${added}. The operator of this server (${server.operator}) can raise the limit.`;
  return refuse('PLAN_LIMIT', { message, members: { plan_limit: { plan, object, limit, used } } });
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
