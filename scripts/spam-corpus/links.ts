/** Addresses of pages, as honest people and as spammers write them; all invented. */
import type { Kit } from './kits.ts';
import { fillDigits, gibberish, inventedDomain } from './senders.ts';
import type { Random } from './random.ts';

const SPAM_WORDS: Readonly<Record<Kit['part'], readonly string[]>> = {
  train: ['best', 'fast', 'mega', 'vip', 'top', 'lucky', 'crypto', 'rank', 'boost', 'bonus', 'cash', 'deal', 'win', 'seo', 'lux', 'trade', 'smart', 'get', 'my', 'now', 'bet', 'pharm', 'date'],
  test: ['super', 'quick', 'gold', 'prime', 'spin', 'coin', 'web', 'leads', 'money', 'offer', 'love', 'click', 'hub', 'zone', 'pills'],
}; // prettier-ignore
const SPAM_TLDS = [
  'com',
  'com',
  'com',
  'net',
  'org',
  'ru',
  'xyz',
  'top',
  'shop',
  'online',
  'site',
  'club',
  'info',
  'live',
  'io',
  'pro',
  'biz',
  'icu',
  'cfd',
  'sbs',
  'click',
  'store',
  'vip',
  'su',
];
const SHORTENERS = [
  'bit.ly',
  'tinyurl.com',
  'cutt.ly',
  'is.gd',
  't.ly',
  'rb.gy',
  'shorturl.at',
  's.id',
  'ow.ly',
  'clck.ru',
  'v.gd',
  'goo.su',
];

/** A link that spam carries, of this kind. */
export function spamLink(random: Random, kind: string, kit: Kit): string {
  switch (kind) {
    case 'bare':
      return `${random.chance(0.3) ? 'www.' : ''}${spamDomain(random, kit)}${random.chance(0.4) ? path(random) : ''}`;
    case 'short':
      return `${random.pick(['https://', 'https://', ''])}${random.pick(SHORTENERS)}/${slug(random, random.between(4, 8))}`;
    case 'free':
      return freeHost(random, kit);
    case 'url':
      return `${random.pick(['https://', 'https://', 'http://', 'https://www.'])}${spamDomain(random, kit)}${random.chance(0.7) ? path(random) : '/'}`;
    default:
      return spamLink(random, random.pick(['url', 'url', 'bare', 'short', 'free']), kit);
  }
}

/** The domain of a spammer. */
export function spamDomain(random: Random, kit: Kit): string {
  const words = SPAM_WORDS[kit.part];
  const name = `${random.pick(words)}${random.pick(['', '', '-'])}${random.pick(words)}${random.chance(0.3) ? random.between(1, 999) : ''}`;
  return `${name}.${random.pick(SPAM_TLDS)}`;
}

/** A link that an honest message carries. */
export function honestLink(random: Random, code: string): string {
  const id = slug(random, 11);
  const page = random.pick([
    '',
    'about',
    'products/oak-table-180',
    'menu',
    'jobs/1042',
    'portfolio',
    'blog/2026/spring',
    'shop/item/4471',
    'kontakt',
    'en/rooms',
  ]);
  const domain = inventedDomain(random, code);
  return random.pick([
    `https://${domain}/${page}`,
    `https://www.${domain}/${page}`,
    `www.${domain}`,
    domain,
    `https://youtu.be/${id}`,
    `https://drive.google.com/file/d/${id}${id}/view`,
    `https://www.dropbox.com/s/${id}/photos.zip`,
    `https://github.com/${random.pick(['acme', 'example', 'devteam'])}/${random.pick(['api', 'shop', 'site'])}/issues/${random.between(3, 900)}`,
    `https://maps.app.goo.gl/${id}`,
    `https://www.linkedin.com/in/${slug(random, 9).toLowerCase()}`,
    `https://imgur.com/a/${id}`,
    `https://we.tl/t-${id}`,
  ]);
}

function freeHost(random: Random, kit: Kit): string {
  const [one, two] = [random.pick(SPAM_WORDS[kit.part]), random.pick(SPAM_WORDS[kit.part])];
  const host = random.pick([
    '.blogspot.com',
    '.weebly.com',
    '.wixsite.com/home',
    '.github.io',
    '.netlify.app',
    '.vercel.app',
    '.pages.dev',
    '.web.app',
    '.wordpress.com',
    '.carrd.co',
    '.mystrikingly.com',
    '.webflow.io',
  ]);
  return random.pick([
    `https://${one}${two}${random.between(1, 99)}${host}`,
    `https://sites.google.com/view/${one}-${two}${random.between(1, 99)}`,
    `https://telegra.ph/${one}-${two}-${fillDigits(random, '0#-1#')}`,
    `https://t.me/${one}_${two}${random.between(1, 99)}`,
    `https://wa.me/${fillDigits(random, '###########')}`,
    `https://docs.google.com/forms/d/e/1FAIpQL${gibberish(random, 20)}/viewform`,
    `https://script.google.com/macros/s/AKfycb${gibberish(random, 24)}/exec`,
    `https://storage.googleapis.com/${one}${two}/${slug(random, 8)}.html`,
  ]);
}

function path(random: Random): string {
  const word = random.pick([
    'go',
    'offer',
    'r',
    'lp',
    'bonus',
    'en',
    'promo',
    'info',
    'start',
    'index.php?id=',
    'unsubscribe.php?site=',
  ]);
  return random.chance(0.5)
    ? `/${word}`
    : `/${word}${word.endsWith('=') ? '' : '/'}${slug(random, random.between(3, 9))}`;
}

function slug(random: Random, length: number): string {
  const letters = [...'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'];
  return Array.from({ length }, () => random.pick(letters)).join('');
}
