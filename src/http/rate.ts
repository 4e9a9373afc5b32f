/** Limits as the client sees them. */
import type { Room } from '../access/message-limits.ts';
import type { Verdict } from '../access/limits.ts';
import { refuse, type Refusal } from './errors.ts';

/** The refusal of a request for which there is no room. */
export function rateLimited({ reset }: Verdict, now: number): Refusal {
  const seconds = Math.max(1, reset - Math.floor(now / 1000));
  return refuse('RATE_LIMITED', { headers: { 'Retry-After': String(seconds) } });
}

/** The refusal of mail for which the plan of the account has no room. */
export function overPlan({ message, ...room }: Exclude<Room, { kind: 'room' }>, now: number): Refusal {
  if (room.kind === 'never') return refuse('PLAN_LIMIT', { message });
  const seconds = Math.max(1, Math.ceil((room.at - now) / 1000));
  return refuse('RATE_LIMITED', { message, headers: { 'Retry-After': String(seconds) } });
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
