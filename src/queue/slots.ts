/**
 * Who may have a connection: `delivery.concurrency` in all, in turns by site. Sites that have not answered lately share
 * half of them at most, so that destinations that hang, however many, leave room for those that do not.
 */

/** A site as far as connections are concerned. */
export interface Claimant {
  /** Whether it answered lately. */
  isProven(): boolean;
  /** Uses a connection that came free; answers false where it needs none any more. */
  grant(): boolean;
}

export class Slots {
  readonly #total: () => number;
  readonly #held = new Map<Claimant, number>();
  readonly #waiting = new Set<Claimant>();
  /** Connections that are kept without work, longest first. */
  readonly #idle = new Set<() => void>();
  #used = 0;

  constructor(total: () => number) {
    this.#total = total;
  }

  get used(): number {
    return this.#used;
  }

  /** Whether somebody waits for a connection. */
  isPressed(): boolean {
    return this.#waiting.size > 0;
  }

  /** Takes a connection now, or waits for `grant`. */
  request(site: Claimant): boolean {
    if (this.#mayTake(site) && !this.#othersWait(site)) {
      this.#take(site);
      return true;
    }
    this.#waiting.add(site);
    if (this.#used >= this.#total()) this.#hangUpIdle();
    return false;
  }

  /** Waits no longer: others are not to be hurried for it. */
  withdraw(site: Claimant): void {
    this.#waiting.delete(site);
  }

  release(site: Claimant): void {
    this.#used -= 1;
    const left = (this.#held.get(site) ?? 0) - 1;
    if (left > 0) this.#held.set(site, left);
    else this.#held.delete(site);
    this.review();
  }

  /** Serves those who wait: after a release, or when a site has become proven. */
  review(): void {
    for (const site of this.#waiting) {
      if (this.#used >= this.#total()) return;
      if (!this.#mayTake(site)) continue;
      this.#waiting.delete(site);
      this.#take(site);
      if (!site.grant()) this.release(site);
    }
  }

  /** Whether the site has more than its share while others, who would get it, wait for a connection. */
  mustYield(site: Claimant): boolean {
    if (this.#waiting.size === 0 || this.#used < this.#total()) return false;
    const share = Math.max(1, Math.floor(this.#total() / (this.#held.size + this.#waiting.size)));
    if ((this.#held.get(site) ?? 0) <= share) return false;
    return this.#othersWait(site);
  }

  /** Notes a connection without work; `hangUp` is called when somebody else needs it. Answers how to end that. */
  idle(hangUp: () => void): () => void {
    this.#idle.add(hangUp);
    if (this.#waiting.size > 0 && this.#used >= this.#total()) queueMicrotask(() => this.#hangUpIdle());
    return () => this.#idle.delete(hangUp);
  }

  #take(site: Claimant): void {
    this.#used += 1;
    this.#held.set(site, (this.#held.get(site) ?? 0) + 1);
  }

  #mayTake(site: Claimant): boolean {
    return this.#used < this.#total() && this.#hasRoomFor(site);
  }

  #hasRoomFor(site: Claimant): boolean {
    if (site.isProven()) return true;
    let unproven = 0;
    for (const [holder, count] of this.#held) if (!holder.isProven()) unproven += count;
    // The fuller it gets, the less each of them has.
    const most = Math.max(1, Math.floor(this.#total() / 2));
    return unproven < (this.#held.has(site) ? Math.ceil(most / 2) : most);
  }

  /** Whether another site waits that could have the next free connection. */
  #othersWait(site: Claimant): boolean {
    return [...this.#waiting].some((other) => other !== site && this.#hasRoomFor(other));
  }

  #hangUpIdle(): void {
    const [hangUp] = this.#idle;
    if (hangUp === undefined) return;
    this.#idle.delete(hangUp);
    hangUp();
  }
}
