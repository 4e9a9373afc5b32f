/** The states of a domain, and what moves it from one to the other. */
import type { DomainRow } from '../store/tables.ts';

/** What the required records say: right, broken, or DNS did not answer. */
export type RecordsVerdict = 'ok' | 'broken' | 'unknown';

type State = Pick<DomainRow, 'status' | 'verified_at' | 'broken_at'>;

const MINUTE = 60_000;

/**
 * The state after a check: pending → verified when the records are right; verified → degraded when they break, → failed
 * once they have been broken for `grace` ms; any → verified when they are right again. `unknown` moves nothing.
 */
export function nextState(
  state: State,
  verdict: RecordsVerdict,
  { now, grace }: { now: number; grace: number },
): State {
  const { status, verified_at, broken_at } = state;
  if (verdict === 'unknown') return { status, verified_at, broken_at };
  if (verdict === 'ok') return { status: 'verified', verified_at: verified_at ?? now, broken_at: null };
  if (status === 'pending') return { status, verified_at, broken_at: null };
  const since = Math.min(broken_at ?? now, now);
  const isFailed = status === 'failed' || now - since >= grace;
  return { status: isFailed ? 'failed' : 'degraded', verified_at, broken_at: since };
}

/** So far apart the clocks of two daemons may be, ms. */
const SKEW_MS = 5 * MINUTE;

/** Whether it is time for a check; also where the clock was ahead at the last one, which put off the next by as much. */
export function isDue(
  { checked_at, created_at, next_check_at }: Pick<DomainRow, 'checked_at' | 'created_at' | 'next_check_at'>,
  now: number,
): boolean {
  return next_check_at <= now || (checked_at ?? created_at) > now + SKEW_MS;
}

/**
 * When to ask again, ms: a verified domain after `recheck`; one that waits for its owner soon, then ever more seldom (a
 * tenth of its age, 20 s to `recheck`), and so one whose next key waits for its record (`keySince`); broken ones every 30
 * minutes at the latest; what DNS was silent about after 5.
 */
export function nextCheck(
  domain: Pick<DomainRow, 'status' | 'created_at'>,
  verdict: RecordsVerdict,
  times: { now: number; recheck: number; keySince?: number | undefined },
): number {
  const due = whenDue(domain, verdict, times);
  return times.keySince === undefined ? due : Math.min(due, whenPublished(times.keySince, times));
}

function whenDue(
  { status, created_at }: Pick<DomainRow, 'status' | 'created_at'>,
  verdict: RecordsVerdict,
  { now, recheck }: { now: number; recheck: number },
): number {
  // A claim is as old as its last making: who makes it again is asked soon.
  if (status === 'pending') return whenPublished(created_at, { now, recheck });
  if (verdict === 'unknown') return now + Math.min(recheck, 5 * MINUTE);
  if (status === 'verified') return now + recheck;
  return now + Math.min(recheck, 30 * MINUTE);
}

/** When to look again for what its owner has been asked to publish since then, ms. */
export function whenPublished(since: number, { now, recheck }: { now: number; recheck: number }): number {
  return now + Math.min(recheck, Math.max(20_000, Math.floor((now - since) / 10)));
}
