/**
 * Who wrote a message (RFC 5322 §3.6.2): the one reading of From, for mail that comes in and for mail that programs submit.
 * Only what every reader takes for the same one address is one: DMARC looks at that address, a person sees it, and where
 * two readers differ one of them is fooled. Header text is Latin-1, one character a byte. Linear.
 */
import { domainToASCII, domainToUnicode } from 'node:url';
import { decodeWords, valueOf, type Field } from './header.ts';

export type AuthorReading =
  | {
      readonly kind: 'one';
      /** The display name; undefined where there is none. */
      readonly name: string | undefined;
      /** As it is written, its domain in lower-case A-labels. */
      readonly address: string;
    }
  /** Nobody is named, by no reading; why, in words. */
  | { readonly kind: 'none'; readonly fault: string }
  /** Readers differ; why, in words. */
  | { readonly kind: 'unclear'; readonly fault: string };

/** Longer than any list of authors is worth reading, bytes. */
export const MAX_FROM_BYTES = 16_384;

export const NOT_ONE_AUTHOR = 'the From header must be one address, such as Shop <shop@example.com>';

export function readAuthor(fields: readonly Field[]): AuthorReading {
  const [from, ...others] = fields.filter(isReadAsFrom);
  if (from === undefined) return { kind: 'none', fault: 'the message must have a From header' };
  if (others.length > 0) return { kind: 'unclear', fault: 'the message must have only one From header' };
  if (!/^from:/i.test(from.text)) {
    return { kind: 'unclear', fault: 'the From header must be written as From:, without other characters' };
  }
  if (from.text.length > MAX_FROM_BYTES) return { kind: 'unclear', fault: NOT_ONE_AUTHOR };
  return readMailbox(valueOf(from).replaceAll('\r\n', ''));
}

/** Whether the two are one address, whoever wrote them down: case of the domain, U-labels and quotes make no difference. */
export function isSameAddress(a: string, b: string): boolean {
  return normalized(a) === normalized(b);
}

function normalized(address: string): string {
  const at = address.lastIndexOf('@');
  return `${address.slice(0, at).replaceAll('"', '')}@${domainOf(address.slice(at + 1)) ?? ''}`;
}

/** The name of a field that all programs read alike. */
const PLAIN_NAME = /^[!-9;<>-~]+:/;

/** Also what some programs read as From: a byte order mark, blanks or letters of another width do not stop them all. */
function isReadAsFrom({ text }: Field): boolean {
  if (PLAIN_NAME.test(text)) return /^from:/i.test(text);
  const start = decodeWords(text.slice(0, 60)).normalize('NFKC');
  const colon = start.indexOf(':');
  return (
    colon > 0 &&
    start
      .slice(0, colon)
      .replaceAll(/[\p{C}\p{Z}]/gu, '')
      .toLowerCase() === 'from'
  );
}

type Token = { readonly kind: 'text' | 'quoted' | 'angle' | 'comment'; readonly text: string };

function readMailbox(text: string): AuthorReading {
  const elements = elementsOf(text);
  const [one, ...others] = (elements ?? []).filter((tokens) => addressIn(tokens) !== undefined);
  const address = one === undefined || others.length > 0 ? undefined : addressOf(addressIn(one) ?? '');
  const name = nameIn(one ?? []);
  // A name that ends early for one reader and not for another.
  if (address !== undefined && !/[\0\r\n]/.test(name ?? '')) return { kind: 'one', name, address };
  const isNobody = !decodeWords(text).normalize('NFKC').includes('@');
  return isNobody
    ? { kind: 'none', fault: 'the From header must name an address' }
    : { kind: 'unclear', fault: NOT_ONE_AUTHOR };
}

/** What stands between commas, in tokens; undefined where it breaks off, or where it is a group (RFC 5322 §3.4). */
function elementsOf(text: string): Token[][] | undefined {
  const elements: Token[][] = [[]];
  let plain = '';
  function add(token?: Token): void {
    if (plain !== '') elements.at(-1)?.push({ kind: 'text', text: plain });
    plain = '';
    if (token !== undefined) elements.at(-1)?.push(token);
  }
  for (let i = 0; i < text.length;) {
    const letter = text.charAt(i);
    const end = OPENING.has(letter) ? endOf(text, i) : i + 1;
    if (end === undefined || STRAY.has(letter)) return undefined;
    // Some programs take what follows for a letter, others do not.
    if (letter === '\\' && /[()<>[\]:;@\\,."]/.test(text.charAt(end))) return undefined;
    if (letter === ',') {
      add();
      elements.push([]);
    } else if (letter === '(') add({ kind: 'comment', text: text.slice(i, end) });
    else if (letter === '"') add({ kind: 'quoted', text: text.slice(i, end) });
    else if (letter === '<') add({ kind: 'angle', text: text.slice(i + 1, end - 1) });
    else plain += text.slice(i, end);
    i = end;
  }
  add();
  return elements;
}

const OPENING = new Set(['(', '"', '<', '[']);
/** Group syntax, and what ends something that has not begun. */
const STRAY = new Set([':', ';', ')', '>']);

/** Behind what is opened at `at`; undefined where it is not closed. Comments may be nested (RFC 5322 §3.2.2). */
function endOf(text: string, at: number): number | undefined {
  const opening = text.charAt(at);
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const letter = text.charAt(i);
    if (opening === '[') {
      // A literal's colons are its own; `[Shop]` in a name ends as well.
      if (letter === ']') return i + 1;
    } else if (opening === '<') {
      if (letter === '>') return i + 1;
      if (i > at && letter === '<') return undefined;
    } else if (letter === '\\') i++;
    else if (opening === '"') {
      if (i > at && letter === '"') return i + 1;
    } else if (letter === '(') depth++;
    else if (letter === ')' && --depth === 0) return i + 1;
  }
  return undefined;
}

/**
 * The addr-spec that the element has by one reader or the other, as it is written; undefined where it has none by any.
 * What is none by our grammar is not one address in the end.
 */
function addressIn(tokens: readonly Token[]): string | undefined {
  const written = tokens.filter(({ kind }) => kind !== 'comment');
  const at = written.findIndex(({ kind }) => kind === 'angle');
  if (at === -1) {
    // Whoever takes a comment within an address for nothing reads another address than who takes it for a blank.
    const text = joined(tokens.map((token) => (token.kind === 'comment' ? { ...token, text: ' ' } : token)));
    return written.some(({ kind, text: part }) => kind === 'text' && part.includes('@')) ? text : undefined;
  }
  const inner = (written[at]?.text ?? '').trim();
  const rest = joined(written.slice(at + 1));
  const phrase = written.slice(0, at).filter(({ kind }) => kind === 'text');
  const shown = joined(phrase);
  // `ana@example.org <ana@example.org>` is what many programs write.
  const isElsewhere = shown.includes('@') && shown.toLowerCase() !== inner.toLowerCase();
  if (rest !== '' || isElsewhere) return `${shown} ${inner} ${rest}`;
  return inner === '' ? undefined : inner;
}

function joined(tokens: readonly Token[]): string {
  return tokens
    .map(({ text }) => text)
    .join('')
    .trim();
}

/** The display name, decoded; else what a comment says. */
function nameIn(tokens: readonly Token[]): string | undefined {
  const angle = tokens.findIndex(({ kind }) => kind === 'angle');
  const phrase = tokens
    .slice(0, Math.max(0, angle))
    .filter(({ kind }) => kind !== 'comment')
    .map(({ kind, text }) => (kind === 'quoted' ? unquoted(text) : text));
  const comment = tokens.find(({ kind }) => kind === 'comment');
  const text = angle === -1 ? unquoted(comment?.text ?? '') : phrase.join('');
  const name = decodeWords(text)
    .replaceAll(/[ \t]+/g, ' ')
    .trim();
  return name === '' ? undefined : name;
}

function unquoted(text: string): string {
  return text.slice(1, -1).replaceAll(/\\(.)/g, '$1');
}

/** RFC 5322 §3.4.1 without blanks and comments, RFC 6531; dots may stand anywhere, as some carriers have them. */
const LOCAL = /^(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\u0080-\u{10ffff}-]+|"[A-Za-z0-9!#$%&'*+/=?^_`{|}~. -]+")$/u;
const LITERAL = /^\[(?:\d{1,3}(?:\.\d{1,3}){3}|ipv6:[0-9a-f:.]+)\]$/i;
const INVISIBLE = /[\p{C}\p{Z}\ufffd]/u;

function addressOf(bytes: string): string | undefined {
  const text = Buffer.from(bytes, 'latin1').toString();
  const at = text.lastIndexOf('@');
  const local = text.slice(0, at);
  const isPlain = LOCAL.test(local) && !INVISIBLE.test(local.replaceAll(' ', ''));
  // Where a program decodes it, or reads wide letters as narrow ones, it is another address.
  if (at < 1 || !isPlain || text.includes('=?') || /[@<>(),:;\s]/.test(local.normalize('NFKC').replaceAll(' ', ''))) {
    return undefined;
  }
  const domain = domainOf(text.slice(at + 1));
  return domain === undefined ? undefined : `${local}@${domain}`;
}

/** A domain of any number of labels, or a literal, written in the one way that it has; in lower-case A-labels. */
function domainOf(text: string): string | undefined {
  const lower = text.toLowerCase();
  if (LITERAL.test(text) || /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(lower)) return lower;
  // Of ASCII alone the line above takes all that is a domain.
  if (/^[\0-\x7f]*$/.test(lower) || /[\0-,/:-@[-`{-\x7f]/.test(lower) || INVISIBLE.test(text)) return undefined;
  const ascii = domainToASCII(lower);
  return ascii !== '' && domainToUnicode(ascii) === lower ? ascii : undefined;
}
