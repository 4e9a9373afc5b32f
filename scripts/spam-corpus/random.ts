/** Random choices that a seed repeats exactly, on every machine. */

export interface Random {
  /** From 0 up to, but not including, 1. */
  next(): number;
  /** From `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** True this often of 1. */
  chance(probability: number): boolean;
  /** A pattern in which every `#` becomes a digit. */
  digits(pattern: string): string;
  /** Lower-case letters. */
  letters(length: number): string;
  /** As 'XrbDqkLmWpA': capitals where no language has them. */
  gibberish(length?: number): string;
  /** As the part of an address that a machine made. */
  slug(length: number): string;
  /** One of these; they must not be empty. */
  pick<T>(from: readonly T[]): T;
  /** In another order. */
  shuffle<T>(from: readonly T[]): T[];
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const SLUG = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';

/** A 32-bit generator (mulberry32). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  function text(characters: string, length: number): string {
    return Array.from({ length }, () => characters.charAt(Math.floor(next() * characters.length))).join('');
  }
  return {
    next,
    between: (from, to) => from + Math.floor(next() * (to - from + 1)),
    chance: (probability) => next() < probability,
    digits: (pattern) => pattern.replaceAll('#', () => text('0123456789', 1)),
    letters: (length) => text(LETTERS, length),
    gibberish: (length = 8 + Math.floor(next() * 13)) =>
      text(LETTERS, length).replaceAll(/./g, (letter) => (next() < 0.45 ? letter.toUpperCase() : letter)),
    slug: (length) => text(SLUG, length),
    pick(from) {
      const index = Math.floor(next() * from.length);
      const picked = from.at(index);
      if (picked === undefined) throw new Error('Nothing to pick from.');
      return picked;
    },
    shuffle(from) {
      const list = [...from];
      for (let i = list.length - 1; i > 0; i--) {
        const j = Math.floor(next() * (i + 1));
        const [one, other] = [list[i], list[j]];
        if (one === undefined || other === undefined) continue;
        list[i] = other;
        list[j] = one;
      }
      return list;
    },
  };
}
