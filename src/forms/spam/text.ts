/** What a visitor wrote, as all parts of the filter read it: at most 256 KiB of it, with its links and what their hosts are known for. */
import type { Form } from '../../config/snapshot.ts';
import { emailOf, replyToOf, valuesOf, type Control, type Field } from '../fields.ts';
import type { TokenState } from '../challenges.ts';

/** Something that the visitor wrote, and the field that it stood in. */
export interface Value {
  readonly name: string;
  readonly text: string;
  /** An address of mail, digits and signs, what a person, firm or place is called, or words. */
  readonly kind: 'address' | 'number' | 'name' | 'words';
}

export interface Text {
  readonly values: readonly Value[];
  /** All values. */
  readonly text: string;
  readonly links: readonly Link[];
  /** The visitor's address. */
  readonly email: string | undefined;
  /** The domain whose form it is. */
  readonly domain: string;
}

/** What the filter knows of a form. */
export type Rules = Pick<Form, 'config' | 'domain' | 'id' | 'tenant' | 'project'>;

export interface SpamInput {
  readonly fields: readonly Field[];
  readonly control: Control;
  /** The visitor's address. */
  readonly ip: string;
  readonly visit?: Visit | undefined;
}

/** Facts about the visitor; what is left out says nothing. */
export interface Visit {
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined;
  /** It came with an API key: a site's own server posts for the visitor. */
  readonly hasKey?: boolean | undefined;
  /** It came over HTTPS, where browsers say more. */
  readonly isSecure?: boolean | undefined;
  readonly token?: TokenState | undefined;
  readonly challenge?: 'passed' | undefined;
}

interface Written {
  readonly fields: readonly Field[];
  readonly control: Pick<Control, 'subject' | 'replyTo'>;
}

const MAX_TEXT_LENGTH = 256 * 1024;
const MAX_ADDRESS_LENGTH = 330;
const MAX_NAME_LENGTH = 60;
const ONE_ADDRESS = /^\s*[^\s@]{1,64}@[^\s@]{1,255}\s*$/;
const NO_WORDS = /^[\s\d+()./,;:*#-]*$/;
/** A field for a person, a firm or a place: what people are called says nothing. */
const NAME =
  /(?:^|[^a-z])(?:f|l)?name|name$|^(?:prén|pren)?om$|nom(?:bre|$)|prénom|apellido|sobrenome|cognome|surname|vorname|nachname|imi[eę]|nazwisk|naam|navn|namn|nimi|jm[eé]no|příjmení|isim|soyad|^ad[ıi]?$|имя|фамилия|ім.я|прізвище|الاسم|^اسم|שם|名|성함|이름|company|organi[sz]ation|firm|empresa|entreprise|société|azienda|bedrijf|yritys|virksomhed|företag|şirket|компания|会社|公司|회사|city|town|location|stadt|ort$|ville|ciudad|città|cidade|miasto|город|country|land$|addr|street/iu;

/** Reads a submission to a form of `domain`. */
export function readText(
  { fields, control }: Written,
  domain: string,
  config: Parameters<typeof emailOf>[1] = { fields: {} },
): Text {
  const values = valuesIn(fields, control);
  const text = values.map((value) => value.text).join('\n');
  const email = emailOf(fields, config) ?? replyToOf(control) ?? addressIn(values);
  const links = values.flatMap((value) => (value.kind === 'address' ? [] : linksOf(value.text))).slice(0, MAX_LINKS);
  return { values, text, links, email, domain };
}

/** All that the visitor wrote, with the name of its field, as far as it is read. */
function valuesIn(fields: readonly Field[], { subject, replyTo }: Written['control']): Value[] {
  const values: Value[] = [];
  let left = MAX_TEXT_LENGTH;
  const sent: readonly Field[] = [...fields, ['_subject', subject ?? ''], ['_replyto', replyTo ?? '']];
  for (const [name, value] of sent) {
    for (const text of valuesOf(value)) {
      if (text === '') continue;
      if (left === 0) return values;
      const read = text.slice(0, left);
      left -= read.length;
      values.push({ name, text: read, kind: kindOf(name, read) });
    }
  }
  return values;
}

function kindOf(name: string, text: string): Value['kind'] {
  if (text.length <= MAX_ADDRESS_LENGTH && text.includes('@') && ONE_ADDRESS.test(text)) return 'address';
  if (text.length < MAX_NAME_LENGTH && NAME.test(name)) return 'name';
  return NO_WORDS.test(text) ? 'number' : 'words';
}

/** A field with an address alone, whatever it is called. */
function addressIn(values: readonly Value[]): string | undefined {
  return values.find(({ kind }) => kind === 'address')?.text.trim();
}

/** A link, with a scheme or without. */
export interface Link {
  /** As it stands there. */
  readonly text: string;
  /** In small letters, without `www.` and port. */
  readonly host: string;
  readonly path: string;
  /** Without `https://`: `offers.example/now`. */
  readonly isBare: boolean;
}

/** Of one text, and of all of a submission. */
const MAX_LINKS = 200;
const MAX_LINK_LENGTH = 2000;

/**
 * A scheme, `www.`, or a name that ends like a domain and stands by itself. File names, abbreviations and addresses of mail
 * are none: the last label must be a usual top-level domain.
 */
const TOP_LEVEL =
  'com|net|org|info|biz|io|co|me|tv|cc|ai|app|dev|eu|de|at|ch|fr|es|it|pt|nl|be|pl|cz|sk|se|no|dk|fi|uk|ie|us|ca|au|nz|in|cn|jp|kr|tw|hk|ru|su|ua|by|kz|tr|gr|ro|hu|bg|rs|hr|si|lt|lv|ee|il|ir|ae|sa|eg|za|ng|ke|br|mx|ar|cl|pe|ve|id|my|sg|th|vn|ph|pk|bd|lk|gl|gd|ly|gg|to|ws|fm|xyz|top|online|site|store|shop|club|click|link|icu|buzz|live|fun|space|website|pro|life|world|today|tech|digital|agency|media|news|blog|email|work|bet|casino|poker|finance|loan|loans|money|vip|win|bid|trade|stream|download|racing|review|party|science|date|men|cfd|sbs|lol|monster|quest|rest|cyou|bond|makeup|hair|skin|beauty|mom|ink|cloud|host|press|ltd|group|solutions|services|support|marketing|promo|expert|guru|zone|one|best|social|tokyo|рф|укр';
const LINK = new RegExp(
  `(?:https?|hxxps?|ftp):\\/\\/[^\\s<>"'\\]]+|(?<![\\p{L}\\p{N}@._-])(?:www\\.[^\\s<>"'\\]]+|(?:[\\p{L}\\p{N}-]{1,63}\\.){1,4}(?:${TOP_LEVEL})(?![\\p{L}\\p{N}_@-]|\\.[\\p{L}\\p{N}])(?:[/?#:][^\\s<>"'\\]]*)?)`,
  'giu',
);
/** Next to every text without a link has none of these, and is not searched further. */
const MAYBE = /:\/\/|[\p{L}\p{N}]\.[\p{L}]{2}/u;

/** A dot without a space behind it, `Thanks.It was good`, is no domain. */
const SENTENCE_END = /^[^./:]*\p{Ll}\.\p{Lu}\p{Ll}*$/u;

/** The links of a text, at most the first two hundred. */
export function linksOf(text: string): readonly Link[] {
  if (!MAYBE.test(text)) return [];
  const links: Link[] = [];
  for (const [found] of text.matchAll(LINK)) {
    if (SENTENCE_END.test(found)) continue;
    links.push(linkOf(found.slice(0, MAX_LINK_LENGTH)));
    if (links.length === MAX_LINKS) break;
  }
  return links;
}

function linkOf(found: string): Link {
  const text = found.replace(/(?<![.,;:!?)}»”’。，、])[.,;:!?)}»”’。，、]+$/u, '');
  const scheme = text.indexOf('://');
  const rest = (scheme === -1 ? text : text.slice(scheme + 3)).toLowerCase();
  const end = rest.search(/[/?#\\]/);
  const authority = end === -1 ? rest : rest.slice(0, end);
  const host = authority
    .slice(authority.lastIndexOf('@') + 1)
    .replace(/:\d+$/, '')
    .replace(/^www\./, '');
  return { text, host, path: end === -1 ? '' : rest.slice(end), isBare: scheme === -1 };
}

/** The name below which somebody registered it: `shop.example.co.uk` is of `example.co.uk`. */
export function registeredName(host: string): string {
  const labels = host.split('.');
  const last = labels.at(-1) ?? '';
  const second = labels.at(-2) ?? '';
  const isCountry = last.length === 2 && /^(?:com?|net|org|ac|gov|edu|or|ne|go|gob|web|in|biz)$/.test(second);
  return labels.slice(isCountry ? -3 : -2).join('.');
}

function names(text: string): ReadonlySet<string> {
  return new Set(text.split(' '));
}

const SHORTENERS = names(
  'bit.ly bitly.com tinyurl.com cutt.ly is.gd v.gd rb.gy tiny.cc shorturl.at goo.su clck.ru vk.cc u.to t.ly t.co ow.ly buff.ly lnkd.in rebrand.ly shorte.st adf.ly bl.ink s.id linktr.ee soo.gd x.co qr.ae tr.im urlz.fr lc.cx bc.vc ouo.io shrtco.de short.gy tny.im kutt.it han.gl vo.la me2.do url.kr n9.cl acortar.link encurtador.com.br dub.sh shorturl.asia surl.li linkify.me t1p.de kurzelinks.de 2u.pw yip.su dik.si lihi.cc reurl.cc zpr.io rebrand.link',
);
const FREE_HOSTS = names(
  'blogspot.com weebly.com wixsite.com wordpress.com tumblr.com telegra.ph sites.google.com docs.google.com forms.gle site123.me jimdosite.com webnode.page yolasite.com strikingly.com carrd.co godaddysites.com square.site mystrikingly.com webflow.io netlify.app vercel.app web.app firebaseapp.com pages.dev workers.dev r2.dev github.io gitlab.io herokuapp.com onrender.com glitch.me replit.app surge.sh 000webhostapp.com blogspot.de ucoz.ru ucoz.com narod.ru livejournal.com medium.com notion.site tilda.ws bravesites.com over-blog.com altervista.org bitballoon.com s3.amazonaws.com blob.core.windows.net cloudfront.net azurewebsites.net appspot.com storage.googleapis.com myshopify.com gitbook.io framer.website framer.app lovable.app hashnode.dev substack.com teletype.in graph.org rentry.co pastebin.com zohosites.com biz.nf 16mb.com infinityfreeapp.com epizy.com rf.gd',
);
const MESSENGERS = names(
  't.me telegram.me telegram.dog wa.me api.whatsapp.com chat.whatsapp.com line.me lin.ee viber.click vb.me join.skype.com discord.gg signal.me wa.link m.me zalo.me',
);
const COMMON = names(
  'google.com maps.google.com goo.gl youtube.com youtu.be facebook.com instagram.com linkedin.com twitter.com x.com wikipedia.org amazon.com apple.com microsoft.com github.com dropbox.com drive.google.com we.tl wetransfer.com ebay.com etsy.com airbnb.com booking.com tripadvisor.com paypal.com pinterest.com tiktok.com vimeo.com spotify.com zoom.us icloud.com onedrive.live.com maps.app.goo.gl yelp.com trustpilot.com openstreetmap.org w3.org schema.org example.com gmail.com outlook.com yahoo.com hotmail.com',
);
const CHEAP =
  /\.(?:xyz|top|online|site|store|shop|club|click|link|icu|buzz|live|fun|space|website|pro|life|world|today|bet|casino|poker|loan|loans|vip|win|bid|trade|stream|download|racing|review|party|science|date|men|cfd|sbs|lol|monster|quest|rest|cyou|bond|makeup|hair|skin|beauty|mom|su|tk|ml|ga|cf|gq|pw|cc|ws|biz|info)$/;

/** Hides where a link leads. */
export function isShortener(host: string): boolean {
  return isIn(SHORTENERS, host);
}

/** Gives everybody a site for nothing, below its own name. */
export function isFreeHost(host: string): boolean {
  return isIn(FREE_HOSTS, host);
}

/** A messenger's: whoever follows it chats with a stranger. */
export function isMessenger(host: string): boolean {
  return isIn(MESSENGERS, host);
}

/** Everybody links there: that many forms saw such a link says nothing. */
export function isCommon(host: string): boolean {
  return isIn(COMMON, host);
}

/** The domain is of a kind that costs next to nothing and that few firms use. */
export function isCheap(host: string): boolean {
  return CHEAP.test(host);
}

function isIn(list: ReadonlySet<string>, host: string): boolean {
  for (let name = host; name !== ''; name = name.slice(name.indexOf('.') + 1)) {
    if (list.has(name)) return true;
    if (!name.includes('.')) return false;
  }
  return false;
}
