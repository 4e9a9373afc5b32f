/**
 * Text that hides what it says: invisible characters, look-alike letters of another script, capitals. To write in any one
 * language is no sign of anything, nor is to write in two.
 */
import type { Reason } from './reasons.ts';

/** Within words of Latin, Greek or Cyrillic letters; elsewhere joiners are spelling. */
const HIDDEN = /[A-Za-z\u0370-\u04ff][\u200b\u2060\ufeff\u00ad][A-Za-z\u0370-\u04ff]/;
const OVERRIDE = /[\u202d\u202e]/;
const SAMPLE = 4096;
/** So much of a text is read letter by letter. */
const READ = 32 * 1024;
/** So many words that mix scripts are looked for. */
const MOST = 3;

/** Cyrillic and Greek letters that look like these Latin ones. Alpha, mu, kappa and the like are left out: science uses them. */
const LOOK_ALIKES = new Map(
  Object.entries({
    а: 'a',
    в: 'b',
    с: 'c',
    е: 'e',
    һ: 'h',
    і: 'i',
    ј: 'j',
    к: 'k',
    м: 'm',
    н: 'h',
    о: 'o',
    р: 'p',
    ѕ: 's',
    т: 't',
    х: 'x',
    у: 'y',
    ԁ: 'd',
    ԛ: 'q',
    ԝ: 'w',
    ο: 'o',
    ρ: 'p',
    ν: 'v',
    ι: 'i',
    τ: 't',
    χ: 'x',
    υ: 'u',
    ε: 'e',
  }),
);
const MIXED = /(?:[a-z][\u0370-\u052f]|[\u0370-\u052f][a-z])/i;
const WORD = /[a-z\u0370-\u052f]+/gi;
const STYLED = /[\u{1d400}-\u{1d7ff}\uff21-\uff5a]/u;
const SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Arabic', 'Hebrew', 'Devanagari', 'Thai', 'Hangul', 'Han'] as const;
const LETTERS = SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'gu')] as const);

/** The text with look-alike and styled letters as the Latin ones that they stand for, for whoever looks for words. */
export function undisguised(text: string): string {
  if (!STYLED.test(text) && !MIXED.test(text)) return text;
  const start = text.slice(0, READ).normalize('NFKC');
  return start.replace(WORD, (word) => (MIXED.test(word) ? latinOf(word) : word)) + text.slice(READ);
}

/** What the writing itself says; `own` gives the texts of the form. */
export function disguiseReasons(text: string, own: () => string, hasLinks: boolean): Reason[] {
  const reasons: Reason[] = [];
  if (text.split(HIDDEN, 4).length === 4 || OVERRIDE.test(text)) {
    reasons.push({ name: 'hidden_characters', score: 4, detail: 'characters that cannot be seen' });
  }
  if (isShouting(text.slice(0, SAMPLE))) {
    reasons.push({ name: 'shouting', score: 2, detail: 'capital letters nearly alone' });
  }
  const mixed = mixedWords(text);
  const foreign = hasLinks ? foreignScript(text, own()) : undefined;
  const details = [
    mixed.length === 0 ? [] : `letters of two scripts in ${mixed.join(', ')}`,
    foreign === undefined ? [] : `a link in ${foreign} text, which the form never uses`,
  ].flat();
  if (details.length > 0) {
    const score = (mixed.length === 0 ? 0 : mixed.length < MOST ? 2 : 6) + (foreign === undefined ? 0 : 2);
    reasons.push({ name: 'script_mismatch', score, detail: details.join('; ') });
  }
  return reasons;
}

function isShouting(sample: string): boolean {
  const capitals = sample.match(/\p{Lu}/gu)?.length ?? 0;
  return capitals >= 40 && capitals > (sample.match(/\p{Ll}/gu)?.length ?? 0) * 5;
}

/** Different words that are Latin but for look-alikes, or the other way round; at most MOST. */
function mixedWords(text: string): string[] {
  if (!MIXED.test(text)) return [];
  const found = new Set<string>();
  for (const [word] of text.slice(0, READ).matchAll(WORD)) {
    if (word.length < 4 || !MIXED.test(word) || !/^[a-z]+$/i.test(latinOf(word))) continue;
    found.add(word.slice(0, 30));
    if (found.size === MOST) break;
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
