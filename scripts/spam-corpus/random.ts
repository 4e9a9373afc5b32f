/** Random choices that a seed repeats exactly, on every machine. */

export interface Random {
  /** From 0 up to, but not including, 1. */
  next(): number;
  /** From `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** True this often of 1. */
  chance(probability: number): boolean;
  /** One of these; they must not be empty. */
  pick<T>(from: readonly T[]): T;
}

/** A 32-bit generator (mulberry32). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  return {
    next,
    between: (from, to) => from + Math.floor(next() * (to - from + 1)),
    chance: (probability) => next() < probability,
    pick(from) {
      const index = Math.floor(next() * from.length);
      const picked = from.at(index);
      if (picked === undefined) throw new Error('Nothing to pick from.');
      return picked;
    },
  };
}
