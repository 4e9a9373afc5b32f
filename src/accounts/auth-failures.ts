/**
 * Keys that were shown and open nothing: counted, told as events, and answered slowly to an address that goes on. All of it
 * is bounded: addresses that are remembered, events a minute, answers that wait.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { Tally } from '../lib/tally.ts';
import { recordEvent } from '../store/events.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import { clientBucket } from './rate-limits.ts';
import { Recent } from '../lib/lru.ts';

export const AUTH_FAILURES = [
  'AUTH_INVALID_KEY',
  'AUTH_EXPIRED_KEY',
  'AUTH_REVOKED_KEY',
  'AUTH_IP_NOT_ALLOWED',
  'TENANT_SUSPENDED',
  'TENANT_UNCONFIRMED',
] as const;

export interface AuthFailure {
  /** The client's. */
  readonly address: string;
  /** What was shown. */
  readonly value: string;
  readonly reason: (typeof AUTH_FAILURES)[number];
  /** The key, where there is one, and whose it is. */
  readonly key?: { readonly id: string; readonly tenant: string } | undefined;
}

export interface AuthFailures {
  /** Counts and tells of a failure; settles when it may be answered. Never rejects. */
  note(failure: AuthFailure): Promise<void>;
  readonly tally: Tally<AuthFailure['reason']>;
}

const MINUTE_MS = 60_000;
/** From then on an address waits. */
const SLOW_AFTER = 60;
const WAIT_MS = 1000;
/** Beyond them answers are not delayed: what waits holds a connection. */
const MAX_WAITING = 200;
const MAX_ADDRESSES = 10_000;
/** However many addresses a botnet has. */
const MAX_EVENTS_PER_MINUTE = 300;

export function createAuthFailures({ store, clock, log }: { store: Store; clock: Clock; log: Log }): AuthFailures {
  const tally = new Tally(AUTH_FAILURES);
  const recent = new Recent<{ readonly since: number; count: number }>(MAX_ADDRESSES);
  let minute = { since: -Infinity, events: 0 };
  let waiting = 0;

  async function tell({ address, value, reason, key }: AuthFailure): Promise<void> {
    const last4 = value.slice(-4);
    log.info('auth.failed', { ip: address, last4, reason, ...(key === undefined ? {} : { key: key.id }) });
    const data = { address, last4, reason, ...(key === undefined ? {} : { key: key.id }) };
    try {
      await store.write([recordEvent({ type: 'auth.failed', tenant: key?.tenant ?? OPERATOR, at: clock.now(), data })]);
    } catch (error) {
      log.warn('auth.failure_not_recorded', errorFields(error));
    }
  }

  return {
    tally,
    async note(failure) {
      tally.count(failure.reason);
      const now = clock.monotonic();
      const bucket = clientBucket(failure.address);
      const known = recent.get(bucket);
      const seen = known === undefined || now - known.since >= MINUTE_MS ? { since: now, count: 0 } : known;
      if (seen !== known) recent.set(bucket, seen);
      seen.count++;
      if (now - minute.since >= MINUTE_MS) minute = { since: now, events: 0 };
      // The request does not wait for the disk.
      if (seen.count === 1 && minute.events++ < MAX_EVENTS_PER_MINUTE) void tell(failure);
      if (seen.count <= SLOW_AFTER || waiting >= MAX_WAITING) return;
      waiting++;
      await clock.sleep(WAIT_MS);
      waiting--;
    },
  };
}
