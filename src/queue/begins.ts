/**
 * Writes that tries begin, before anybody is dialled: what was claimed and had not begun when the daemon died costs no try
 * and is due at once. One write at a time, for all that have come together meanwhile.
 */
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { beginDeliveries, type ClaimedRow } from '../store/leases.ts';
import type { Store } from '../store/store.ts';

interface Waiting {
  readonly rows: readonly ClaimedRow[];
  readonly answer: (begun: boolean) => void;
}

export class Begins {
  readonly #store: Store;
  readonly #log: Log;
  readonly #owner: string;
  #waiting: Waiting[] = [];
  #writing = false;

  constructor({ store, log, owner }: { store: Store; log: Log; owner: string }) {
    this.#store = store;
    this.#log = log;
    this.#owner = owner;
  }

  /** Resolves when it is on the disk; with false where it cannot be: the lease is lost, the tenant suspended, the store away. */
  begin(rows: readonly ClaimedRow[]): Promise<boolean> {
    return new Promise((answer) => {
      this.#waiting.push({ rows, answer });
      if (!this.#writing) void this.#write();
    });
  }

  async #write(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0) {
      const together = this.#waiting;
      this.#waiting = [];
      const begun = await this.#begin(together.flatMap(({ rows }) => rows));
      for (const { rows, answer } of together) answer(rows.every(({ id, attempts }) => begun.get(id) === attempts));
    }
    this.#writing = false;
  }

  async #begin(rows: readonly ClaimedRow[]): Promise<ReadonlyMap<string, number>> {
    const ids = JSON.stringify(rows.map(({ id }) => id));
    try {
      const [{ rows: begun }] = await this.#store.write([beginDeliveries({ ids, owner: this.#owner })]);
      return new Map(begun.map(({ id, attempts }) => [id, attempts]));
    } catch (error) {
      // What did not begin is given back as soon as that can be written.
      this.#log.warn('delivery.not_begun', { deliveries: rows.length, ...errorFields(error) });
      return new Map();
    }
  }
}
