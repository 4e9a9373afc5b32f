/**
 * The header of a message: the fields of one that came, who wrote it, and the text of the fields that we write. Text of a header that came is
 * Latin-1 here, one character is one byte.
 */
import { isIPv6 } from 'node:net';
import { domainToASCII, domainToUnicode } from 'node:url';
import { needsSmtpUtf8, parseAddress, parseDomain, type Mailbox } from '../lib/addresses.ts';

// The header block of a message as it came, to be looked at and edited field by field: whatever is not edited keeps its
// bytes. Linear, wherever the pieces break.

export interface Field {
  /** Lower case; empty for a line that is no field. */
  readonly name: string;
  /** Its lines as they are, each with its CRLF. */
  readonly text: string;
}

export type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** More than any header block that we accept. */
const MAX_BYTES = 1 << 20;
const END = '\r\n\r\n';

/**
 * The header's lines, and what follows the empty line; a message without an empty line has no body. Rejects what has no
 * end of its header within a mebibyte.
 */
export async function splitHeader(message: Pieces): Promise<{ header: string; body: AsyncIterable<Uint8Array> }> {
  const pieces = join([], message);
  let header = '';
  // The end may be cut anywhere, and the empty line may be the first one.
  let tail = '\r\n';
  for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) {
    const piece = next.value;
    const text = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString('latin1');
    const at = (tail + text).indexOf(END);
    if (at !== -1) {
      const bodyStart = at + END.length - tail.length;
      header += text.slice(0, bodyStart);
      return { header: header.slice(0, -2), body: join([piece.subarray(bodyStart)], pieces) };
    }
    header += text;
    if (header.length > MAX_BYTES) throw new RangeError('the header of a message is too large');
    tail = (tail + text).slice(1 - END.length);
  }
  return { header, body: pieces };
}

async function* join(first: Pieces, rest: Pieces): AsyncGenerator<Uint8Array> {
  yield* first;
  yield* rest;
}

/** The fields in their order; their texts are the header again when joined. */
export function fieldsOf(header: string): Field[] {
  const texts: string[] = [];
  for (let at = 0; at < header.length;) {
    let end = at;
    do {
      const next = header.indexOf('\r\n', end);
      end = next === -1 ? header.length : next + 2;
    } while (header[end] === ' ' || header[end] === '\t');
    texts.push(header.slice(at, end));
    at = end;
  }
  return texts.map((text) => ({ name: nameOf(text), text }));
}

/** What follows the colon, folds included, without the last CRLF. */
export function valueOf({ text }: Field): string {
  return text.slice(text.indexOf(':') + 1, text.endsWith('\r\n') ? -2 : undefined);
}

/** The tags of a signature (RFC 6376 §3.2) by their names in lower case; of several with one name the first counts. */
export function tagsOf(field: Field): Map<string, string> {
  const tags = valueOf(field)
    .split(';')
    .map((tag): [string, string] => {
      const [name = '', ...value] = tag.split('=');
      return [name.trim().toLowerCase(), value.join('=').trim()];
    });
  return new Map(tags.reverse());
}

/** Blanks and a fold may be before the colon (RFC 5322 §4.5). */
function nameOf(text: string): string {
  const [, name = ''] = /^([!-9;-~]+)(?:[ \t]|\r\n(?=[ \t]))*:/.exec(text) ?? [];
  return name.toLowerCase();
}

// Text that is in a header: whatever it holds, it becomes one field of printable ASCII in folded lines, and a reader sees
// it again as it was, but for control characters, which are spaces. No value can begin a second header.

/** RFC 2047 §2 and RFC 5322 §2.1.1 prefer this; a token that is longer itself is in a longer line, up to 998. */
const LINE = 76;
const MAX_TOKEN_LENGTH = 900;
/** Of an encoded-word without `=?utf-8?Q?` and `?=`; with `Reply-To: ` before it the line stays within LINE. */
const WORD = 48;

/** One line: control characters and line separators are spaces, unpaired surrogates U+FFFD; no blanks around it. */
export function cleanText(text: string, longest: number): string {
  const line = text
    .slice(0, longest)
    .replaceAll(/[\p{Cc}\u2028\u2029]/gu, ' ')
    .trim();
  return line.replace(/[\uD800-\uDBFF]$/, '').toWellFormed();
}

/** RFC 5322 §3.3; what toUTCString gives is fixed by ECMA-262. */
export function mailDate(time: number): string {
  return new Date(time).toUTCString().replace('GMT', '+0000');
}

/** The Message-ID of a message of ours, with its angle brackets: the same for every try. `id` is `msg_…`. */
export function messageIdOf({ id, domain }: { readonly id: string; readonly domain: string }): string {
  return `<${id.slice(id.indexOf('_') + 1)}@${domain}>`;
}

export function dateHeader(time: number): string {
  return `Date: ${mailDate(time)}\r\n`;
}

/** A header of unstructured text, with its CRLF. */
export function textHeader(name: string, value: string, longest = 998): string {
  const text = cleanText(value, longest);
  return fold(name, isPlain(text) ? text.split(' ') : encodedWords(text));
}

/** A header of mailboxes, with its CRLF. Throws on what is not exactly one address each. */
export function mailboxHeader(name: string, mailboxes: readonly Mailbox[]): string {
  return fold(
    name,
    mailboxes.flatMap((mailbox, i) => mailboxTokens(mailbox, i < mailboxes.length - 1 ? ',' : '')),
  );
}

/** `; name="value"` or its RFC 2231 form on lines of their own: a parameter of a structured header. */
export function parameter(name: string, value: string): string {
  if (/^[\x20-\x7e]{0,60}$/.test(value) && !value.includes('=?')) {
    return `;\r\n ${name}=${quoted(value)}`;
  }
  const pieces = groups(value, (char) => encodeURIComponent(char).replaceAll(/['()*!]/g, percent), WORD);
  if (pieces.length === 1) return `;\r\n ${name}*=utf-8''${pieces[0]}`;
  return pieces.map((piece, i) => `;\r\n ${name}*${i}*=${i === 0 ? "utf-8''" : ''}${piece}`).join('');
}

function mailboxTokens({ name, address }: Mailbox, after: string): string[] {
  const parsed = parseAddress(address);
  if (parsed === undefined) throw new Error('a header address is not one email address');
  const text = cleanText(name ?? '', 200);
  if (text === '') return [parsed.address + after];
  // An encoded-word inside quotes is text by RFC 2047 §5, but many readers decode it.
  const quotable = isPlain(text) && text.length <= 60;
  const words = quotable ? [quoted(text)] : encodedWords(text);
  return [...words, `<${parsed.address}>${after}`];
}

/** RFC 5322 §3.2.4. */
function quoted(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}

function isPlain(text: string): boolean {
  if (!/^(?:[!-~]+(?: [!-~]+)*)?$/.test(text) || text.includes('=?')) return false;
  return text.length <= MAX_TOKEN_LENGTH || text.split(' ').every((word) => word.length <= MAX_TOKEN_LENGTH);
}

/** RFC 2047, each word whole code points; Q where that is shorter, which is where most is ASCII. */
function encodedWords(text: string): string[] {
  const words = groups(text, quoteCharacter, WORD);
  const bytes = Buffer.byteLength(text);
  if (words.join('').length <= Math.ceil(bytes / 3) * 4) return words.map((word) => `=?utf-8?Q?${word}?=`);
  const plain = groups(text, (char) => char, (WORD / 4) * 3);
  return plain.map((word) => `=?utf-8?B?${Buffer.from(word).toString('base64')}?=`);
}

/** RFC 2047 §5 (3): only what may be in a phrase stands for itself. */
function quoteCharacter(char: string): string {
  if (char === ' ') return '_';
  if (/^[A-Za-z0-9!*+\-/]$/.test(char)) return char;
  return Buffer.from(char).toString('hex').toUpperCase().replaceAll(/../g, '=$&');
}

function percent(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** The code points' encodings, joined to strings of at most `bytes` bytes. */
function groups(text: string, encode: (char: string) => string, bytes: number): string[] {
  const result: string[] = [];
  let group = '';
  let used = 0;
  for (const char of text) {
    const encoded = encode(char);
    const size = Buffer.byteLength(encoded);
    if (used + size > bytes) {
      result.push(group);
      group = '';
      used = 0;
    }
    group += encoded;
    used += size;
  }
  return [...result, group];
}

/** `name: token token…`, broken before a token that would pass LINE, never before the first. */
function fold(name: string, tokens: readonly string[]): string {
  let text = `${name}:`;
  let used = text.length;
  for (const [i, token] of tokens.entries()) {
    if (token === '') continue;
    const fits = i === 0 || used + 1 + token.length <= LINE;
    text += fits ? ` ${token}` : `\r\n ${token}`;
    used = (fits ? used : 0) + 1 + token.length;
  }
  return `${text}\r\n`;
}

// Encoded-words (RFC 2047) back to text, in whatever character set they are; linear.

const WORD_ENCODED_WORDS = /=\?([^?\s*]{1,40})(?:\*[^?\s]*)?\?([bq])\?([^?\s]*)\?=/gi;
/** What divides two words that were one text (§6.2). */
const BETWEEN = /^[ \t\r\n]*$/;

/** Latin-1 text of a header, one character a byte, as its reader sees it. What cannot be decoded stays as it is. */
export function decodeWords(text: string): string {
  let decoded = '';
  let pending: Pending | undefined;
  let at = 0;
  for (const [word, charset = '', encoding = '', content = ''] of text.matchAll(WORD_ENCODED_WORDS)) {
    const start = text.indexOf(word, at);
    const gap = text.slice(at, start);
    const joins = pending !== undefined && BETWEEN.test(gap);
    if (pending !== undefined && !(joins && pending.charset === charset.toLowerCase())) {
      decoded += decodeBytes(pending);
      pending = undefined;
    }
    if (!joins) decoded += decodeRaw(gap);
    // A character may be cut in two by the words' end, against the rules.
    pending ??= { charset: charset.toLowerCase(), bytes: [], written: '' };
    pending.written += joins && pending.written !== '' ? gap + word : word;
    pending.bytes.push(encoding.toLowerCase() === 'b' ? Buffer.from(content, 'base64') : fromQ(content));
    at = start + word.length;
  }
  return decoded + (pending === undefined ? '' : decodeBytes(pending)) + decodeRaw(text.slice(at));
}

/** Words of one character set that are read together. */
interface Pending {
  readonly charset: string;
  readonly bytes: Buffer[];
  /** As they stand. */
  written: string;
}

function decodeBytes({ charset, bytes, written }: Pending): string {
  try {
    return new TextDecoder(charset).decode(Buffer.concat(bytes));
  } catch {
    return decodeRaw(written);
  }
}

/** Bytes beyond ASCII in a header are UTF-8 (RFC 6532), or what somebody's computer was set to. */
function decodeRaw(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}

function fromQ(content: string): Buffer {
  const text = content
    .replaceAll('_', ' ')
    .replaceAll(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(text, 'latin1');
}

// The trace of a message that we took (RFC 5321 §4.4): whatever a client says of itself, it is one field.

interface Arrival {
  readonly ip: string;
  /** The argument of EHLO, as it came. */
  readonly helo: string;
  /** `ESMTPS`, … (RFC 3848) */
  readonly protocol: string;
  /** `TLSv1.3`, … ; null for clear text. */
  readonly tls: string | null;
  /** Ours. */
  readonly hostname: string;
  /** Of the message, in our records. */
  readonly id: string;
  /** Whom it is for; told where that is one address alone, in ASCII: of several each would learn of the others. */
  readonly recipients: readonly { readonly original: string }[];
  /** Milliseconds. */
  readonly at: number;
}

/** The `Received:` field, with its CRLF. */
export function receivedLine(arrival: Arrival): string {
  const { ip, helo, protocol, tls, hostname, id, recipients, at } = arrival;
  const literal = isIPv6(ip) ? `[IPv6:${ip}]` : `[${ip}]`;
  const name = parseDomain(helo);
  // Neither a domain nor this client's address: what it said is in the comment alone.
  const from = name ?? literal;
  const said = name === undefined && helo !== literal ? ` helo=${printable(helo)}` : '';
  const [recipient, ...rest] = recipients;
  const isTold = recipient !== undefined && rest.length === 0 && !needsSmtpUtf8(recipient.original);
  const lines = [
    `Received: from ${from} (${literal}${said})`,
    `by ${hostname} with ${protocol}${tls === null ? '' : ` (${printable(tls)})`} id ${id}`,
    ...(isTold ? [`for <${recipient.original}>`] : []),
  ];
  return `${lines.join('\r\n ')};\r\n ${mailDate(at)}\r\n`;
}

/** Within a comment. */
function printable(text: string): string {
  return text.slice(0, 255).replaceAll(/[^!-'*-[\]-~]/g, '?');
}

// Who wrote a message (RFC 5322 §3.6.2): the one reading of From, for mail that comes in and for mail that programs submit.
// Only what every reader takes for the same one address is one: DMARC looks at that address, a person sees it, and where
// two readers differ one of them is fooled. Header text is Latin-1, one character a byte. Linear.

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
  const [from, ...rest] = fields.filter(isReadAsFrom);
  if (from === undefined) return { kind: 'none', fault: 'the message must have a From header' };
  if (rest.length > 0) return { kind: 'unclear', fault: 'the message must have only one From header' };
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
  const [one, ...rest] = (elements ?? []).filter((tokens) => addressIn(tokens) !== undefined);
  const address = one === undefined || rest.length > 0 ? undefined : addressOf(addressIn(one) ?? '');
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
