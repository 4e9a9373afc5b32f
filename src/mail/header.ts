/**
 * The header of a message: the fields of one that came, and the text of those that we write. Text of a header that came is
 * Latin-1 here, one character is one byte.
 */
import { isIPv6 } from 'node:net';
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
  if (parsed === undefined) throw new Error('a header address is not one mail address');
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

export interface Arrival {
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
  const [recipient, ...others] = recipients;
  const isTold = recipient !== undefined && others.length === 0 && !needsSmtpUtf8(recipient.original);
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
