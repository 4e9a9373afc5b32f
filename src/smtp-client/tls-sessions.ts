/**
 * How many sessions with mail hosts got the TLS that the recipients' domain wants, and why others did not, for reports to the
 * domain (RFC 8460): counted in memory, so that no delivery waits for it, and added to the store within seconds and at the
 * end. A crash forgets those seconds.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { PolicyFailure } from './mta-sts.ts';
import type { TlsResult } from '../queue/transport.ts';
import { addTlsSessions, type TlsSessionsRow } from '../store/tls-reports.ts';
import type { Store } from '../store/store.ts';
import type { AppliedTlsPolicy } from './route.ts';

/** A session with a mail host, or what kept us from one. */
export interface TlsSession {
  /** Whose mail it is. */
  readonly domain: string;
  readonly policy: AppliedTlsPolicy;
  readonly result: TlsResult | PolicyFailure['result'];
  readonly host: string | null;
  readonly address: string | null;
  /** Our address. */
  readonly local: string | null;
  /** Why it failed, in words. */
  readonly reason: string;
}

const DAY = 86_400_000;
/** So many rows go into one commit, so that they never hold up what is written beside them. */
const BATCH = 250;
const MAX_ROWS = 20_000;
const MAX_REASON = 200;

export class TlsSessions {
  readonly #parts: { readonly store: Store; readonly clock: Clock; readonly log: Log };
  #rows = new Map<string, TlsSessionsRow>();
  /** Sessions for which there was no room. */
  #dropped = 0;
  #flushing = Promise.resolve();

  constructor(parts: { readonly store: Store; readonly clock: Clock; readonly log: Log }) {
    this.#parts = parts;
  }

  count({ domain, policy, result, host, address, local, reason }: TlsSession): void {
    const now = this.#parts.clock.now();
    const isFailure = result !== 'success';
    this.#add({
      day: now - (now % DAY),
      domain,
      policy: JSON.stringify(policy),
      result,
      // Of those that succeed only the number is told.
      host: (isFailure && host) || '',
      address: (isFailure && address) || '',
      local: (isFailure && local) || '',
      reason: isFailure ? reason.slice(0, MAX_REASON) : '',
      count: 1,
    });
  }

  /** Adds to the store what was counted before the call. What it does not take is logged and kept for the next time. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#save());
    return this.#flushing;
  }

  #add(row: TlsSessionsRow): void {
    const key = JSON.stringify([row.day, row.domain, row.policy, row.result, row.host, row.address]);
    const known = this.#rows.get(key);
    // While the store takes nothing, what is counted is bounded.
    if (known === undefined && this.#rows.size >= MAX_ROWS) return void (this.#dropped += row.count);
    this.#rows.set(key, known === undefined ? row : { ...known, count: known.count + row.count });
  }

  async #save(): Promise<void> {
    const { store, log } = this.#parts;
    // In one order everywhere: daemons that share a store lock the same rows.
    const rows = [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#rows = new Map();
    if (this.#dropped > 0) log.warn('tls_sessions.dropped', { sessions: this.#dropped });
    this.#dropped = 0;
    for (let i = 0; i < rows.length; i += BATCH) {
      const some = rows.slice(i, i + BATCH);
      await store.write(some.map((row) => addTlsSessions(row))).catch((error: unknown) => {
        log.warn('tls_sessions.not_saved', errorFields(error));
        for (const row of some) this.#add(row);
      });
    }
  }
}
