/** Collects what is added within one turn of the event loop and hands it on together. */
export class TurnBatch<T> {
  readonly #flush: (items: T[]) => void;
  #items: T[] = [];

  constructor(flush: (items: T[]) => void) {
    this.#flush = flush;
  }

  add(item: T): void {
    if (this.#items.push(item) === 1) setImmediate(() => this.#send());
  }

  #send(): void {
    const items = this.#items;
    this.#items = [];
    this.#flush(items);
  }
}
