/**
 * The signs of spam that a form's owner sees by name: what each may score, and how those are found that need no model. They
 * are in the text (what it is made of, how its letters are disguised), in the request that brought it, in what was posted to
 * other forms, and in the form's own blocklist.
 */
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import ipaddr from 'ipaddr.js';
import type { Clock } from '../../lib/clock.ts';
import { LruMap } from '../../lib/lru.ts';
import type { TokenState } from '../challenges.ts';
import {
  isCommon,
  isFreeHost,
  isMessenger,
  isShortener,
  linksOf,
  registeredName,
  type Link,
  type Text,
  type Value,
  type Visit,
} from './text.ts';

/**
 * A sign, and what it may score. Ten points make spam ten times as likely (they are decibans: the
 * odds in tenths of a power of ten), so that points add up and their sum is a probability. docs/spam.md has this table in words.
 */
interface Kind {
  /** The least and the most that it scores. */
  readonly points: readonly [least: number, most: number];
  readonly what: string;
}

export const REASONS = {
  honeypot: { points: [100, 100], what: 'a field that people do not see was filled in' },
  blocklist: { points: [100, 100], what: 'a word, address, domain or network on the form’s blocklist' },
  max_per_hour: {
    points: [100, 100],
    what: 'over the form’s hourly limit (`max_per_hour`); the visitor sees success',
  },
  words: { points: [-60, 60], what: 'its words, and pairs of words, as the shipped model rates them' },
  structure: {
    points: [-40, 40],
    what: 'its structure: links (shortened, without `https://`, to free hosts, messengers and cheap domains), amounts of money, the form of name and address',
  },
  learned: { points: [-40, 40], what: 'its words, as rated by the project’s own decisions (spam, not spam)' },
  phrases: {
    points: [-40, 40],
    what: 'phrases of the usual kinds of spam, of offers, and of people who ask for something, in 20 languages',
  },
  repeated_text: { points: [4, 35], what: 'much of the text was posted to other forms on this server' },
  repeated_link: { points: [4, 12], what: 'a link to a domain that was posted to other forms on this server' },
  links: { points: [3, 12], what: 'more than six links' },
  mostly_links: { points: [8, 20], what: 'three links or more, and little else: 20; a link and nothing else: 8' },
  link_markup: { points: [3, 12], what: '`[url=…]` or three `<a href=…>`: 12; one or two `<a href=…>`: 3' },
  link_in_name: { points: [25, 25], what: 'a link where a person’s name belongs' },
  header_injection: { points: [60, 60], what: 'a line break and a mail header in a single-line field' },
  header_lines: { points: [10, 60], what: 'MIME headers: 10; a `Bcc:` line with an address: 15; both: 60' },
  line_breaks: { points: [8, 8], what: 'a line break in a single-line field' },
  probe: { points: [36, 36], what: 'code that a vulnerability scanner tries, without other words' },
  same_text: { points: [15, 30], what: 'the same longer text in three fields or more: 15; with a link: 30' },
  repetition: { points: [10, 15], what: 'one character 50 times in a row: 10; few words over and over: 15' },
  script_mismatch: {
    points: [4, 24],
    what: 'words that mix look-alike letters of two scripts: 5, from the third on 20; a link in a script that the form never uses: 4',
  },
  hidden_characters: { points: [10, 10], what: 'invisible characters within words, or overridden writing direction' },
  gibberish: {
    points: [12, 50],
    what: 'mostly random letters: 12; almost nothing else: 24; a message of nothing else: 36; nothing but words of random capitals in two fields or more: 50',
  },
  disposable_address: { points: [9, 9], what: 'a disposable email address' },
  no_mx: { points: [10, 10], what: 'an email address whose domain accepts no mail' },
  headers: {
    points: [2, 10],
    what: 'the request claims to come from a browser, or a program, but its headers say otherwise',
  },
  page_token: {
    points: [10, 12],
    what: 'the page’s token: sent faster than people write: 12; used before or forged: 10',
  },
  challenge: { points: [-4, -4], what: 'the visitor passed the form’s challenge' },
  test: { points: [0, 0], what: 'a test sent through the API or the console' },
  akismet: { points: [20, 20], what: 'the configured Akismet service classifies it as spam' },
  rspamd: { points: [-3, 20], what: 'the verdict of the configured rspamd server' },
} as const satisfies Readonly<Record<string, Kind>>;

export type ReasonName = keyof typeof REASONS;

/** Why something may be spam. */
export interface Reason {
  readonly name: ReasonName;
  readonly score: number;
  /** For the owner of the form. */
  readonly detail: string;
}

// What a submission is made of: links, markup, mail headers, and what repeats itself in it.

const PERSON = /^(?:first|last|full|user|your|sur|family|given)?[ _-]?name$/i;
const BBCODE = /\[(?:url|link)=|\[url\][^[]{0,300}\[\/url/i;
const ANCHOR = /<a\s[^<>]{0,40}?href/gi;
/** Honest mail has as many now and then: products of an order, photographs. */
const MANY_LINKS = 6;
const MAX_BARE_LENGTH = 400;

/** What the links of a submission say beside that there are some. */
export function linkReasons({ values, text, links }: Text): Reason[] {
  const reasons: Reason[] = [];
  if (links.length > MANY_LINKS) {
    reasons.push({
      name: 'links',
      score: Math.min(12, links.length - MANY_LINKS + 2),
      detail: `${links.length} links`,
    });
  }
  if (links.length >= 3 && links.reduce((sum, link) => sum + link.text.length, 0) > text.length / 2) {
    reasons.push({ name: 'mostly_links', score: 20, detail: 'little text besides the links' });
  } else if (links.length > 0 && isNothingElse(values)) {
    reasons.push({ name: 'mostly_links', score: 8, detail: 'a link and nothing else' });
  }
  return [...reasons, ...markupReasons(text), ...nameReasons(values)];
}

/** Whether what was written beside names and addresses has no word that is not of a link. */
function isNothingElse(values: readonly Value[]): boolean {
  return values.every(({ text, kind }) => kind !== 'words' || !/\p{L}{2}/u.test(withoutLinks(text)));
}

function withoutLinks(text: string): string {
  if (text.length > MAX_BARE_LENGTH) return text;
  let left = text;
  for (const link of linksOf(text)) left = left.replace(link.text, ' ');
  return left;
}

function markupReasons(text: string): Reason[] {
  if (!text.includes('[') && !text.includes('<')) return [];
  const anchors = text.match(ANCHOR)?.length ?? 0;
  const bbcode = BBCODE.test(text);
  if (anchors === 0 && !bbcode) return [];
  const score = bbcode || anchors >= 3 ? 12 : 3;
  return [{ name: 'link_markup', score, detail: bbcode ? 'links in BBCode' : 'links in HTML' }];
}

function nameReasons(values: readonly Value[]): Reason[] {
  const odd = values.find(({ name, text }) => PERSON.test(name) && linksOf(text).length > 0);
  return odd === undefined
    ? []
    : [{ name: 'link_in_name', score: 25, detail: `in the field ${odd.name.slice(0, 60)}` }];
}

const ONE_LINE = /^(?:.*[ _-])?(?:name|e-?mail|subject|phone|tel|company|_replyto)$/i;
const HEADER_AFTER_BREAK =
  /[\r\n][ \t]{0,20}(?:bcc|cc|to|from|reply-to|subject|content-type|content-transfer-encoding|mime-version)[ \t]{0,20}:/i;
const BCC_LINE = /^[ \t]{0,20}bcc[ \t]{0,20}:[^\r\n]{0,200}@/im;
const MIME_LINE = /^[ \t]{0,20}(?:mime-version|content-type|content-transfer-encoding)[ \t]{0,20}:/im;

/** What lines that look like mail headers say. */
export function headerReasons(values: readonly Value[], text: string): Reason[] {
  const reasons = values.flatMap(({ name, text: value }): Reason[] => {
    if (!/[\r\n]/.test(value) || !ONE_LINE.test(name)) return [];
    const detail = `in the field ${name.slice(0, 60)}`;
    if (HEADER_AFTER_BREAK.test(value)) {
      return [{ name: 'header_injection', score: 60, detail: `a mail header ${detail}` }];
    }
    return /[\r\n]/.test(value.trim()) ? [{ name: 'line_breaks', score: 8, detail }] : [];
  });
  return [...reasons, ...lineReasons(text)];
}

function lineReasons(text: string): Reason[] {
  if (!text.includes(':')) return [];
  const bcc = BCC_LINE.test(text);
  const mime = MIME_LINE.test(text);
  if (!bcc && !mime) return [];
  const score = (bcc ? 15 : 0) + (mime ? 10 : 0) + (bcc && mime ? 35 : 0);
  return [{ name: 'header_lines', score, detail: bcc ? 'a Bcc line' : 'MIME headers' }];
}

/** What vulnerability scanners type into every field of a site: code for a database, a shell, a template or a browser. */
const PROBES = [
  /['"]\s{0,9}(?:or|and|xor)\b[\s('"]{0,9}\w{1,20}['"]?\s{0,9}[=(]/i,
  /\bunion\s{1,9}(?:all\s{1,9})?select\b|@@[a-z_]{4,}/i,
  /(?:\.\.[\\/]){3}|\/etc\/passwd\b/i,
  /\$\{(?:jndi|env|sys):|\{\{\s?\d{1,9}\s?\*\s?\d{1,9}\s?\}\}|<%=?\s?\d{1,9}\s?\*/i,
  /<!--#(?:exec|include)\b|<script\b[^<>]{0,100}>\s?(?:alert|prompt|confirm|eval)\b/i,
  /\b(?:pg_sleep|load_file|extractvalue|response\.write|print\(md5)\s?\(|\bsleep\(\d{1,4}\)|\bwaitfor\s{1,9}delay\b/i,
];
/** Each of them has one of these. */
const MAYBE_PROBE = /['"\\/{<(]|@@|union|waitfor/i;
const PROSE_WORD = /(?<![\p{L}\p{N}_.])\p{L}{3,}(?![\p{L}\p{N}_(])/gu;
const CODE_WORD = /^(?:all|alert|and|delay|from|null|select|sleep|table|union|waitfor|where|xor)$/i;
/** A person who reports a hole says where it is. */
const MAX_PROSE_WORDS = 3;

/** What code for a scanner's test says, where there is no word beside it. */
export function probeReasons(values: readonly Value[]): Reason[] {
  const probe = values.find(({ text }) => {
    if (text.length > MAX_BARE_LENGTH || !MAYBE_PROBE.test(text)) return false;
    if (!PROBES.some((pattern) => pattern.test(text))) return false;
    return (text.match(PROSE_WORD) ?? []).filter((word) => !CODE_WORD.test(word)).length <= MAX_PROSE_WORDS;
  });
  return probe === undefined
    ? []
    : [{ name: 'probe', score: 36, detail: `a vulnerability test in the field ${probe.name.slice(0, 60)}` }];
}

/** So many words show whether a text is monotonous. */
const MAX_COUNTED_WORDS = 4000;

/** What repeats itself in a submission. */
export function repetitionReasons({ values, text }: Text, words: readonly number[]): Reason[] {
  const reasons = sameTexts(values);
  if (hasRun(text, 50)) reasons.push({ name: 'repetition', score: 10, detail: 'one character over and over' });
  else if (isMonotonous(words)) reasons.push({ name: 'repetition', score: 15, detail: 'few words over and over' });
  return reasons;
}

function sameTexts(values: readonly Value[]): Reason[] {
  const counts = new Map<string, number>();
  for (const { text } of values) {
    if (text.length < 15) continue;
    const count = (counts.get(text) ?? 0) + 1;
    if (count === 3) {
      const score = linksOf(text).length > 0 ? 30 : 15;
      return [{ name: 'same_text', score, detail: 'the same text in three fields or more' }];
    }
    counts.set(text, count);
  }
  return [];
}

/** Whether a letter or digit stands so often in a row; lines of dashes and blanks are honest. */
function hasRun(text: string, length: number): boolean {
  let run = 0;
  let previous = -1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    run = code === previous ? run + 1 : 1;
    previous = code;
    if (run === length && /[\p{L}\p{N}]/u.test(text.charAt(i))) return true;
  }
  return false;
}

function isMonotonous(words: readonly number[]): boolean {
  if (words.length < 60) return false;
  const sample = words.slice(0, MAX_COUNTED_WORDS);
  return new Set(sample).size < Math.min(30, sample.length / 5);
}

// Disguised and random text: look-alike letters, invisible characters, random letters. Which language it is in is no sign.

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
const MIXABLE_WORD = /[a-z\u0370-\u052f]+/gi;
const STYLED = /[\u{1d400}-\u{1d7ff}\uff21-\uff5a]/u;
const SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Arabic', 'Hebrew', 'Devanagari', 'Thai', 'Hangul', 'Han'] as const;
const LETTERS = SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'gu')] as const);

/** Text of Latin letters with accents and nothing else has nothing to look for. */
const BEYOND_LATIN = /[\u00ad\u0250-\u200f\u202a-\uffff]/;

/** The text with look-alike and styled letters as the Latin ones that they stand for, for whoever looks for words. */
export function undisguised(text: string): string {
  if (!BEYOND_LATIN.test(text) || (!STYLED.test(text) && !MIXED.test(text))) return text;
  const start = text.slice(0, READ).normalize('NFKC');
  return start.replace(MIXABLE_WORD, (word) => (MIXED.test(word) ? latinOf(word) : word)) + text.slice(READ);
}

/** What the writing itself says; `own` gives the texts of the form. */
export function disguiseReasons(text: string, own: () => string, hasLinks: boolean): Reason[] {
  if (!BEYOND_LATIN.test(text)) return [];
  const reasons: Reason[] = [];
  if (text.split(HIDDEN, 4).length === 4 || OVERRIDE.test(text)) {
    reasons.push({ name: 'hidden_characters', score: 10, detail: 'invisible characters' });
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
  for (const [word] of text.slice(0, READ).matchAll(MIXABLE_WORD)) {
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
/** By both letters, as 5 bits each: whether they are such a pair. */
const RARE_PAIRS = rarePairs();
const MIN_WORD_LENGTH = 8;
const GIBBERISH_SAMPLE = 4096;
const TOKEN = /[^\s,;:!?()"“”]+/g;
const LETTERS_ONLY = /^[A-Za-z]+\.?$/;
const ROMAN = /^[ivxlcdm]+$/i;
/** Looks like data of its own kind, whose letters say nothing. */
const NO_TEXT = /[@\d]|:\/\//;

/** What random letters say. */
export function gibberishReasons(values: readonly Value[]): Reason[] {
  if (!values.some(({ text }) => hasOddWord(text))) return [];
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
  const score = isOnlyRandom(values) ? 50 : isMessage ? 36 : random > letters * 0.8 ? 24 : 12;
  return [{ name: 'gibberish', score, detail: example === '' ? 'random letters' : `random letters: ${example}` }];
}

/** Whether a long run of letters has a rare pair, or looks as if drawn by lot: next to no honest text has one. */
function hasOddWord(text: string): boolean {
  const length = Math.min(text.length, GIBBERISH_SAMPLE);
  let start = 0;
  for (let i = 0; i <= length; i++) {
    if (i < length && isLetter(text.charCodeAt(i))) continue;
    if (i - start >= MIN_WORD_LENGTH) {
      const word = text.slice(start, i);
      if (rarePairsOf(word) > 0 || isRandom(word)) return true;
    }
    start = i + 1;
  }
  return false;
}

/** Whether letters were drawn by lot. */
function isRandom(word: string): boolean {
  if (word.length < MIN_WORD_LENGTH) return false;
  const rare = rarePairsOf(word);
  const isRare = rare >= 3 || (rare === 2 && word.length <= 11);
  return (isRare || countOf(word, INNER_CAPITAL) >= Math.max(3, word.length / 4.2)) && !ROMAN.test(word);
}

function rarePairs(): Uint8Array {
  const pairs = new Uint8Array(1024);
  for (const [first = '', ...seconds] of RARE.split(' ')) {
    for (const second of seconds) pairs[pairOf(first.charCodeAt(0), second.charCodeAt(0))] = 1;
  }
  return pairs;
}

function rarePairsOf(word: string): number {
  let rare = 0;
  for (let i = 1; i < word.length; i++) {
    const first = word.charCodeAt(i - 1);
    const second = word.charCodeAt(i);
    if (isLetter(first) && isLetter(second)) rare += RARE_PAIRS[pairOf(first, second)] ?? 0;
  }
  return rare;
}

/** Of the 52 letters of ASCII, whatever their case. */
function pairOf(first: number, second: number): number {
  return ((first & 31) << 5) | (second & 31);
}

function isLetter(code: number): boolean {
  const small = code | 32;
  return small >= 97 && small <= 122;
}

/** Whether what was written beside names, addresses and numbers is words of random letters alone. */
function isRandomMessage(values: readonly Value[]): boolean {
  const written = values.flatMap(({ text, kind }) => (kind === 'words' && /\p{L}{2}/u.test(text) ? [text.trim()] : []));
  const longest = written.reduce((one, text) => (text.length > one.length ? text : one), '');
  const tokens = longest.slice(0, GIBBERISH_SAMPLE).match(TOKEN) ?? [];
  if (tokens.length === 0 || !tokens.every((token) => LETTERS_ONLY.test(token))) return false;
  // Where there is nothing else but one long word or two, two rare pairs are enough.
  const isShort = tokens.length <= 2 && tokens.every((token) => token.length > MIN_WORD_LENGTH && !ROMAN.test(token));
  return tokens.every(isRandom) || (isShort && tokens.reduce((sum, token) => sum + rarePairsOf(token), 0) >= 2);
}

/** `camelCase` has one. */
const INNER_CAPITAL = /[a-z](?=[A-Z])/g;

function countOf(word: string, pattern: RegExp): number {
  return word.match(pattern)?.length ?? 0;
}

/** Whether all that was written are words with inner capitals, different ones in two fields or more. */
function isOnlyRandom(values: readonly Value[]): boolean {
  const texts = new Set(
    values.map(({ text }) => text.trim()).filter((text) => !NO_TEXT.test(text) && /\p{L}/u.test(text)),
  );
  return (
    texts.size >= 2 &&
    [...texts].every(
      (text) => text.length >= MIN_WORD_LENGTH && LETTERS_ONLY.test(text) && countOf(text, INNER_CAPITAL) > 0,
    )
  );
}

// The request that brought the submission: whether its headers are those of the program that it claims to be
// (browsers send `Accept-Language`, and over HTTPS `Sec-Fetch-*`), and what the page's token and challenge said. Programs
// may post to forms, so none of that makes spam of a text that is none. And what the domain of the visitor's address says.

const TOKENS: Readonly<Record<TokenState, readonly [points: number, detail: string]>> = {
  // A program in a browser has one as well: it would hide half of the spam that its text shows.
  valid: [0, ''],
  missing: [0, ''],
  'too fast': [12, 'sent faster than people write'],
  used: [10, 'the page token was used before'],
  expired: [0, ''],
  forged: [10, 'the page token is not from this server'],
};

/** What the request says. */
export function visitReasons({ headers, hasKey, isSecure, token, challenge }: Visit): Reason[] {
  const reasons: Reason[] = [];
  const [score, detail] = token === undefined ? [0, ''] : TOKENS[token];
  if (score !== 0) reasons.push({ name: 'page_token', score, detail });
  if (challenge === 'passed') reasons.push({ name: 'challenge', score: -4, detail: 'passed' });
  if (headers !== undefined && hasKey !== true) reasons.push(...requestReasons(headers, isSecure === true));
  return reasons;
}

const PROGRAM =
  /^(?:python|curl|wget|go-http|java|okhttp|libwww|lwp|axios|node|undici|php|guzzle|scrapy|ruby|perl|httpie|apache-http|postman|insomnia)/i;
const HEADLESS = /headless|phantomjs|puppeteer|playwright|selenium|slimerjs/i;
/** Chromium since 80 (2020), Firefox since 90 (2021). */
const SENDS_FETCH_METADATA = /chrome\/(?:8\d|9\d|\d{3})|firefox\/(?:9\d|\d{3})/i;
const OLD = /msie \d|trident\/|chrome\/[1-6]?\d\.|firefox\/[1-6]?\d\.|windows nt 5|presto\//i;

function requestReasons(headers: NonNullable<Visit['headers']>, isSecure: boolean): Reason[] {
  const agent = String(headers['user-agent'] ?? '');
  const site = headers['sec-fetch-site'];
  const odd: [points: number, detail: string][] = [];
  if (agent === '') odd.push([3, 'no User-Agent']);
  else if (PROGRAM.test(agent)) odd.push([2, 'a program other than a browser']);
  else if (HEADLESS.test(agent)) odd.push([6, 'a headless browser']);
  else if (/^mozilla/i.test(agent)) {
    if (headers['accept-language'] === undefined) odd.push([4, 'a browser without Accept-Language']);
    if (isSecure && site === undefined && SENDS_FETCH_METADATA.test(agent)) {
      odd.push([4, 'a browser without Sec-Fetch-Site']);
    }
    if (OLD.test(agent)) odd.push([4, 'a browser that is more than ten years old']);
  }
  if (site === 'none') odd.push([2, 'a post that no page sent']);
  if (odd.length === 0) return [];
  const score = Math.min(
    10,
    odd.reduce((sum, [points]) => sum + points, 0),
  );
  return [{ name: 'headers', score, detail: odd.map(([, detail]) => detail).join(', ') }];
}

/** Whether the domain certainly takes no mail. What DNS cannot say is no. */
export type RefusesMail = (domain: string) => Promise<boolean>;

export const NO_MX_POINTS = 10;

/** The reason that a domain without mail gives. */
export function noMx(domain: string): Reason {
  return { name: 'no_mx', score: NO_MX_POINTS, detail: `${domain} accepts no mail` };
}

/** Domains of mail addresses that are thrown away after use, as the community lists them. */
const DISPOSABLE = disposableEmailBlocklistSet();

/** The reason that an address at such a domain gives. */
export function disposableReasons(domain: string | undefined): Reason[] {
  if (domain === undefined || !isBelow(DISPOSABLE, domain.toLowerCase())) return [];
  return [{ name: 'disposable_address', score: 9, detail: domain }];
}

/** Such services have names below their own as well. */
function isBelow(known: ReadonlySet<string>, domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (known.has(name)) return true;
  }
  return false;
}

// The form's blocklist (`spam_protection.blocklist`): words, addresses, domains and networks.

type Network = ReturnType<typeof ipaddr.parseCIDR>;

/** The first entry that the text or the visitor's address matches, as the form has it. */
export function blockedBy(
  blocklist: readonly string[],
  { text, ip }: { text: string; ip: string },
): string | undefined {
  if (blocklist.length === 0) return undefined;
  const lower = text.toLowerCase();
  const address = ipaddr.isValid(ip) ? ipaddr.process(ip) : undefined;
  return blocklist.find((entry) => {
    const network = networkOf(entry);
    if (network !== undefined) return address !== undefined && isWithin(address, network);
    const wanted = entry.trim().toLowerCase();
    return wanted !== '' && holds(lower, wanted);
  });
}

/** `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`. */
function networkOf(entry: string): Network | undefined {
  if (!/^[0-9a-f.:]+(?:\/\d{1,3})?$/i.test(entry)) return undefined;
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  if (!ipaddr.IPv4.isValidFourPartDecimal(entry) && !ipaddr.IPv6.isValid(entry)) return undefined;
  const address = ipaddr.process(entry);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6, [network, bits]: Network): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

/** A host name or mail address as such, not as a part of another: `evil.com` also blocks `www.evil.com`, not `notevil.com`. */
const HOST = /^[^\s/]+\.[^\s./]+$/;
const WORD = /[\p{L}\p{N}]/u;
const HOST_CHARACTER = /[\p{L}\p{N}-]/u;
const LOCAL_CHARACTER = /[\p{L}\p{N}._%+-]/u;
/** These scripts put no space between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

function holds(text: string, wanted: string): boolean {
  const host = HOST.test(wanted);
  const before = wanted.includes('@') ? LOCAL_CHARACTER : host ? HOST_CHARACTER : WORD;
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) {
    const end = at + wanted.length;
    const first = UNSPACED.test(wanted.charAt(0)) || !before.test(text.charAt(at - 1));
    if (first && endsThere(text, end, { host, last: wanted.charAt(wanted.length - 1) })) return true;
  }
  return false;
}

function endsThere(text: string, end: number, { host, last }: { host: boolean; last: string }): boolean {
  const next = text.charAt(end);
  if (!host) return UNSPACED.test(last) || !WORD.test(next);
  return !HOST_CHARACTER.test(next) && !(next === '.' && HOST_CHARACTER.test(text.charAt(end + 1)));
}

// What was posted to several forms of this server: the same text, or most of it, and links to the same domain. A text is
// known by the least hashes of its rows of words, so that another greeting or name changes little. What is kept is bounded
// and in memory; at a start, and where several daemons share a database, it is read from the submissions that are stored.
// One visitor who repeats a message to one form is a matter of limits and is not counted here.

interface Posted {
  /** Hashes of its words, in order. */
  readonly words: readonly number[];
  readonly links: readonly Link[];
  readonly email: string | undefined;
  /** The form's id. */
  readonly form: string;
  /** The form's domain. */
  readonly domain: string;
}

export interface Repetition {
  /** Remembers the submission, and says what of it other forms have seen before. */
  note(posted: Posted): Reason[];
}

/** Marks that are kept; each takes some 200 bytes. */
const MAX_MARKS = 30_000;
/** Forms that are told apart for one mark. */
const MAX_FORMS = 8;
/** Marks are forgotten after this without another. */
const KEPT_MS = 48 * 3_600_000;
/** Shorter texts are alike by chance. */
const MIN_WORDS = 12;
const ROW_OF_WORDS = 4;
const MARKS_PER_TEXT = 4;
/** Of the marks of a text, as many must be known. */
const MIN_KNOWN = 2;
const MAX_WORDS = 1500;
const MAX_LINKS = 10;

/** By the number of other forms: those of other domains count whole, those of the same domain half. */
const TEXT_POINTS = [0, 4, 12, 20, 26, 30, 35];
const LINK_POINTS = [0, 0, 4, 7, 10, 12];

interface Mark {
  at: number;
  /** Hashes of forms and of their domains. */
  readonly forms: { readonly form: string; readonly domain: string }[];
}

/** What posts have in common, for as long as the daemon runs. */
export function createRepetition(clock: Pick<Clock, 'now'>): Repetition {
  const marks = new LruMap<Mark>(MAX_MARKS);

  function otherForms(key: string, { form, domain }: Posted, now: number): number {
    const known = marks.get(key);
    if (known === undefined || now - known.at > KEPT_MS) return 0;
    const other = known.forms.filter((seen) => seen.form !== form);
    return other.reduce((sum, seen) => sum + (seen.domain === domain ? 0.5 : 1), 0);
  }

  function remember(key: string, { form, domain }: Posted, now: number): void {
    const known = marks.get(key);
    const mark = known === undefined || now - known.at > KEPT_MS ? { at: now, forms: [] } : known;
    const { forms } = mark;
    if (forms.length < MAX_FORMS && !forms.some((seen) => seen.form === form)) forms.push({ form, domain });
    mark.at = now;
    if (mark !== known) marks.set(key, mark);
  }

  return {
    note(posted) {
      const now = clock.now();
      const reasons: Reason[] = [];
      const texts = marksOf(posted.words).map((mark) => `t${mark}`);
      const known = texts.map((key) => otherForms(key, posted, now)).sort((a, b) => b - a);
      const seen = known[MIN_KNOWN - 1] ?? 0;
      const textScore = pointsOf(TEXT_POINTS, seen);
      if (textScore > 0) {
        reasons.push({
          name: 'repeated_text',
          score: textScore,
          detail: 'other forms on this server received the same text',
        });
      }
      const links = linkMarks(posted);
      const most = links.reduce((one, host) => Math.max(one, otherForms(`l${host}`, posted, now)), 0);
      const linkScore = pointsOf(LINK_POINTS, most);
      if (linkScore > 0) {
        const host = links.find((each) => otherForms(`l${each}`, posted, now) === most) ?? '';
        reasons.push({ name: 'repeated_link', score: linkScore, detail: host.slice(0, 100) });
      }
      for (const key of texts) remember(key, posted, now);
      for (const host of links) remember(`l${host}`, posted, now);
      return reasons;
    },
  };
}

function pointsOf(table: readonly number[], forms: number): number {
  return table[Math.min(Math.floor(forms), table.length - 1)] ?? 0;
}

/** The least hashes of its rows of words: two texts that share most rows share most of these. */
function marksOf(words: readonly number[]): number[] {
  if (words.length < MIN_WORDS) return [];
  const least: number[] = [];
  let limit = Infinity;
  const end = Math.min(words.length, MAX_WORDS) - ROW_OF_WORDS;
  for (let at = 0; at <= end; at++) {
    let hash = 0x811c9dc5;
    for (let i = 0; i < ROW_OF_WORDS; i++) hash = Math.imul(hash ^ (words[at + i] ?? 0), 0x01000193) ^ (hash >>> 15);
    const mark = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
    if (mark >= limit || least.includes(mark)) continue;
    const next = least.findIndex((other) => other > mark);
    least.splice(next === -1 ? least.length : next, 0, mark);
    if (least.length > MARKS_PER_TEXT) least.pop();
    if (least.length === MARKS_PER_TEXT) limit = least.at(-1) ?? Infinity;
  }
  return least;
}

/** The names that its links lead to: not the form's own, the visitor's own, or such that everybody links to. */
function linkMarks({ links, domain, email }: Posted): string[] {
  if (links.length === 0) return [];
  const own = new Set([registeredName(domain), registeredName(email?.slice(email.lastIndexOf('@') + 1) ?? '')]);
  const found = new Set<string>();
  for (const { host, path } of links.slice(0, MAX_LINKS)) {
    const name = registeredName(host);
    if (own.has(name)) continue;
    // Whose link it is shows behind the name that many share.
    if (isShortener(host) || isMessenger(host)) found.add(`${host}${path.slice(0, 60)}`);
    else if (isFreeHost(host)) found.add(host.slice(0, 100));
    else if (!isCommon(host)) found.add(name.slice(0, 100));
  }
  return [...found];
}
