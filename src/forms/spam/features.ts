/**
 * What the text filter sees of a submission: hashes of its words, of pairs of them and of their beginnings (in scripts that
 * put no space between words, of every two and three characters), and what is built alike in all languages. Numbers, links
 * and addresses are counted as such, not by what they are. Linear in the text, of which the beginning and the end are read.
 */
import type { KnownHosts } from './links.ts';
import { readPhrases, type Phrase } from './phrases.ts';
import { PLACEHOLDERS, structureOf, wordsOf, type Structure } from './shape.ts';
import type { Text } from './text.ts';

/** Hashes of words are taken modulo this. */
export const BUCKETS = 2 ** 20;
const MASK = BUCKETS - 1;

export interface Features {
  /** Buckets, in the order of the text. */
  readonly tokens: readonly number[];
  /** Hashes of the first letters of each word, in order. */
  readonly words: readonly number[];
  /** How it is built. */
  readonly structure: readonly Structure[];
  /** Phrases that are known. */
  readonly phrases: ReadonlySet<Phrase>;
}

export interface Extract {
  (submission: Text): Features;
  /** What phrases are about. */
  readonly kinds: readonly string[];
  /** The buckets of the words of a text, with where they are in it. */
  located(text: string): readonly Located[];
}

export interface Located {
  readonly bucket: number;
  readonly word: string;
}

const SEPARATOR = 0;
const LETTER = 1;
/** Scripts that put no space between words. */
const UNSPACED = 2;
const DIGIT = 3;
/** Stands inside of words, and is passed over: combining signs that change nothing, joiners. */
const IGNORED = 4;

/** The hash of nothing (FNV-1a). */
const EMPTY = 0x811c9dc5;
const PRIME = 0x01000193;
const NUMBER = 0x3a5f;
const PAIR = 0x9e3779b1;
const BEGINNING = 0x85ebca6b;
/** Longer words are told apart by their first letters as well. */
const BEGINNING_LENGTH = 5;
const MIN_LENGTH_FOR_BEGINNING = 7;
/** So many letters of a word are its stem. */
const STEM_LENGTH = 6;
/** A space: what ends the last word. */
const END = 32;

/** The extractor of features; it has a table of all characters, which is made once. */
export function createExtract(hosts: KnownHosts): Extract {
  const classes = classesOfCharacters();
  const phrases = readPhrases((text) => {
    const found: Tokens = { tokens: [], words: [] };
    tokenize(text, classes, found);
    return found.words;
  });

  function extract(submission: Text): Features {
    const found: Tokens = { tokens: [], words: [] };
    for (const text of wordsOf(submission)) tokenize(text, classes, found);
    return { ...found, structure: structureOf(submission, hosts), phrases: phrases.find(found.words) };
  }

  return Object.assign(extract, {
    kinds: phrases.kinds,
    located(text: string) {
      return (text.toLowerCase().match(/[\p{L}\p{M}]+/gu) ?? []).flatMap((word) => {
        const found: Tokens = { tokens: [], words: [] };
        tokenize(word, classes, found);
        return found.tokens.map((bucket) => ({ bucket, word }));
      });
    },
  });
}

function classesOfCharacters(): Uint8Array {
  const classes = new Uint8Array(65_536);
  for (let code = 0; code < classes.length; code++) classes[code] = classOf(String.fromCharCode(code));
  return classes;
}

/** Korean has spaces, but no two forms of a word are written alike: its syllables count as characters do. */
const WITHOUT_SPACES =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]/u;
/** Accents by themselves, vowel points of Hebrew and Arabic, and what cannot be seen. */
const WITHOUT_MEANING = /[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\p{Cf}]/u;

function classOf(character: string): number {
  if (PLACEHOLDERS.includes(character)) return LETTER;
  if (WITHOUT_SPACES.test(character)) return UNSPACED;
  if (WITHOUT_MEANING.test(character)) return IGNORED;
  if (/[\p{L}\p{M}]/u.test(character)) return LETTER;
  return /\p{N}/u.test(character) ? DIGIT : SEPARATOR;
}

interface Tokens {
  readonly tokens: number[];
  readonly words: number[];
}

function tokenize(given: string, classes: Uint8Array, found: Tokens): void {
  const { tokens, words } = found;
  const text = given.toLowerCase();
  let previous = EMPTY;
  let hash = EMPTY;
  let stem = EMPTY;
  let length = 0;
  let before = 0;
  let beforeThat = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : END;
    const kind = classes[code];
    if (kind === LETTER && hash !== NUMBER) {
      hash = Math.imul(hash ^ code, PRIME);
      if (length++ < STEM_LENGTH) stem = hash;
      if (length === BEGINNING_LENGTH && beginsLongWord(text, i, classes)) tokens.push(bucketOf(hash ^ BEGINNING));
      continue;
    }
    if (kind === IGNORED && length > 0) continue;
    // However many digits: a number.
    if (kind === DIGIT && hash === NUMBER) continue;
    if (length > 0) {
      tokens.push(bucketOf(hash));
      if (previous !== EMPTY) tokens.push(bucketOf(Math.imul(previous, PAIR) ^ hash));
      words.push(stem);
      previous = hash;
      hash = EMPTY;
      length = 0;
    }
    if (kind === DIGIT) {
      hash = NUMBER;
      stem = NUMBER;
      length = 1;
    } else if (kind === LETTER) {
      hash = Math.imul(EMPTY ^ code, PRIME);
      stem = hash;
      length = 1;
    } else if (kind === UNSPACED) {
      words.push(code);
      if (before !== 0) tokens.push(bucketOf(Math.imul(before ^ PAIR, PRIME) ^ code));
      if (beforeThat !== 0) {
        tokens.push(bucketOf(Math.imul(Math.imul(beforeThat ^ PAIR, PRIME) ^ before, PRIME) ^ code));
      }
      beforeThat = before;
      before = code;
      previous = EMPTY;
      continue;
    }
    before = 0;
    beforeThat = 0;
  }
}

function beginsLongWord(text: string, at: number, classes: Uint8Array): boolean {
  for (let next = at + 1; next < at + 1 + MIN_LENGTH_FOR_BEGINNING - BEGINNING_LENGTH; next++) {
    if (next >= text.length || classes[text.charCodeAt(next)] !== LETTER) return false;
  }
  return true;
}

/** Spreads what differs in few bits over all. */
function bucketOf(hash: number): number {
  const half = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  const whole = Math.imul(half ^ (half >>> 15), 0x846ca68b);
  return (whole ^ (whole >>> 16)) & MASK;
}

/** A text of less has too few words to be sure. */
const MIN_TOKENS = 40;

/** How much one word of a text of so many counts: long texts say no more than short ones. */
export function shareOf(tokens: number): number {
  return 1 / Math.sqrt(Math.max(tokens, MIN_TOKENS));
}
