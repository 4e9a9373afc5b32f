/**
 * The values that were asked for last: what is costly to make is made once while it is in use, in bounded memory. Kept are
 * those used since the last half turn and those of the one before it: moving an entry at each use would cost more than most
 * values do, and leave garbage in a map that changes all the time.
 */
export class LruMap<V> {
  readonly #half: number;
  #young = new Map<string, V>();
  #old = new Map<string, V>();

  /** Keeps at most `max`, and of the last used at least half as many. */
  constructor(max: number) {
    this.#half = Math.max(1, Math.floor(max / 2));
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: string): V | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, value: V): void {
    this.#old.delete(key);
    this.#young.set(key, value);
    if (this.#young.size >= this.#half) this.turn();
  }

  delete(key: string): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  /** Forgets what was not used since the last turn. */
  turn(): void {
    this.#old = this.#young;
    this.#young = new Map();
  }
}
