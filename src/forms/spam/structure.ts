/** Signs of spam in what a submission is made of: links, mail headers, repetition, and the domain of the visitor's address. */
import type { Reason, Value } from './reasons.ts';

const LINK = /(?:https?:\/\/|\bwww\.)[^\s<>"'\]]+/gi;
const ONE_LINK = new RegExp(LINK.source, 'i');
const SHORT =
  /^(?:https?:\/\/)?(?:www\.)?(?:bit\.ly|tinyurl\.com|t\.me|cutt\.ly|is\.gd|rb\.gy|tiny\.cc|shorturl\.at|goo\.su|clck\.ru|vk\.cc|u\.to|t\.ly)\//i;
const PERSON = /^(?:first|last|full|user|your|sur|family|given)?[ _-]?name$/i;
const BBCODE = /\[(?:url|link)=|\[url\][^[]{0,300}\[\/url/i;
const ANCHOR = /<a\s[^<>]{0,40}?href/gi;
/** The most links that are looked at one by one. */
const MAX_LINKS = 1000;

/** The links in a text, as they stand there. */
export function linksOf(text: string): readonly string[] {
  return text.match(LINK) ?? [];
}

/** Whether there is a link in the text. */
function hasLink(text: string): boolean {
  return ONE_LINK.test(text);
}

/** What the links of a submission say. */
export function linkReasons(values: readonly Value[], text: string, links: readonly string[]): Reason[] {
  const reasons: Reason[] = [];
  if (links.length > 2) {
    reasons.push({ name: 'links', score: Math.min(8, links.length - 2), detail: `${links.length} links` });
  }
  if (links.length >= 2 && links.reduce((sum, { length }) => sum + length, 0) > text.length / 2) {
    reasons.push({ name: 'mostly_links', score: 4, detail: 'little text beside the links' });
  }
  const short = links.slice(0, MAX_LINKS).find((link) => SHORT.test(link));
  if (short !== undefined) reasons.push({ name: 'short_link', score: 3, detail: short.slice(0, 60) });
  return [...reasons, ...markupReasons(text), ...nameReasons(values)];
}

function markupReasons(text: string): Reason[] {
  if (!text.includes('[') && !text.includes('<')) return [];
  const anchors = text.match(ANCHOR)?.length ?? 0;
  const bbcode = BBCODE.test(text);
  if (anchors === 0 && !bbcode) return [];
  const score = bbcode || anchors >= 3 ? 8 : 4;
  return [{ name: 'link_markup', score, detail: bbcode ? 'links in BBCode' : 'links in HTML' }];
}

function nameReasons(values: readonly Value[]): Reason[] {
  const odd = values.find(({ name, text }) => PERSON.test(name) && hasLink(text));
  return odd === undefined ? [] : [{ name: 'link_in_name', score: 8, detail: `in the field ${odd.name.slice(0, 60)}` }];
}

const ONE_LINE = /^(?:.*[ _-])?(?:name|e-?mail|subject|phone|tel|company|_replyto)$/i;
const HEADER_AFTER_BREAK =
  /[\r\n][ \t]{0,20}(?:bcc|cc|to|from|reply-to|subject|content-type|content-transfer-encoding|mime-version)[ \t]{0,20}:/i;
const BCC_LINE = /^[ \t]{0,20}bcc[ \t]{0,20}:[^\r\n]{0,200}@/im;
const MIME_LINE = /^[ \t]{0,20}(?:mime-version|content-type|content-transfer-encoding)[ \t]{0,20}:/im;

/** What lines that look like mail headers say. */
export function headerReasons(values: readonly Value[], text: string): Reason[] {
  const reasons = values.flatMap(({ name, text: value }): Reason[] => {
    if (!ONE_LINE.test(name) || !/[\r\n]/.test(value)) return [];
    const detail = `in the field ${name.slice(0, 60)}`;
    if (HEADER_AFTER_BREAK.test(value)) {
      return [{ name: 'header_injection', score: 10, detail: `a mail header ${detail}` }];
    }
    return /[\r\n]/.test(value.trim()) ? [{ name: 'line_breaks', score: 3, detail }] : [];
  });
  return [...reasons, ...lineReasons(text)];
}

function lineReasons(text: string): Reason[] {
  if (!text.includes(':')) return [];
  const bcc = BCC_LINE.test(text);
  const mime = MIME_LINE.test(text);
  if (!bcc && !mime) return [];
  const score = (bcc ? 6 : 0) + (mime ? 4 : 0);
  return [{ name: 'header_lines', score, detail: bcc ? 'a Bcc line' : 'MIME headers' }];
}

/** So much of a text shows whether it is monotonous. */
const SAMPLE = 32 * 1024;

/** What repeats itself in a submission. */
export function repetitionReasons(values: readonly Value[], text: string): Reason[] {
  const reasons = sameTexts(values);
  if (hasRun(text, 50)) reasons.push({ name: 'repetition', score: 4, detail: 'one character over and over' });
  else if (isMonotonous(text)) reasons.push({ name: 'repetition', score: 6, detail: 'few words over and over' });
  return reasons;
}

function sameTexts(values: readonly Value[]): Reason[] {
  const counts = new Map<string, number>();
  for (const { text } of values) {
    if (text.length < 15) continue;
    const count = (counts.get(text) ?? 0) + 1;
    if (count === 3) {
      const score = hasLink(text) ? 10 : 6;
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

function isMonotonous(text: string): boolean {
  if (text.length < 400) return false;
  const words =
    text
      .slice(0, SAMPLE)
      .toLowerCase()
      .match(/\p{L}+/gu) ?? [];
  return words.length >= 40 && new Set(words).size < Math.min(30, words.length / 5);
}

/** Whether the domain certainly takes no mail. What DNS cannot say is no. */
export type RefusesMail = (domain: string) => Promise<boolean>;

/** What the domain of the address says by itself. */
export function addressReasons(domain: string | undefined): Reason[] {
  if (domain === undefined || !isDisposable(domain)) return [];
  return [{ name: 'disposable_address', score: 4, detail: domain }];
}

/** The reason that a domain without mail gives. */
export function noMx(domain: string): Reason {
  return { name: 'no_mx', score: NO_MX, detail: `${domain} takes no mail` };
}

export const NO_MX = 4;

/** Such services have names below their own as well. */
function isDisposable(domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (DISPOSABLE.has(name)) return true;
  }
  return false;
}

/**
 * Domains of services that give away mail addresses for minutes: the well-known ones, and no provider at which people stay
 * (forwarding aliases such as SimpleLogin, addy.io or Apple's are addresses like any other). A form's blocklist takes more.
 */
const DISPOSABLE: ReadonlySet<string> = new Set(
  (
    '0-mail.com 10mail.org 10minutemail.com 10minutemail.net 10minutemail.co.za 10minutesmail.com 1secmail.com 1secmail.net ' +
    '1secmail.org 20minutemail.com 20minutemail.it 33mail.org 5mail.cf 6paq.com anonbox.net anonymbox.com armyspy.com binkmail.com ' +
    'bobmail.info bouncr.com brefmail.com bugmenot.com burnermail.io burnthespam.info byom.de chammy.info cock.lu ' +
    'crazymailing.com cuvox.de dayrep.com deadaddress.com despam.it devnullmail.com discard.email discardmail.com discardmail.de ' +
    'disposableaddress.com disposable-email.ml disposablemail.com dispostable.com dodgit.com dropmail.me dropjar.com dumpmail.de ' +
    'einrot.com email-fake.com emailfake.com emailondeck.com emailsensei.com emailtemporanea.com emailtemporario.com.br ' +
    'emailwarden.com emltmp.com ephemail.net etranquil.com explodemail.com fakeinbox.com fakemail.fr fakemailgenerator.com ' +
    'fastacura.com filzmail.com fivemail.de fleckens.hu freundin.ru generator.email getairmail.com getnada.com ' +
    'ghosttexter.de grr.la guerrillamail.biz guerrillamail.com guerrillamail.de guerrillamail.info guerrillamail.net ' +
    'guerrillamail.org guerrillamailblock.com gustr.com haltospam.com harakirimail.com hidemail.de hmamail.com hulapla.de ' +
    'inboxalias.com inboxbear.com inboxkitten.com incognitomail.com instant-mail.de jetable.org jourrapide.com kasmail.com ' +
    'killmail.com kurzepost.de linshiyouxiang.net mail-temp.com mail-temporaire.fr mail.tm mail7.io mailcatch.com maildrop.cc ' +
    'maildu.de maileater.com mailexpire.com mailforspam.com mailfreeonline.com mailinator.com mailinator.net mailinator2.com ' +
    'mailmetrash.com mailmoat.com mailnesia.com mailnull.com mailpoof.com mailsac.com mailshell.com mailslurp.com mailtemp.info ' +
    'mailtothis.com meltmail.com minuteinbox.com mintemail.com mohmal.com moakt.com mt2015.com mvrht.com mytemp.email mytrashmail.com ' +
    'nada.email noclickemail.com nomail.xl.cx nospam.ze.tc nowmymail.com objectmail.com oneoffemail.com owlymail.com ' +
    'pokemail.net proxymail.eu rcpt.at receivemail.org rhyta.com sharklasers.com shieldemail.com sneakemail.com ' +
    'sofort-mail.de spam4.me spamavert.com spambog.com spambog.de spambox.us spamcero.com spamday.com spamdecoy.net spamex.com ' +
    'spamfree24.org spamgourmet.com spamherelots.com spamhole.com spaml.com spammotel.com spamspot.com superrito.com suremail.info ' +
    'teleworm.us temp-mail.io temp-mail.org temp-mail.ru tempail.com tempemail.net tempinbox.com tempmail.de tempmail.dev ' +
    'tempmail.net tempmail.plus tempmailaddress.com tempmailo.com tempomail.fr temporaryemail.net temporaryinbox.com ' +
    'tempr.email thankyou2010.com throwam.com throwawaymail.com tmail.ws tmailor.com tmpmail.net tmpmail.org trash-mail.at ' +
    'trash-mail.com trash-mail.de trashinbox.com trashmail.at trashmail.com trashmail.de trashmail.me trashmail.net trashmail.org ' +
    'trashymail.com trbvm.com tyldd.com uggsrock.com veryrealemail.com wegwerfadresse.de wegwerfemail.de wegwerfmail.de ' +
    'wegwerfmail.net wegwerfmail.org wh4f.org yopmail.com yopmail.fr yopmail.net zehnminutenmail.de zoemail.org'
  ).split(' '),
);
