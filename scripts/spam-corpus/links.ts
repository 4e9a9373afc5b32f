/** Addresses of pages, as honest people and as spammers write them; all invented. */
import { listOf, poolOf, type Kit, type Language } from './kits.ts';
import type { Random } from './random.ts';

/** A business's domain. */
export function inventedDomain(random: Random, language: Language): string {
  const words = listOf(language, 'honest-word');
  const tlds = listOf(language, random.chance(0.9) ? 'tld' : 'new-tld');
  return `${random.pick(words)}${random.pick(['', '', '-'])}${random.pick(words)}.${random.pick(tlds)}`;
}

/** A link that an honest message carries: of a business, or of the same hosts that spammers like. */
export function honestLink(random: Random, language: Language): string {
  const domain = inventedDomain(random, language);
  const page = random.pick(listOf(language, 'honest-page'));
  return random.pick([
    `https://${domain}/${page}`,
    `https://www.${domain}/${page}`,
    `http://${domain}/${page}`,
    `http://www.${domain}`,
    `www.${domain}/${page}`,
    domain,
    hostedLink(random, language),
    hostedLink(random, language),
  ]);
}

function hostedLink(random: Random, language: Language): string {
  const [one, two] = [random.pick(listOf(language, 'honest-word')), random.between(2, 99)];
  const id = random.slug(11);
  return random.pick([
    `https://youtu.be/${id}`,
    `https://drive.google.com/file/d/${id}${id}/view?usp=sharing`,
    `https://www.dropbox.com/s/${id}/photos.zip?dl=0`,
    `https://github.com/acme/shop/issues/${random.between(3, 900)}`,
    `https://maps.app.goo.gl/${id}`,
    `https://www.linkedin.com/in/${id.toLowerCase()}`,
    `https://imgur.com/a/${id}`,
    `https://we.tl/t-${id}`,
    `https://docs.google.com/document/d/1${id}${id}/edit`,
    `https://docs.google.com/forms/d/e/1FAIpQL${id}${id}/viewform`,
    `https://sites.google.com/view/${one}-${two}`,
    `https://${one}${two}.wordpress.com`,
    `https://${one}${two}.netlify.app`,
    `https://wa.me/${random.digits('###########')}`,
    `https://t.me/${one}_${two}`,
    `https://bit.ly/${id.slice(0, 7)}`,
    `https://www.instagram.com/p/${id}/`,
    `https://www.facebook.com/${one}${two}`,
    `https://www.amazon.com/dp/B0${id.toUpperCase().slice(0, 8)}`,
    `https://www.booking.com/hotel/${one}.html`,
  ]);
}

/** A link that spam carries: `url`, `bare` (no scheme), `short`, `free` (a free host), or any of them. */
export function spamLink(random: Random, language: Language, { kit, kind }: { kit: Kit; kind: string }): string {
  switch (kind) {
    case 'bare':
      return `${random.pick(['www.', '', ''])}${spamDomain(random, language, kit)}${random.chance(0.4) ? spamPath(random, language) : ''}`;
    case 'short':
      return `${random.pick(['https://', 'https://', ''])}${random.pick(listOf(language, 'shortener'))}/${random.slug(random.between(4, 8))}`;
    case 'free':
      return freeHost(random, language, kit);
    case 'url': {
      const start = random.pick(['https://', 'https://', 'http://', 'https://www.']);
      return `${start}${spamDomain(random, language, kit)}${random.chance(0.7) ? spamPath(random, language) : '/'}`;
    }
    default:
      return spamLink(random, language, { kit, kind: random.pick(['url', 'url', 'bare', 'short', 'free']) });
  }
}

/** The domain of a spammer. */
export function spamDomain(random: Random, language: Language, kit: Kit): string {
  const words = poolOf(language, 'spam-word', kit);
  const name = `${random.pick(words)}${random.pick(['', '', '-'])}${random.pick(words)}${random.chance(0.3) ? random.between(1, 999) : ''}`;
  return `${name}.${random.pick(listOf(language, 'spam-tld'))}`;
}

function freeHost(random: Random, language: Language, kit: Kit): string {
  const words = poolOf(language, 'spam-word', kit);
  const [one, two] = [random.pick(words), random.pick(words)];
  return random.pick([
    `https://${one}${two}${random.between(1, 99)}.${random.pick(listOf(language, 'free-host'))}`,
    `https://sites.google.com/view/${one}-${two}${random.between(1, 99)}`,
    `https://telegra.ph/${one}-${two}-${random.digits('0#-1#')}`,
    `https://t.me/${one}_${two}${random.between(1, 99)}`,
    `https://wa.me/${random.digits('###########')}`,
    `https://docs.google.com/forms/d/e/1FAIpQL${random.slug(20)}/viewform`,
    `https://script.google.com/macros/s/AKfycb${random.slug(24)}/exec`,
    `https://storage.googleapis.com/${one}${two}/${random.slug(8)}.html`,
  ]);
}

function spamPath(random: Random, language: Language): string {
  const page = random.pick(listOf(language, 'spam-page'));
  if (page.endsWith('=')) return `/${page}${random.slug(6)}`;
  return random.chance(0.5) ? `/${page}` : `/${page}/${random.slug(random.between(3, 9))}`;
}
