/** Text that is disguised, or drawn by lot: look-alike letters, invisible characters, random letters. Which language it is in is no sign. */
import type { Reason } from './reasons.ts';
import type { Value } from './text.ts';

/** Within words of Latin, Greek or Cyrillic letters; elsewhere joiners are spelling. */
const HIDDEN = /[A-Za-z\u0370-\u04ff][\u200b\u2060\ufeff\u00ad][A-Za-z\u0370-\u04ff]/;
const OVERRIDE = /[\u202d\u202e]/;
const SAMPLE = 4096;
/** So much of a text is read letter by letter. */
const READ = 32 * 1024;
/** So many words that mix scripts are looked for. */
const MAX_MIXED_WORDS = 3;

/** Cyrillic and Greek letters that look like these Latin ones. Alpha, mu, kappa and the like are left out: science uses them. */
const LOOK_ALIKES = new Map(
  'аa вb сc еe һh іi јj кk мm нh оo рp ѕs тt хx уy ԁd ԛq ԝw οo ρp νv ιi τt χx υu εe'
    .split(' ')
    .map(([letter = '', latin = '']) => [letter, latin]),
);
const MIXED = /(?:[a-z][\u0370-\u052f]|[\u0370-\u052f][a-z])/i;
const WORD = /[a-z\u0370-\u052f]+/gi;
const STYLED = /[\u{1d400}-\u{1d7ff}\uff21-\uff5a]/u;
const SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Arabic', 'Hebrew', 'Devanagari', 'Thai', 'Hangul', 'Han'] as const;
const LETTERS = SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'gu')] as const);

/** Text of Latin letters with accents and nothing else has nothing to look for. */
const BEYOND_LATIN = /[\u00ad\u0250-\u200f\u202a-\uffff]/;

/** The text with look-alike and styled letters as the Latin ones that they stand for, for whoever looks for words. */
export function undisguised(text: string): string {
  if (!BEYOND_LATIN.test(text) || (!STYLED.test(text) && !MIXED.test(text))) return text;
  const start = text.slice(0, READ).normalize('NFKC');
  return start.replace(WORD, (word) => (MIXED.test(word) ? latinOf(word) : word)) + text.slice(READ);
}

/** What the writing itself says; `own` gives the texts of the form. */
export function disguiseReasons(text: string, own: () => string, hasLinks: boolean): Reason[] {
  if (!BEYOND_LATIN.test(text)) return [];
  const reasons: Reason[] = [];
  if (text.split(HIDDEN, 4).length === 4 || OVERRIDE.test(text)) {
    reasons.push({ name: 'hidden_characters', score: 10, detail: 'characters that cannot be seen' });
  }
  const mixed = mixedWords(text);
  const foreign = hasLinks ? foreignScript(text, own()) : undefined;
  const details = [
    mixed.length === 0 ? [] : `letters of two scripts in ${mixed.join(', ')}`,
    foreign === undefined ? [] : `a link in ${foreign} text, which the form never uses`,
  ].flat();
  if (details.length > 0) {
    const score = (mixed.length === 0 ? 0 : mixed.length < MAX_MIXED_WORDS ? 5 : 20) + (foreign === undefined ? 0 : 4);
    reasons.push({ name: 'script_mismatch', score, detail: details.join('; ') });
  }
  return reasons;
}

/** Different words that are Latin but for look-alikes, or the other way round; at most MAX_MIXED_WORDS. */
function mixedWords(text: string): string[] {
  if (!MIXED.test(text)) return [];
  const found = new Set<string>();
  for (const [word] of text.slice(0, READ).matchAll(WORD)) {
    if (word.length < 4 || !MIXED.test(word) || !/^[a-z]+$/i.test(latinOf(word))) continue;
    found.add(word.slice(0, 30));
    if (found.size === MAX_MIXED_WORDS) break;
  }
  return [...found];
}

function latinOf(word: string): string {
  let latin = '';
  for (const letter of word) latin += LOOK_ALIKES.get(letter.toLowerCase()) ?? letter;
  return latin;
}

function foreignScript(text: string, own: string): string | undefined {
  const known = new Set(scriptsOf(own).map(([script]) => script));
  const [main] = scriptsOf(text.replaceAll(/(?:https?:\/\/|www\.)\S+/g, ' ').slice(0, SAMPLE));
  return known.size === 0 || main === undefined || main[0] === 'Latin' || known.has(main[0]) ? undefined : main[0];
}

/** The scripts of a text and how many letters each has, the most used first. */
function scriptsOf(text: string): [script: (typeof SCRIPTS)[number], count: number][] {
  return LETTERS.map(([script, letters]): [typeof script, number] => [script, text.match(letters)?.length ?? 0])
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
}

/**
 * First letters, and behind each those that follow it in fewer than two of a thousand words of every one of 45 languages that are
 * written with Latin letters: word lists of American English, Croatian, Czech, Danish, Dutch, French, German, Hungarian,
 * Italian, Polish, Portuguese, Romanian, Spanish, Swedish and Turkish, and the names of languages, countries and currencies
 * in CLDR for the others. Of their words of eight letters at most one in ten thousand counts as random.
 */
const RARE =
  'bcdkmpqvx cbdfgpwx dqx fckmnpqwx gcfpqx hcdfhpqx jbhjqwxy kdfqxz lqx mqvwxz nx pdmqwxz qbcdfghjklmnpqstwxyz rx sx tq vbdfghmpqwx wbdfgjmqtvwx xbdfgjklmnqrsuvwxyz yqxy zqx';
/** Such a pair, of which the first letter is consumed. */
const RARE_PAIR = new RegExp(RARE.replaceAll(/(\w)(\w+) ?/g, '$1(?=[$2])|').slice(0, -1), 'gi');
const MIN_WORD_LENGTH = 8;
const GIBBERISH_SAMPLE = 4096;
const TOKEN = /[^\s,;:!?()"“”]+/g;
const LONG_WORD = /[A-Za-z]{8,}/g;
const LETTERS_ONLY = /^[A-Za-z]+\.?$/;
const ROMAN = /^[ivxlcdm]+$/i;
/** Looks like data of its own kind, whose letters say nothing. */
const NO_TEXT = /[@\d]|:\/\//;

/** What random letters say. */
export function gibberishReasons(values: readonly Value[]): Reason[] {
  if (!values.some(({ text }) => text.slice(0, GIBBERISH_SAMPLE).match(LONG_WORD)?.some(hasRarePair))) return [];
  let letters = 0;
  let random = 0;
  let example = '';
  for (const { text } of values) {
    for (const [token] of text.slice(0, GIBBERISH_SAMPLE).matchAll(TOKEN)) {
      if (NO_TEXT.test(token)) continue;
      letters += token.length;
      if (!LETTERS_ONLY.test(token) || !isRandom(token)) continue;
      random += token.length;
      example ||= token.slice(0, 30);
    }
  }
  const isMessage = isRandomMessage(values);
  if (!isMessage && (random === 0 || random < letters / 2)) return [];
  const score = isNothingElse(values) ? 50 : isMessage ? 36 : random > letters * 0.8 ? 24 : 12;
  return [{ name: 'gibberish', score, detail: example === '' ? 'random letters' : `random letters: ${example}` }];
}

function hasRarePair(word: string): boolean {
  return count(word, RARE_PAIR) > 0 || isRandom(word);
}

/** Whether letters were drawn by lot. */
function isRandom(word: string): boolean {
  if (word.length < MIN_WORD_LENGTH || ROMAN.test(word)) return false;
  const rare = count(word, RARE_PAIR);
  const isRare = rare >= 3 || (rare === 2 && word.length <= 11);
  return isRare || count(word, INNER_CAPITAL) >= Math.max(3, word.length / 4.2);
}

/** Whether what was written beside names, addresses and numbers is words of random letters alone. */
function isRandomMessage(values: readonly Value[]): boolean {
  const written = values.flatMap(({ text, kind }) => (kind === 'words' && /\p{L}{2}/u.test(text) ? [text.trim()] : []));
  const longest = written.reduce((one, text) => (text.length > one.length ? text : one), '');
  const tokens = longest.slice(0, GIBBERISH_SAMPLE).match(TOKEN) ?? [];
  if (tokens.length === 0 || !tokens.every((token) => LETTERS_ONLY.test(token))) return false;
  // Where there is nothing else but one long word or two, two rare pairs are enough.
  const isShort = tokens.length <= 2 && tokens.every((token) => token.length > MIN_WORD_LENGTH && !ROMAN.test(token));
  return tokens.every(isRandom) || (isShort && tokens.reduce((sum, token) => sum + count(token, RARE_PAIR), 0) >= 2);
}

/** `camelCase` has one. */
const INNER_CAPITAL = /[a-z](?=[A-Z])/g;

function count(word: string, pattern: RegExp): number {
  return word.match(pattern)?.length ?? 0;
}

/** Whether all that was written are words with inner capitals, different ones in two fields or more. */
function isNothingElse(values: readonly Value[]): boolean {
  const texts = new Set(
    values.map(({ text }) => text.trim()).filter((text) => !NO_TEXT.test(text) && /\p{L}/u.test(text)),
  );
  return (
    texts.size >= 2 &&
    [...texts].every(
      (text) => text.length >= MIN_WORD_LENGTH && LETTERS_ONLY.test(text) && count(text, INNER_CAPITAL) > 0,
    )
  );
}
