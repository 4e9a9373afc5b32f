/** A share of memory that many ask for: who comes when it is used up waits, first come, first served. */
export class Budget {
  readonly #total: number;
  readonly #waiting: { readonly amount: number; readonly go: () => void }[] = [];
  #used = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** Takes `amount` as soon as it is there; more than all there is, when nobody else has any. */
  take(amount: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#fits(amount)) {
      this.#used += amount;
      return Promise.resolve();
    }
    return new Promise((go) => this.#waiting.push({ amount, go }));
  }

  /** Takes `amount`, there or not: it is in memory already. */
  add(amount: number): void {
    this.#used += amount;
  }

  give(amount: number): void {
    this.#used -= amount;
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.amount); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.amount;
      next.go();
    }
  }

  #fits(amount: number): boolean {
    return this.#used === 0 || this.#used + amount <= this.#total;
  }
}
