/** When keys were used last: noted in memory, written behind, so that no request waits for it. A crash forgets seconds. */
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { noteKeyUse } from '../store/api-keys.ts';
import type { Store } from '../store/store.ts';

export interface KeyUses {
  note(key: string, at: number): void;
  /** Writes what is not written yet; what cannot be written is kept for the next time. */
  save(): Promise<void>;
}

/** So many rows go into one commit. */
const BATCH = 250;

export function createKeyUses({ store, log }: { store: Store; log: Log }): KeyUses {
  let uses = new Map<string, number>();

  async function save(): Promise<void> {
    const saving = uses;
    uses = new Map();
    // In one order, so that two daemons on one database never wait for each other.
    const entries = [...saving].sort(([a], [b]) => (a < b ? -1 : 1));
    for (let i = 0; i < entries.length; i += BATCH) {
      await store
        .write(entries.slice(i, i + BATCH).map(([id, at]) => noteKeyUse({ id, at })))
        .catch((error: unknown) => {
          log.warn('keys.uses_not_saved', errorFields(error));
          for (const [id, at] of entries.slice(i, i + BATCH)) uses.set(id, uses.get(id) ?? at);
        });
    }
  }

  return {
    note: (key, at) => void uses.set(key, at),
    save,
  };
}
