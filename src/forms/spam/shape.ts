/** How a submission is built, whatever its language: what is in for its links and numbers, and signs that count by name. */
import { registeredName, type KnownHosts, type Link } from './links.ts';
import { undisguised } from './disguise.ts';
import type { Text } from './text.ts';

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
  'a link to the domain of the own address',
  'a link to the domain of the form',
  'a path of random letters',
  'markup',
  'an address in the text',
  'a phone number in the text',
  'an account of a messenger in the text',
  'an amount of money',
  'a large amount of money',
  'a percentage',
  'three exclamation marks',
  'a question mark',
  'mostly capitals',
  'an emoji or a sign of attention',
  'a very short text',
  'a short text',
  'a long text',
  'a very long text',
  'no text',
  'lines that are set apart',
  'a free mail address',
  'an address with many digits',
  'an address with many dots',
  'an address at a cheap domain',
  'an address without a trace of the name',
  'a name of one word',
  'a name with capitals inside',
  'a name in another script than the text',
  'digits in the name',
] as const;

export type Structure = (typeof STRUCTURE)[number];

/** A long text shows at its beginning or its end what it is about. */
const MAX_START = 8 * 1024;
const MAX_END = 2 * 1024;
const MAX_VALUES = 50;

/** These stand for a link and for an address in the text. */
const A_LINK = '\ue000';
const AN_ADDRESS = '\ue001';
export const PLACEHOLDERS = A_LINK + AN_ADDRESS;

const ADDRESS = /[^\s@<>()[\],;:"'\ue000]{1,64}@[^\s@<>()[\],;:"'\ue000]{1,255}/g;
/** The texts whose words count: not names, addresses and numbers, and with placeholders for links. */
export function wordsOf({ values, links }: Text): string[] {
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
  /[$€£¥]\s?\d[\d.,]{4,}|\d[\d.,\s]{5,}(?:[$€£₽]|usd|eur|dollars?|euros?)|\d\s?(?:million|billion|millionen|millones|milioni|milhões|milion|миллион|млн|мільйон|مليون|万ドル|百万)/iu;
const PERCENT = /\d\s?(?:%|percent|prozent|procent|٪|％)/i;
const ATTENTION =
  /[\u2705\u2728\u26a0\u2757\u274c\u{1f449}\u{1f4b0}\u{1f525}\u{1f680}\u{1f4c8}\u{1f381}\u{1f4e2}\u{1f6a8}\u{1f3b0}\u{1f4b8}\u{1f48e}►➤★☛]/u;
const MARKUP = /<a\s|\[url|\[link|<\/?(?:p|br|b|h1|div|strong)\s?\/?>/i;
const LIST = /^\s*(?:[-*•–✓✔✅►]|\d[.)])\s/gm;
const CODE = /(?:^|\/)(?=[a-z-]*\d)(?=\d*[a-z])[a-z\d]{6,}(?:$|[/?])/;

/** Those of STRUCTURE that the submission has. */
export function structureOf(submission: Text, hosts: KnownHosts): Structure[] {
  const found: Structure[] = [];
  function note(name: Structure, isThere: boolean): void {
    if (isThere) found.push(name);
  }
  noteLinks(submission, hosts, note);
  noteText(submission, note);
  noteSender(submission, hosts, note);
  return found;
}

type Note = (name: Structure, isThere: boolean) => void;

function noteLinks({ links, email, domain }: Text, hosts: KnownHosts, note: Note): void {
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
    links.some(({ host }) => hosts.isShortener(host)),
  );
  note(
    'a link to a free host',
    links.some(({ host }) => hosts.isFreeHost(host)),
  );
  note(
    'a link to a messenger',
    links.some(({ host }) => hosts.isMessenger(host)),
  );
  note(
    'a link to a cheap domain',
    links.some(({ host }) => hosts.isCheap(host)),
  );
  const own = email === undefined ? undefined : registeredName(email.slice(email.lastIndexOf('@') + 1).toLowerCase());
  note(
    'a link to the domain of the own address',
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
  note('an account of a messenger in the text', (hasDigit || message.includes('@')) && ACCOUNT.test(message));
  note('an amount of money', hasDigit && MONEY.test(message));
  note('a large amount of money', hasDigit && LARGE.test(message));
  note('a percentage', hasDigit && PERCENT.test(message));
  note('three exclamation marks', THREE_MARKS.test(message));
  note('a question mark', /[?？؟]/.test(message));
  note('mostly capitals', isShouting(message));
  note('an emoji or a sign of attention', ATTENTION.test(message));
  // A character of these scripts says as much as two letters of others.
  const length = /[\u3040-\u9fff\uac00-\ud7af]/.test(message) ? message.length * 2.2 : message.length;
  note('no text', length === 0);
  note('a very short text', length > 0 && length < 40);
  note('a short text', length >= 40 && length < 120);
  note('a long text', length >= 500 && length < 1200);
  note('a very long text', length >= 1200);
  note('lines that are set apart', message.includes('\n') && count(message, LIST) >= 3);
}

const THREE_MARKS = /(?:[!！][^!！]*){3}/;
const ADDRESS_IN = new RegExp(ADDRESS.source);

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}

/** Whether what has capitals is written in them. */
function isShouting(text: string): boolean {
  const sample = text.slice(0, 500);
  const lower = sample.toLowerCase();
  const upper = sample.toUpperCase();
  if (lower.length !== sample.length || upper.length !== sample.length) return false;
  let capitals = 0;
  let small = 0;
  for (let i = 0; i < sample.length; i++) {
    const code = sample.charCodeAt(i);
    if (code !== lower.charCodeAt(i)) capitals++;
    else if (code !== upper.charCodeAt(i)) small++;
  }
  return capitals >= 40 && capitals > small * 4;
}

function noteSender({ values, text, email }: Text, hosts: KnownHosts, note: Note): void {
  const name = values.find(({ kind }) => kind === 'name')?.text.trim() ?? '';
  note('a name of one word', name !== '' && !/\s/.test(name) && /^[a-z]{4,}$/i.test(name));
  note('a name with capitals inside', /[a-z][A-Z][a-z]*$/.test(name) && !/^(?:Mc|Mac|De|La|Le|O.)[A-Z]/.test(name));
  note('digits in the name', /\d/.test(name));
  note('a name in another script than the text', /^[A-Za-z\s.]+$/.test(name) && isForeign(text));
  if (email === undefined) return;
  const at = email.lastIndexOf('@');
  const local = email.slice(0, at).toLowerCase();
  const domain = email.slice(at + 1).toLowerCase();
  note('a free mail address', FREE_MAIL.test(domain));
  note('an address with many digits', count(local, /\d/g) >= 5);
  note('an address with many dots', count(local, /\./g) >= 3);
  note('an address at a cheap domain', hosts.isCheap(domain));
  const letters =
    name
      .toLowerCase()
      .normalize('NFD')
      .match(/[a-z]{3,}/g) ?? [];
  note(
    'an address without a trace of the name',
    letters.length > 0 && !letters.some((part) => local.includes(part.slice(0, 4))),
  );
}

const FOREIGN = /[\u0370-\u1fff\u3040-\ud7af]/;

function isForeign(text: string): boolean {
  const sample = text.slice(0, 1024);
  return FOREIGN.test(sample) && count(sample, /[\u0370-\u1fff\u3040-\ud7af]/g) > count(sample, /[A-Za-z]/g);
}
