/**
 * Phrases by what they are about, in many languages (phrases.txt): the usual kinds of spam, what offers are made of, and what
 * people write who want something. They tell the same of a language for which the model has seen few texts. What each kind
 * says the model knows; none makes spam of a text alone.
 */
import { readFileSync } from 'node:fs';

export interface Phrase {
  readonly kind: string;
  /** To be read: `page … of google`. */
  readonly text: string;
}

export interface Phrases {
  /** In the order of the file. */
  readonly kinds: readonly string[];
  /** The phrases among the words of a text, each once. */
  find(words: readonly number[]): ReadonlySet<Phrase>;
}

const FILE = new URL('phrases.txt', import.meta.url);

/** Reads the phrases; `wordsOf` gives the hashes of the words of one. */
export function readPhrases(wordsOf: (text: string) => readonly number[]): Phrases {
  const phrases = new Map<number, Phrase>();
  /** How phrases begin: elsewhere none is looked for. */
  const beginnings = new Set<number>();
  const kinds = new Set<string>();
  for (const [, kind = '', list = ''] of readFileSync(FILE, 'utf8').matchAll(/^([a-z ]+): (.+)$/gm)) {
    kinds.add(kind);
    for (const text of list.split('|')) {
      let key = START;
      for (const word of wordsOf(text)) {
        key = next(key, word);
        beginnings.add(key);
      }
      // In the file 0 is any number.
      if (key !== START && !phrases.has(key)) phrases.set(key, { kind, text: text.replace('0', '…') });
    }
  }
  return {
    kinds: [...kinds],
    find(words) {
      const found = new Set<Phrase>();
      for (let at = 0; at < words.length; at++) {
        let key = START;
        for (let end = at; end < words.length; end++) {
          key = next(key, words[end] ?? 0);
          if (!beginnings.has(key)) break;
          const phrase = phrases.get(key);
          if (phrase !== undefined) found.add(phrase);
        }
      }
      return found;
    },
  };
}

const START = 0x2545f491;

function next(key: number, word: number): number {
  return Math.imul(key ^ word, 0x01000193) ^ (word >>> 13);
}
