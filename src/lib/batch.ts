/** Collects what is added within one turn of the event loop and hands it on together, or as soon as it is many. */
export class TurnBatch<T> {
  readonly #flush: (items: T[]) => void;
  readonly #most: number;
  #items: T[] = [];
  #scheduled = false;

  /** `flush` gets at most `most` items at a time. */
  constructor(flush: (items: T[]) => void, most = Infinity) {
    this.#flush = flush;
    this.#most = most;
  }

  add(item: T): void {
    if (this.#items.push(item) >= this.#most) this.#send();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => {
        this.#scheduled = false;
        if (this.#items.length > 0) this.#send();
      });
    }
  }

  #send(): void {
    const items = this.#items;
    this.#items = [];
    this.#flush(items);
  }
}
