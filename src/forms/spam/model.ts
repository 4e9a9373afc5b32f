/**
 * The text filter: how likely a text is spam by its words and by how it is built. Each word, pair of words and sign has a
 * weight; scripts/train-spam.ts fits them to a corpus. It sees hashes of words, of pairs of them and of their beginnings (in
 * scripts that put no space between words, of every two and three characters), and what is built alike in all languages.
 * Numbers, links and addresses are counted as such, not by what they are. Linear in the text, of which the beginning and the
 * end are read.
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { z } from 'zod';
import { undisguised, type Reason } from './signs.ts';
import { isCheap, isFreeHost, isMessenger, isShortener, registeredName, type Link, type Text } from './text.ts';

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

interface Located {
  readonly bucket: number;
  readonly word: string;
}

// The classes of characters; all others are 0 and separate words.
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

/** What the filter sees of a submission. */
export function extract(submission: Text): Features {
  const found: Tokens = { tokens: [], words: [] };
  for (const text of wordsOf(submission)) tokenize(text, found);
  return { ...found, structure: structureOf(submission), phrases: phrasesIn(found.words) };
}

/** The buckets of the words of a text, with where they are in it. */
function located(text: string): readonly Located[] {
  return (text.toLowerCase().match(/[\p{L}\p{M}]+/gu) ?? []).flatMap((word) => {
    const found: Tokens = { tokens: [], words: [] };
    tokenize(word, found);
    return found.tokens.map((bucket) => ({ bucket, word }));
  });
}

/** The class of each character of the Basic Multilingual Plane; the first that fits counts. */
const CLASSES = classesOfCharacters([
  // They stand for a link and for an address.
  [LETTER, /[\ue000\ue001]+/g],
  // Korean has spaces, but no two forms of a word are written alike: its syllables count as characters do.
  [
    UNSPACED,
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]+/gu,
  ],
  // Accents by themselves, vowel points of Hebrew and Arabic, and what cannot be seen.
  [IGNORED, /[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\p{Cf}]+/gu],
  [LETTER, /[\p{L}\p{M}]+/gu],
  [DIGIT, /\p{N}+/gu],
]);

function classesOfCharacters(patterns: readonly (readonly [number, RegExp])[]): Uint8Array {
  const classes = new Uint8Array(65_536);
  const codes = new Uint16Array(classes.length).map((_, code) => code);
  const characters = Buffer.from(codes.buffer).toString('utf16le');
  for (const [kind, pattern] of patterns.toReversed()) {
    for (const { 0: run, index } of characters.matchAll(pattern)) classes.fill(kind, index, index + run.length);
  }
  return classes;
}

interface Tokens {
  readonly tokens: number[];
  readonly words: number[];
}

function tokenize(given: string, found: Tokens): void {
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
    const kind = CLASSES[code];
    if (kind === LETTER && hash !== NUMBER) {
      hash = Math.imul(hash ^ code, PRIME);
      if (length++ < STEM_LENGTH) stem = hash;
      if (length === BEGINNING_LENGTH && beginsLongWord(text, i)) tokens.push(bucketOf(hash ^ BEGINNING));
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

function beginsLongWord(text: string, at: number): boolean {
  for (let next = at + 1; next < at + 1 + MIN_LENGTH_FOR_BEGINNING - BEGINNING_LENGTH; next++) {
    if (next >= text.length || CLASSES[text.charCodeAt(next)] !== LETTER) return false;
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

// The structure of a submission, whatever its language: its links and numbers, the length of its text, the name and address.

/** What texts of all languages have in common. The model has a weight for each. */
export const STRUCTURE = [
  'one link',
  'two links',
  'three links or more',
  'a link without https://',
  'a shortened link',
  'a link to a free host',
  'a link to a messenger',
  'a link to a cheap domain',
  'a link to the domain of the sender’s address',
  'a link to the domain of the form',
  'a path of random letters',
  'markup',
  'an address in the text',
  'a phone number in the text',
  'a messenger account in the text',
  'an amount of money',
  'a large amount of money',
  'a percentage',
  'three exclamation marks',
  'a question mark',
  'mostly capital letters',
  'an eye-catching emoji or symbol',
  'a very short text',
  'a short text',
  'a long text',
  'a very long text',
  'no text',
  'a list',
  'an address at a free email provider',
  'an address with many digits',
  'an address with many dots',
  'an address at a cheap domain',
  'an address that does not contain the name',
  'a name of one word',
  'a name with capitals inside',
  'a name in a different script from the text',
  'digits in the name',
] as const;

type Structure = (typeof STRUCTURE)[number];

/** A long text shows at its beginning or its end what it is about. */
const MAX_START = 8 * 1024;
const MAX_END = 2 * 1024;
const MAX_VALUES = 50;

/** These stand for a link and for an address in the text. */
const A_LINK = '\ue000';
const AN_ADDRESS = '\ue001';

const ADDRESS = /[^\s@<>()[\],;:"'\ue000]{1,64}@[^\s@<>()[\],;:"'\ue000]{1,255}/g;
/** The texts whose words count: not names, addresses and numbers, and with placeholders for links. */
function wordsOf({ values, links }: Text): string[] {
  const texts: string[] = [];
  let start = MAX_START;
  for (const { text, kind } of values.slice(0, MAX_VALUES)) {
    if (kind !== 'words') continue;
    if (start > 0) texts.push(text.slice(0, start));
    if (text.length > start + MAX_END) texts.push(text.slice(-MAX_END));
    else if (text.length > start) texts.push(text.slice(start));
    start = Math.max(0, start - text.length);
  }
  const plain = links.length === 0 && !texts.some((text) => text.includes('@'));
  return (plain ? texts : withPlaceholders(texts, links)).map(undisguised);
}

function withPlaceholders(texts: readonly string[], links: readonly Link[]): string[] {
  const found = new Set(links.map((link) => link.text));
  const replaced = texts.map((text) => {
    let left = text;
    for (const link of found) left = left.replaceAll(link, ` ${A_LINK} `);
    return left.replaceAll(ADDRESS, ` ${AN_ADDRESS} `);
  });
  // The words of a host are words of the text.
  const hosts = [...new Set(links.map(({ host }) => host))].slice(0, 20);
  return [...replaced, hosts.map((host) => host.slice(0, 100).replaceAll('.', ' . ')).join('\n')];
}

const FREE_MAIL =
  /^(?:gmail|googlemail|yahoo|ymail|hotmail|outlook|live|msn|aol|icloud|me|mac|gmx|web|t-online|freenet|mail|bk|list|inbox|rambler|yandex|ya|ukr|i|wp|o2|onet|interia|seznam|email|centrum|libero|virgilio|tiscali|orange|wanadoo|free|laposte|sfr|terra|uol|bol|qq|163|126|sina|naver|daum|hanmail|protonmail|proton|tutanota|zoho|walla|abv|telia|bigpond|rediffmail)\.[a-z]{2,3}(?:\.[a-z]{2})?$/;
const PHONE = /(?<![\p{L}\d])\+?\d[\d\s().-]{7,20}\d/u;
const ACCOUNT =
  /(?:telegram|whats ?app|wechat|skype|viber|телеграмм?|ватсап|вотсап|вайбер|微信|تليجرام|واتساب|ווטסאפ|텔레그램|카톡)[^\p{L}\n]{0,4}[\d+@]|(?<![\p{L}\d._-])@[a-z]\w{4,}(?![\w.]*\.[a-z])/iu;
const MONEY =
  /[$€£¥₽₴₺₩₪]\s?\d|\d\s?(?:[$€£¥₽₴₺₩₪]|usdt?|eur|btc|eth|dollars?|euros?|руб|грн|zł|pln|kč|kr\b|tl\b|円|元|万|원)/iu;
const LARGE =
  /[$€£¥]\s?\d[\d.,]{4,}|\d[\d.,\s]{5,30}(?:[$€£₽]|usd|eur|dollars?|euros?)|\d\s?(?:million|billion|millionen|millones|milioni|milhões|milion|миллион|млн|мільйон|مليون|万ドル|百万)/iu;
const PERCENT = /\d\s?(?:%|percent|prozent|procent|٪|％)/i;
const ATTENTION =
  /[\u2705\u2728\u26a0\u2757\u274c\u{1f449}\u{1f4b0}\u{1f525}\u{1f680}\u{1f4c8}\u{1f381}\u{1f4e2}\u{1f6a8}\u{1f3b0}\u{1f4b8}\u{1f48e}►➤★☛]/u;
const MARKUP = /<a\s|\[url|\[link|<\/?(?:p|br|b|h1|div|strong)\s?\/?>/i;
const LIST = /^[ \t]*(?:[-*•–✓✔✅►]|\d[.)])\s/gm;
const CODE = /(?:^|\/)(?=[a-z-]*\d)(?=\d*[a-z])[a-z\d]{6,}(?:$|[/?])/;

/** Those of STRUCTURE that the submission has. */
function structureOf(submission: Text): Structure[] {
  const found: Structure[] = [];
  function note(name: Structure, isThere: boolean): void {
    if (isThere) found.push(name);
  }
  noteLinks(submission, note);
  noteText(submission, note);
  noteSender(submission, note);
  return found;
}

type Note = (name: Structure, isThere: boolean) => void;

function noteLinks({ links, email, domain }: Text, note: Note): void {
  if (links.length === 0) return;
  const different = new Set(links.map(({ host, path }) => host + path)).size;
  note('one link', different === 1);
  note('two links', different === 2);
  note('three links or more', different >= 3);
  note(
    'a link without https://',
    links.some(({ isBare }) => isBare),
  );
  note(
    'a shortened link',
    links.some(({ host }) => isShortener(host)),
  );
  note(
    'a link to a free host',
    links.some(({ host }) => isFreeHost(host)),
  );
  note(
    'a link to a messenger',
    links.some(({ host }) => isMessenger(host)),
  );
  note(
    'a link to a cheap domain',
    links.some(({ host }) => isCheap(host)),
  );
  const own = email === undefined ? undefined : registeredName(email.slice(email.lastIndexOf('@') + 1).toLowerCase());
  note(
    'a link to the domain of the sender’s address',
    links.some(({ host }) => registeredName(host) === own),
  );
  const forms = domain === undefined ? undefined : registeredName(domain);
  note(
    'a link to the domain of the form',
    links.some(({ host }) => registeredName(host) === forms),
  );
  note(
    'a path of random letters',
    links.some(({ path }) => CODE.test(path.slice(0, 200))),
  );
}

function noteText({ values, text }: Text, note: Note): void {
  const sample = text.slice(0, MAX_START);
  let longest = '';
  for (const value of values) if (value.kind === 'words' && value.text.length > longest.length) longest = value.text;
  const message = longest.slice(0, MAX_START);
  note('markup', (sample.includes('<') || sample.includes('[')) && MARKUP.test(sample));
  note('an address in the text', message.includes('@') && ADDRESS_IN.test(message));
  const hasDigit = /\d/.test(message);
  note('a phone number in the text', hasDigit && PHONE.test(message));
  note('a messenger account in the text', (hasDigit || message.includes('@')) && ACCOUNT.test(message));
  note('an amount of money', hasDigit && MONEY.test(message));
  note('a large amount of money', hasDigit && LARGE.test(message));
  note('a percentage', hasDigit && PERCENT.test(message));
  note('three exclamation marks', THREE_MARKS.test(message));
  note('a question mark', /[?？؟]/.test(message));
  note('mostly capital letters', isShouting(message));
  note('an eye-catching emoji or symbol', ATTENTION.test(message));
  // A character of these scripts says as much as two letters of others.
  const length = /[\u3040-\u9fff\uac00-\ud7af]/.test(message) ? message.length * 2.2 : message.length;
  note('no text', length === 0);
  note('a very short text', length > 0 && length < 40);
  note('a short text', length >= 40 && length < 120);
  note('a long text', length >= 500 && length < 1200);
  note('a very long text', length >= 1200);
  note('a list', message.includes('\n') && count(message, LIST) >= 3);
}

const THREE_MARKS = /(?:[!！][^!！]*){3}/;
const ADDRESS_IN = new RegExp(ADDRESS.source);

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}

/** Whether what has capitals is written in them. */
function isShouting(text: string): boolean {
  const sample = text.slice(0, 500);
  const capitals = differences(sample, sample.toLowerCase());
  // Of most texts this is the end.
  if (capitals < 40) return false;
  const upper = sample.toUpperCase();
  return upper.length === sample.length && capitals > differences(sample, upper) * 4;
}

/** In how many places they differ; none where they are not of one length. */
function differences(one: string, other: string): number {
  if (one.length !== other.length) return 0;
  let count = 0;
  for (let i = 0; i < one.length; i++) if (one.charCodeAt(i) !== other.charCodeAt(i)) count++;
  return count;
}

function noteSender({ values, text, email }: Text, note: Note): void {
  const name = values.find(({ kind }) => kind === 'name')?.text.trim() ?? '';
  note('a name of one word', name !== '' && !/\s/.test(name) && /^[a-z]{4,}$/i.test(name));
  note('a name with capitals inside', /[a-z][A-Z][a-z]*$/.test(name) && !/^(?:Mc|Mac|De|La|Le|O.)[A-Z]/.test(name));
  note('digits in the name', /\d/.test(name));
  note('a name in a different script from the text', /^[A-Za-z\s.]+$/.test(name) && isForeign(text));
  if (email === undefined) return;
  const at = email.lastIndexOf('@');
  const local = email.slice(0, at).toLowerCase();
  const domain = email.slice(at + 1).toLowerCase();
  note('an address at a free email provider', FREE_MAIL.test(domain));
  note('an address with many digits', count(local, /\d/g) >= 5);
  note('an address with many dots', count(local, /\./g) >= 3);
  note('an address at a cheap domain', isCheap(domain));
  const letters =
    name
      .toLowerCase()
      .normalize('NFD')
      .match(/[a-z]{3,}/g) ?? [];
  note(
    'an address that does not contain the name',
    letters.length > 0 && !letters.some((part) => local.includes(part.slice(0, 4))),
  );
}

const FOREIGN = /[\u0370-\u1fff\u3040-\ud7af]/;

function isForeign(text: string): boolean {
  const sample = text.slice(0, 1024);
  return FOREIGN.test(sample) && count(sample, /[\u0370-\u1fff\u3040-\ud7af]/g) > count(sample, /[A-Za-z]/g);
}

// Phrases, by what they are about, in many languages (phrases.txt): the usual kinds of spam, what offers are made of, and what
// people write who want something. They tell the same of a language for which the model has seen few texts. What each kind
// says the model knows; none makes spam of a text alone.

export interface Phrase {
  readonly kind: string;
  /** To be read: `page … of google`. */
  readonly text: string;
}

const START = 0x2545f491;
/** By the hash of its words. */
const PHRASES = new Map<number, Phrase>();
/** How phrases begin: elsewhere none is looked for. */
const BEGINNINGS = new Set<number>();
const FILE = new URL('phrases.txt', import.meta.url);

for (const [, kind = '', list = ''] of readFileSync(FILE, 'utf8').matchAll(/^([a-z ]+): (.+)$/gm)) {
  for (const text of list.split('|')) {
    const found: Tokens = { tokens: [], words: [] };
    tokenize(text, found);
    let key = START;
    for (const word of found.words) {
      key = next(key, word);
      BEGINNINGS.add(key);
    }
    // In the file 0 is any number.
    if (key !== START && !PHRASES.has(key)) PHRASES.set(key, { kind, text: text.replace('0', '…') });
  }
}

/** What phrases are about, in the order of the file. */
export const KINDS: readonly string[] = [...new Set(Array.from(PHRASES.values(), ({ kind }) => kind))];

/** The phrases among the words of a text, each once. */
function phrasesIn(words: readonly number[]): ReadonlySet<Phrase> {
  const found = new Set<Phrase>();
  for (let at = 0; at < words.length; at++) {
    let key = START;
    for (let end = at; end < words.length; end++) {
      key = next(key, words[end] ?? 0);
      if (!BEGINNINGS.has(key)) break;
      const phrase = PHRASES.get(key);
      if (phrase !== undefined) found.add(phrase);
    }
  }
  return found;
}

function next(key: number, word: number): number {
  return Math.imul(key ^ word, 0x01000193) ^ (word >>> 13);
}

// What the model says of them.

export interface Model {
  /** By bucket; a unit of `scale`. */
  readonly words: Int8Array;
  readonly scale: number;
  /** By name, of how a text is built. */
  readonly structure: ReadonlyMap<string, number>;
  /** By kind, of one phrase; of several, `<kind> +` is added. */
  readonly phrases: ReadonlyMap<string, number>;
  /** What a text of which nothing is known has. */
  readonly bias: number;
}

const weightTable = z.record(z.string(), z.number());
const head = z.object({ scale: z.number(), bias: z.number(), structure: weightTable, phrases: weightTable });

/** Where the shipped model lies. */
export const MODEL_FILE = new URL('model.br', import.meta.url);

/** Reads a model: a line of JSON and a byte for each bucket, compressed (Brotli). Takes some 10 ms. */
export function readModel(file: URL = MODEL_FILE): Model {
  const bytes = brotliDecompressSync(readFileSync(file), { maxOutputLength: 2 * BUCKETS });
  const end = bytes.indexOf(10);
  const { scale, bias, structure, phrases } = head.parse(JSON.parse(bytes.toString('utf8', 0, end)));
  const words = new Int8Array(bytes.subarray(end + 1));
  if (words.length !== BUCKETS) throw new Error(`The spam model has ${words.length} weights instead of ${BUCKETS}.`);
  return {
    words,
    scale,
    bias,
    structure: new Map(Object.entries(structure)),
    phrases: new Map(Object.entries(phrases)),
  };
}

/** Points for log-odds: tenths of the power of ten. */
const POINTS = 10 / Math.LN10;

/** A text of fewer words and pairs says little. */
const SURE_TOKENS = 12;
/** Of the words and pairs of a text, so many are known where its language is. */
const MIN_KNOWN = 0.4;
/** What is taken off the log-odds of a text without one word that is known. */
const STRANGE = 5;

/** What of a text speaks for spam, or against it, in log-odds; their sum is that of the text. */
interface LogOdds {
  readonly words: number;
  readonly structure: number;
  readonly phrases: number;
}

/** The log-odds that the text is spam. */
export function logOdds(model: Model, { tokens, structure, phrases }: Features): LogOdds {
  let sum = 0;
  let known = 0;
  for (const token of tokens) {
    const weight = model.words[token] ?? 0;
    sum += weight;
    if (weight !== 0) known++;
  }
  let built = 0;
  for (const name of structure) built += model.structure.get(name) ?? 0;
  let said = 0;
  for (const name of namesOf(phrases)) said += model.phrases.get(name) ?? 0;
  // Of a language that it does not know, the model knows nothing: most mail is honest.
  const strange = Math.max(0, MIN_KNOWN - known / Math.max(tokens.length, 1)) / MIN_KNOWN;
  const sure = Math.min(1, tokens.length / SURE_TOKENS);
  const words = model.bias + sure * sum * model.scale * shareOf(tokens.length) - STRANGE * Math.max(strange, 1 - sure);
  return { words, structure: built, phrases: said };
}

/** The kinds of phrases, and `<kind> +` for each with several. */
export function namesOf(phrases: ReadonlySet<Phrase>): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { kind } of phrases) names.add(names.has(kind) ? `${kind} +` : kind);
  return names;
}

const MAX_WORD_POINTS = 60;
const MAX_STRUCTURE_POINTS = 40;
const MAX_PHRASE_POINTS = 40;
const MAX_LISTED = 6;

/** What the text says, by the model. */
type TextFilter = (text: Text, features: Features) => Reason[];

export function createTextFilter(model: Model): TextFilter {
  return (text, features) => {
    const odds = logOdds(model, features);
    const words = pointsFor(odds.words, MAX_WORD_POINTS);
    const structure = pointsFor(odds.structure, MAX_STRUCTURE_POINTS);
    const phrases = pointsFor(odds.phrases, MAX_PHRASE_POINTS);
    const reasons: Reason[] = [];
    if (words !== 0) reasons.push({ name: 'words', score: words, detail: words > 0 ? wordsFor(text) : HONEST });
    if (structure !== 0)
      reasons.push({ name: 'structure', score: structure, detail: placesFor(features, structure) || 'several signs' });
    if (phrases !== 0)
      reasons.push({ name: 'phrases', score: phrases, detail: phrasesFor(features, phrases) || 'several phrases' });
    return reasons;
  };

  /** The words that say most. */
  function wordsFor({ text }: Text): string {
    const weights = new Map<string, number>();
    for (const { bucket, word } of located(text.slice(0, 4096))) {
      weights.set(word, Math.max(weights.get(word) ?? 0, model.words[bucket] ?? 0));
    }
    return (
      listed(
        [...weights],
        ([, weight]) => weight,
        ([word]) => word,
      ) || 'no words of genuine messages'
    );
  }

  /** The signs that say most for what their sum says. */
  function placesFor({ structure }: Features, points: number): string {
    return listed(structure, (name) => Math.sign(points) * (model.structure.get(name) ?? 0));
  }

  function phrasesFor({ phrases }: Features, points: number): string {
    return listed(
      [...phrases],
      ({ kind }) => Math.sign(points) * (model.phrases.get(kind) ?? 0),
      ({ text }) => text,
    );
  }
}

/** The weightiest, as long as they have any weight. */
function listed<T>(all: readonly T[], weightOf: (one: T) => number, nameOf: (one: T) => string = String): string {
  const most = all.map((one) => ({ one, weight: weightOf(one) })).filter(({ weight }) => weight > 0);
  return most
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MAX_LISTED)
    .map(({ one }) => nameOf(one).slice(0, 60))
    .join(', ');
}

const HONEST = 'as in genuine messages';

/** The points of these log-odds, at most so many for spam or against it. */
export function pointsFor(odds: number, most: number): number {
  return Math.max(-most, Math.min(most, Math.round(odds * POINTS)));
}
