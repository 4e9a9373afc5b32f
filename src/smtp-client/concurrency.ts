/**
 * Who may have a connection: pools that have answered share `delivery.concurrency`, in turns. A pool that has not answered
 * yet has its connections beside that, because nobody who is served waits for one that may hang: the claims bound them
 * (claimer.ts), fairly among tenants.
 */

/** A pool as far as connections are concerned. */
export interface Claimant {
  /** Whether it has answered. */
  isProven(): boolean;
  /** Uses a connection that came free; answers false where it needs none any more. */
  grant(): boolean;
}

export class ConnectionLimit {
  readonly #total: () => number;
  readonly #held = new Map<Claimant, number>();
  readonly #waiting = new Set<Claimant>();
  /** Connections that are kept without work, longest first. */
  readonly #idle = new Set<() => void>();
  /** All connections. */
  open = 0;

  constructor(total: () => number) {
    this.#total = total;
  }

  /** Whether somebody waits for a connection. */
  isPressed(): boolean {
    return this.#waiting.size > 0;
  }

  /** Whether a connection may be kept without work: not where first contacts that answered are more than all there may be. */
  mayIdle(): boolean {
    return this.open <= this.#total() || this.#used() <= this.#total();
  }

  /** Takes a connection now, or waits for `grant`. */
  request(pool: Claimant): boolean {
    if (this.#mayTake(pool) && !this.#othersWait(pool)) {
      this.#take(pool);
      return true;
    }
    this.#waiting.add(pool);
    this.#hangUpIdle();
    return false;
  }

  /** Waits no longer: others are not to be hurried for it. */
  withdraw(pool: Claimant): void {
    this.#waiting.delete(pool);
  }

  release(pool: Claimant): void {
    this.open -= 1;
    const left = (this.#held.get(pool) ?? 0) - 1;
    if (left > 0) this.#held.set(pool, left);
    else this.#held.delete(pool);
    this.#review();
  }

  /** Whether the pool has more than its share while others wait for a connection. */
  mustYield(pool: Claimant): boolean {
    if (this.#waiting.size === 0 || !pool.isProven()) return false;
    const holders = [...this.#held.keys()].filter((holder) => holder.isProven()).length;
    const share = Math.max(1, Math.floor(this.#total() / (holders + this.#waiting.size)));
    if ((this.#held.get(pool) ?? 0) <= share) return false;
    return this.#used() >= this.#total() && this.#othersWait(pool);
  }

  /** Notes a connection without work; `hangUp` is called when somebody else needs it. Answers how to end that. */
  idle(hangUp: () => void): () => void {
    this.#idle.add(hangUp);
    if (this.#waiting.size > 0) queueMicrotask(() => this.#hangUpIdle());
    return () => this.#idle.delete(hangUp);
  }

  /** Serves those who wait. */
  #review(): void {
    for (const pool of this.#waiting) {
      if (!this.#mayTake(pool)) continue;
      this.#waiting.delete(pool);
      this.#take(pool);
      if (!pool.grant()) this.release(pool);
    }
  }

  #take(pool: Claimant): void {
    this.open += 1;
    this.#held.set(pool, (this.#held.get(pool) ?? 0) + 1);
  }

  #mayTake(pool: Claimant): boolean {
    return !pool.isProven() || this.#used() < this.#total();
  }

  /** Connections to pools that have answered. */
  #used(): number {
    let used = 0;
    for (const [pool, count] of this.#held) if (pool.isProven()) used += count;
    return used;
  }

  #othersWait(pool: Claimant): boolean {
    return pool.isProven() && [...this.#waiting].some((other) => other !== pool);
  }

  #hangUpIdle(): void {
    const [hangUp] = this.#idle;
    if (hangUp === undefined || this.#used() < this.#total()) return;
    this.#idle.delete(hangUp);
    hangUp();
  }
}
