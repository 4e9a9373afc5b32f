/**
 * `Idempotency-Key`: the same request twice has one effect and one answer for 24 hours, whatever dies in between. The
 * answer of an accepted submission is stored in the submission's own unit: there is never one without the other.
 *
 * A request that neither answered nor gave its key back died. Its key may be taken over after 60 s, on SQLite at once
 * when an earlier process began it (there is only ever one). One that was merely slow is then fenced off: its unit fails,
 * because its claim is no longer there to be answered.
 */
import type { Clock } from '../lib/clock.ts';
import { answerKey, claimKey, findKey, forgetKeys, releaseKey } from '../store/idempotency.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';

/** The right to answer under a key. */
export interface Claim {
  readonly scope: string;
  readonly key: string;
  readonly created_at: number;
}

export interface StoredAnswer {
  /** The HTTP status. */
  readonly status: number;
  /** As `finish` was given it. */
  readonly response: string;
}

export type Beginning =
  | { readonly kind: 'new'; readonly claim: Claim }
  | ({ readonly kind: 'replay' } & StoredAnswer)
  | { readonly kind: 'conflict'; readonly reason: 'other body' | 'in progress' };

const KEPT_MS = 86_400_000;
const ABANDONED_MS = 60_000;

/** Idempotency keys in the store. Made once per process, when it starts. */
export class Idempotency {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #startedAt: number;

  constructor({ store, clock }: { readonly store: Store; readonly clock: Clock }) {
    this.#store = store;
    this.#clock = clock;
    this.#startedAt = store.dialect === 'sqlite' ? clock.now() : 0;
  }

  /** Begins a request. `scope` is the form, or the API key and route; `hash` is of the body. */
  async begin(scope: string, key: string, hash: string): Promise<Beginning> {
    const now = this.#clock.now();
    const abandoned = Math.max(now - ABANDONED_MS, this.#startedAt - 1);
    const claim = claimKey({ scope, key, hash, now, expired: now - KEPT_MS, abandoned });
    const [{ changes }] = await this.#store.write([claim]);
    if (changes === 1) return { kind: 'new', claim: { scope, key, created_at: now } };
    const known = await findKey(this.#store, scope, key);
    if (known !== undefined && known.hash !== hash) return { kind: 'conflict', reason: 'other body' };
    // Where it was given back or swept in between, the client may try again.
    if (known === undefined || known.status === 0) return { kind: 'conflict', reason: 'in progress' };
    return { kind: 'replay', status: known.status, response: known.response };
  }

  /** The statement that stores the answer; its unit fails with UnmetError where the claim was taken over. */
  answer(claim: Claim, answer: StoredAnswer): Statement {
    return answerKey({ ...claim, ...answer }, 1);
  }

  /** Stores an answer that has no unit of its own, or gives the key back where it is one to try again (429, 5xx). */
  async finish(claim: Claim, answer: StoredAnswer): Promise<void> {
    if (answer.status === 429 || answer.status >= 500) await this.release(claim);
    else await this.#store.write([answerKey({ ...claim, ...answer })]);
  }

  /** Gives the key back: the request had no effect and no answer. */
  async release(claim: Claim): Promise<void> {
    await this.#store.write([releaseKey({ ...claim })]);
  }

  /** Forgets keys that are older than 24 hours. */
  async sweep(): Promise<void> {
    await this.#store.write([forgetKeys({ before: this.#clock.now() - KEPT_MS })]);
  }
}
