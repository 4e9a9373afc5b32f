/**
 * Much in small parts: what comes in one turn together, what is large a part at a time, what is long a few steps at a time,
 * and no more at once than there is room for.
 */
import type { Clock } from './clock.ts';

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

/** The items in their order, in parts of at most `most` in all; one that is more alone is a part of its own. */
export function* portions<T>(items: readonly T[], weight: (item: T) => number, most: number): Generator<T[]> {
  let part: T[] = [];
  let sum = 0;
  for (const item of items) {
    const own = weight(item);
    if (part.length > 0 && sum + own > most) {
      yield part;
      part = [];
      sum = 0;
    }
    part.push(item);
    sum += own;
  }
  if (part.length > 0) yield part;
}

/** Makes a step again and again, as long as it answers that there is more to do; rests after each, in units of what the step took. */
export async function stepByStep(
  { clock, rest }: { readonly clock: Clock; readonly rest: number },
  step: () => Promise<boolean>,
): Promise<void> {
  for (let hasMore = true; hasMore;) {
    const began = clock.monotonic();
    hasMore = await step();
    // Reading is done in this thread: others have their turn.
    await clock.sleep(hasMore ? rest * (clock.monotonic() - began) : 0);
  }
}

export interface Rounds<Place> {
  readonly clock: Clock;
  /** From the beginning of one round to that of the next, ms; the next waits until the last is over. */
  readonly every: number;
  /** So many steps are made in one go. */
  readonly steps: number;
  /** How long it rests after each step, in units of what the step took; 0 by default. */
  readonly rest?: number;
  readonly start: Place;
  /** Does what there is to do at a place, and answers the next one; undefined at the end. */
  readonly step: (place: Place) => Promise<Place | undefined>;
}

/** Goes through something long, again and again, some steps at each call; a step that fails is made again. */
export function inRounds<Place>(rounds: Rounds<Place>): () => Promise<void> {
  const { clock, every, steps, rest = 0, start, step } = rounds;
  let place: Place | undefined;
  let beganAt = -Infinity;
  return async () => {
    if (place === undefined) {
      if (clock.monotonic() - beganAt < every) return;
      beganAt = clock.monotonic();
      place = start;
    }
    let left = steps;
    await stepByStep({ clock, rest }, async () => {
      if (place !== undefined) place = await step(place);
      return place !== undefined && --left > 0;
    });
  };
}

/** Makes steps of the same name one after the other, whether or not the one before failed. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(name: string, step: () => Promise<T>): Promise<T> {
    const result = (this.#last.get(name) ?? Promise.resolve()).then(step);
    const ended: Promise<void> = result
      .catch(() => undefined)
      .then(() => {
        if (this.#last.get(name) === ended) this.#last.delete(name);
      });
    this.#last.set(name, ended);
    return result;
  }
}

/** Something that many ask for, such as memory: who comes when it is used up waits, first come, first served. */
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

  /** Takes `amount`, there or not: it is used already. */
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
