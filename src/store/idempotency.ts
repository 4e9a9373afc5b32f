/** Idempotency keys: who began a request, and what it was answered. `status` 0 means that it is still in progress. */
import { sql } from 'kysely';
import { deleteFrom, finder, query, update } from './statement.ts';
import type { IdempotencyRow } from './tables.ts';

/**
 * The statement that begins a request; it touches no row while the key is taken: answered after `expired`, or begun after
 * `abandoned` and not yet answered (times in ms).
 */
export const claimKey = query<
  Pick<IdempotencyRow, 'scope' | 'key' | 'hash'> & { now: number; expired: number; abandoned: number }
>(
  (value) => sql`insert into idempotency_keys as known (scope, key, hash, status, response, created_at)
    values (${value('scope')}, ${value('key')}, ${value('hash')}, 0, '', ${value('now')})
    on conflict (scope, key) do update
      set hash = excluded.hash, status = 0, response = '', created_at = excluded.created_at
      where known.created_at <= ${value('expired')} or (known.status = 0 and known.created_at <= ${value('abandoned')})`,
);

/**
 * The statement that notes what a request was answered, with that; it touches no row where the same one was answered after
 * `expired` (ms).
 */
export const noteAnswer = query<
  Pick<IdempotencyRow, 'scope' | 'key' | 'status' | 'response'> & { now: number; expired: number }
>(
  (value) => sql`insert into idempotency_keys as known (scope, key, hash, status, response, created_at)
    values (${value('scope')}, ${value('key')}, '', ${value('status')}, ${value('response')}, ${value('now')})
    on conflict (scope, key) do update
      set status = excluded.status, response = excluded.response, created_at = excluded.created_at
      where known.created_at <= ${value('expired')}`,
);

const inProgress = ['scope', 'key', 'created_at', sql`status = 0`] as const;

/** The statement that stores the answer; it touches no row where the claim was taken over meanwhile. */
export const answerKey = update('idempotency_keys', ['status', 'response'], inProgress);

/** The statement that gives a claim back, so that the key may be used again. */
export const releaseKey = deleteFrom('idempotency_keys', ...inProgress);

/** The statement that forgets keys begun before `before`. */
export const forgetKeys = query<{ before: number }>(
  (value) => sql`delete from idempotency_keys where created_at < ${value('before')}`,
);

/** What is known of the key, or undefined. */
export const findKey = finder('idempotency_keys', 'scope', 'key');
