/** Who posts: names, mailboxes and phone numbers, all invented. */
import { ofPart, type Kit, type Language } from './kits.ts';
import type { Random } from './random.ts';

export interface Sender {
  readonly first: string;
  readonly last: string;
  readonly name: string;
  readonly email: string;
  readonly phone: string;
  readonly company: string;
  readonly city: string;
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';

const MAILBOXES = [
  'gmail.com', 'gmail.com', 'gmail.com', 'gmail.com', 'outlook.com', 'hotmail.com', 'yahoo.com', 'icloud.com',
  'proton.me', 'protonmail.com', 'aol.com', 'live.com', 'gmx.net', 'mail.com', 'zoho.com', 'fastmail.com',
] as const; // prettier-ignore

/** Mailboxes by language, beside those that are used everywhere. */
const LOCAL_MAILBOXES: Readonly<Record<string, readonly string[]>> = {
  de: ['web.de', 'gmx.de', 't-online.de', 'freenet.de', 'posteo.de'],
  fr: ['orange.fr', 'free.fr', 'wanadoo.fr', 'laposte.net', 'sfr.fr'],
  it: ['libero.it', 'virgilio.it', 'tiscali.it', 'alice.it'],
  es: ['hotmail.es', 'telefonica.net', 'yahoo.es'],
  pt: ['sapo.pt', 'uol.com.br', 'bol.com.br', 'terra.com.br'],
  nl: ['ziggo.nl', 'kpnmail.nl', 'xs4all.nl', 'planet.nl'],
  pl: ['wp.pl', 'o2.pl', 'onet.pl', 'interia.pl'],
  cs: ['seznam.cz', 'email.cz', 'centrum.cz'],
  sv: ['telia.com', 'bredband.net', 'hotmail.se'],
  da: ['mail.dk', 'jubii.dk', 'stofanet.dk'],
  fi: ['kolumbus.fi', 'luukku.com', 'elisanet.fi'],
  tr: ['hotmail.com.tr', 'mynet.com', 'yandex.com.tr'],
  uk: ['ukr.net', 'i.ua', 'meta.ua'],
  ru: ['mail.ru', 'yandex.ru', 'bk.ru', 'rambler.ru', 'list.ru'],
  ja: ['yahoo.co.jp', 'docomo.ne.jp', 'ezweb.ne.jp', 'softbank.ne.jp'],
  zh: ['qq.com', '163.com', '126.com', 'sina.com'],
  ko: ['naver.com', 'daum.net', 'hanmail.net', 'nate.com'],
  he: ['walla.co.il', 'bezeqint.net', '013net.net'],
  en: ['btinternet.com', 'comcast.net', 'verizon.net', 'sky.com', 'bigpond.com', 'shaw.ca'],
};

const BLASTER_MAILBOXES = ['gmail.com', 'gmail.com', 'mail.ru', 'yandex.com', 'rambler.ru', 'outlook.com', 'inbox.lv'];

/** A mailbox's local part has to be ASCII, whatever the name's alphabet is. */
const ASCII_NAMES = [
  'anna', 'maria', 'alex', 'david', 'sara', 'tom', 'nina', 'leo', 'eva', 'max', 'yuki', 'omar', 'lina', 'kim', 'ivan',
  'olga', 'noam', 'dana', 'jun', 'mei', 'sam', 'ella', 'oscar', 'ines', 'paul', 'rita', 'hugo', 'vera', 'amir', 'tanya',
]; // prettier-ignore

/** Somebody who writes what this kit says. */
export function createSender(random: Random, language: Language, kit: Kit): Sender {
  const first = random.pick(poolOf(language, 'first', kit));
  const last = random.pick(poolOf(language, 'last', kit));
  const company = random.pick(poolOf(language, 'company', kit));
  const city = random.pick(poolOf(language, 'city', kit));
  const phone = fillDigits(random, random.pick(language.pools.get('phone') ?? ['#########']));
  const honest = { first, last, company, city, phone, name: nameOf(random, language, { first, last, company }) };
  if (kit.label === 'ham') return { ...honest, email: personalMailbox(random, language.code, honest) };
  return spammer(random, language, { kit, honest });
}

/** The entries of a pool that this kit's part may use. */
export function poolOf(language: Language, name: string, kit: Kit): readonly string[] {
  const pool = language.pools.get(name);
  if (pool === undefined) throw new Error(`kits/${language.code}.txt has no pool ${name}.`);
  return ofPart(pool, kit.part);
}

/** Every `#` becomes a digit. */
export function fillDigits(random: Random, pattern: string): string {
  return pattern.replaceAll('#', () => String(random.between(0, 9)));
}

/** As 'XrbDqkLmWpA': capitals where no language has them. */
export function gibberish(random: Random, length = random.between(8, 20)): string {
  const letters = Array.from({ length }, () => random.pick([...LETTERS]));
  return letters.map((letter) => (random.chance(0.45) ? letter.toUpperCase() : letter)).join('');
}

type Person = Omit<Sender, 'email'>;

function nameOf(random: Random, language: Language, person: Pick<Sender, 'first' | 'last' | 'company'>): string {
  const { first, last, company } = person;
  const familyFirst = ['ja', 'zh', 'ko'].includes(language.code);
  const full = familyFirst ? `${last}${random.chance(0.5) ? ' ' : ''}${first}` : `${first} ${last}`;
  const roll = random.next();
  if (roll < 0.68) return full;
  if (roll < 0.82) return first;
  if (roll < 0.88) return full.toLowerCase();
  if (roll < 0.91) return full.toUpperCase();
  if (roll < 0.94) return `${first.slice(0, 1)}. ${last}`;
  return roll < 0.97 ? company : last;
}

function personalMailbox(random: Random, code: string, person: Person): string {
  const local = localPart(random, person);
  if (random.chance(0.25)) return `${local}@${inventedDomain(random, code)}`;
  return `${local}@${random.pick([...MAILBOXES, ...(LOCAL_MAILBOXES[code] ?? []), ...(LOCAL_MAILBOXES[code] ?? [])])}`;
}

function localPart(random: Random, { first, last }: Person): string {
  const [given, family] = [ascii(random, first), ascii(random, last)];
  const year = String(random.between(50, 99));
  return random.pick([
    `${given}.${family}`,
    `${given}${family}`,
    `${given.slice(0, 1)}.${family}`,
    `${given}${year}`,
    `${family}.${given}${random.between(1, 99)}`,
    `${given}_${family}`,
    `${family}${year}`,
    random.pick(['info', 'office', 'kontakt', 'mail', 'hello', `${given}`]),
  ]);
}

function ascii(random: Random, name: string): string {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/[^A-Za-z]/g, '')
    .toLowerCase();
  return plain.length >= 2 ? plain : random.pick(ASCII_NAMES);
}

const COUNTRY_DOMAINS: Readonly<Record<string, readonly string[]>> = {
  en: ['com', 'co.uk', 'org', 'com.au', 'ie', 'ca', 'io'], de: ['de', 'at', 'ch', 'com'], fr: ['fr', 'be', 'com'],
  es: ['es', 'com.mx', 'com.ar', 'com'], it: ['it', 'com'], pt: ['pt', 'com.br', 'com'], nl: ['nl', 'be', 'com'],
  pl: ['pl', 'com.pl'], cs: ['cz'], sv: ['se', 'nu'], da: ['dk'], fi: ['fi'], tr: ['com.tr', 'com'], uk: ['ua', 'com.ua'],
  ru: ['ru', 'com'], ar: ['com', 'ae', 'com.sa', 'org'], he: ['co.il', 'org.il'], ja: ['jp', 'co.jp', 'com'],
  zh: ['cn', 'com.cn', 'com'], ko: ['kr', 'co.kr', 'com'],
}; // prettier-ignore
const HONEST_WORDS = [
  'linden', 'brook', 'harbour', 'atelier', 'nord', 'casa', 'velo', 'stone', 'maple', 'blue', 'garden', 'verde', 'luna',
  'forge', 'mill', 'cedar', 'hill', 'studio', 'werk', 'haus', 'alba', 'sol', 'park', 'field', 'ridge', 'kraft', 'aqua',
  'terra', 'silva', 'monte', 'fjord', 'pine', 'oak', 'craft', 'press', 'data', 'soft', 'lab', 'care', 'dental', 'bau',
]; // prettier-ignore

/** A business's domain. */
export function inventedDomain(random: Random, code: string): string {
  const join = random.pick(['', '', '-']);
  const name = `${random.pick(HONEST_WORDS)}${join}${random.pick(HONEST_WORDS)}`;
  return `${name}.${random.pick(COUNTRY_DOMAINS[code] ?? ['com'])}`;
}

const SUFFIXES = [
  'smips',
  'Tap',
  'Bow',
  'nes',
  'Mek',
  'GoX',
  'Wrals',
  'fup',
  'Dib',
  'lof',
  'Stync',
  'Cip',
  'Ord',
  'gal',
  'ut',
];
const AGENCY_WORDS = [
  'seo',
  'rank',
  'digital',
  'web',
  'media',
  'growth',
  'leads',
  'boost',
  'pro',
  'market',
  'traffic',
  'click',
  'reach',
];
const AGENCY_TLDS = ['com', 'com', 'net', 'co', 'agency', 'online', 'xyz', 'site', 'info', 'pro', 'top', 'shop'];

function spammer(random: Random, language: Language, { kit, honest }: { kit: Kit; honest: Person }): Sender {
  const roll = random.next();
  if (kit.flags.has('random') || roll < 0.1) {
    const name = gibberish(random);
    const phone = random.chance(0.5) ? fillDigits(random, '##########') : gibberish(random);
    return {
      ...honest,
      name,
      first: gibberish(random),
      last: gibberish(random),
      phone,
      email: dotted(random),
      company: name,
    };
  }
  if (roll < 0.3) {
    const name = `${honest.first}${random.pick(SUFFIXES)}`;
    const email = `${ascii(random, honest.first)}${random.pick(SUFFIXES).toLowerCase()}@${random.pick(BLASTER_MAILBOXES)}`;
    return { ...honest, name, last: name, phone: fillDigits(random, '8##########'), email, company: 'google' };
  }
  if (roll < 0.5) {
    const domain = `${random.pick(AGENCY_WORDS)}${random.pick(['', '-'])}${random.pick(AGENCY_WORDS)}.${random.pick(AGENCY_TLDS)}`;
    const local = random.pick([
      ascii(random, honest.first),
      'info',
      'sales',
      'hello',
      'support',
      'contact',
      'outreach',
    ]);
    return { ...honest, email: `${local}@${domain}` };
  }
  return { ...honest, email: personalMailbox(random, language.code, honest) };
}

/** As 'o.q.ub.ix.a47@gmail.com': one mailbox, written with ever other dots. */
function dotted(random: Random): string {
  const letters = Array.from({ length: random.between(8, 14) }, () => random.pick([...LETTERS]));
  const local = letters.map((letter, index) => (index > 0 && random.chance(0.35) ? `.${letter}` : letter)).join('');
  return `${local}${random.between(0, 99)}@${random.pick(BLASTER_MAILBOXES)}`;
}
