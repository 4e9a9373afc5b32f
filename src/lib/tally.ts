/** Counts by name since the start, for whoever looks at them. */
export class Tally<Name extends string> {
  readonly #counts: Map<Name, number>;

  /** All names are there from the beginning, with 0. */
  constructor(names: readonly Name[]) {
    this.#counts = new Map(names.map((name) => [name, 0]));
  }

  count(name: Name, many = 1): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + many);
  }

  entries(): [name: Name, count: number][] {
    return [...this.#counts];
  }
}
