/**
 * Random letters, as robots fill forms with. Judged are words of at least eight ASCII letters, by pairs of letters that
 * next to no word of any language has; numbers, codes, addresses and all other scripts are not judged.
 */
import type { Reason, Value } from './reasons.ts';

/**
 * Behind each letter those that follow it in fewer than two of a thousand words of every one of 45 languages that are
 * written with Latin letters: word lists of American English, Croatian, Czech, Danish, Dutch, French, German, Hungarian,
 * Italian, Polish, Portuguese, Romanian, Spanish, Swedish and Turkish, and the names of languages, countries and currencies
 * in CLDR for the others. Of their words of eight letters at most one in ten thousand counts as random.
 */
const RARE: Readonly<Record<string, string>> = {
  b: 'cdkmpqvx',
  c: 'bdfgpwx',
  d: 'qx',
  f: 'ckmnpqwx',
  g: 'cfpqx',
  h: 'cdfhpqx',
  j: 'bhjqwxy',
  k: 'dfqxz',
  l: 'qx',
  m: 'qvwxz',
  n: 'x',
  p: 'dmqwxz',
  q: 'bcdfghjklmnpqstwxyz',
  r: 'x',
  s: 'x',
  t: 'q',
  v: 'bdfghmpqwx',
  w: 'bdfgjmqtvwx',
  x: 'bdfgjklmnqrsuvwxyz',
  y: 'qxy',
  z: 'qx',
};
/** 1 for each such pair, at 32 times the first letter's place and the second's. */
const RARE_PAIRS = new Uint8Array(1024);
for (const [first, seconds] of Object.entries(RARE)) {
  for (const second of seconds) RARE_PAIRS[letterAt(first, 0) * 32 + letterAt(second, 0)] = 1;
}
const SHORTEST = 8;
const SAMPLE = 4096;
const TOKEN = /[^\s,;:!?()"“”]+/g;
const LONG_WORD = /[A-Za-z]{8,}/g;
const LETTERS = /^[A-Za-z]+\.?$/;
const ROMAN = /^[ivxlcdm]+$/i;
/** Looks like data of its own kind, whose letters say nothing. */
const NO_TEXT = /[@\d]|:\/\//;

/** What random letters say. */
export function gibberishReasons(values: readonly Value[]): Reason[] {
  if (!values.some(({ text }) => text.slice(0, SAMPLE).match(LONG_WORD)?.some(isRandom))) return [];
  let letters = 0;
  let random = 0;
  let example = '';
  for (const { text } of values) {
    for (const [token] of text.slice(0, SAMPLE).matchAll(TOKEN)) {
      if (NO_TEXT.test(token)) continue;
      letters += token.length;
      if (!LETTERS.test(token) || !isRandom(token)) continue;
      random += token.length;
      example ||= token.slice(0, 30);
    }
  }
  if (random === 0 || random < letters / 2) return [];
  const score = isNothingElse(values) ? 10 : 4;
  return [{ name: 'gibberish', score, detail: `random letters: ${example}` }];
}

/** Whether letters were drawn by lot. */
function isRandom(word: string): boolean {
  if (word.length < SHORTEST || ROMAN.test(word)) return false;
  const rare = rarePairs(word);
  return (rare >= 2 && rare >= (word.length - 1) / 5) || innerCapitals(word) >= Math.max(3, word.length / 4.2);
}

function rarePairs(word: string): number {
  let rare = 0;
  let before = letterAt(word, 0);
  for (let i = 1; i < word.length; i++) {
    const letter = letterAt(word, i);
    rare += RARE_PAIRS[before * 32 + letter] ?? 0;
    before = letter;
  }
  return rare;
}

/** Capitals behind small letters: `camelCase` has one. */
function innerCapitals(word: string): number {
  let capitals = 0;
  for (let i = 1; i < word.length; i++) if (isCapital(word, i) && !isCapital(word, i - 1)) capitals++;
  return capitals;
}

/** The place of an ASCII letter in the alphabet, from 1; 0 for the full stop behind a word. */
function letterAt(word: string, at: number): number {
  const code = word.charCodeAt(at);
  return code < 0x41 ? 0 : code & 31;
}

function isCapital(word: string, at: number): boolean {
  return (word.charCodeAt(at) & 32) === 0;
}

/** Whether all that was written are words with inner capitals, different ones in two fields or more. */
function isNothingElse(values: readonly Value[]): boolean {
  const texts = new Set(
    values.map(({ text }) => text.trim()).filter((text) => !NO_TEXT.test(text) && /\p{L}/u.test(text)),
  );
  return (
    texts.size >= 2 &&
    [...texts].every((text) => text.length >= SHORTEST && LETTERS.test(text) && innerCapitals(text) > 0)
  );
}
