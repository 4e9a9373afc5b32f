/**
 * The fields of a body, in the order sent and within limits: reading the bytes, their charset, urlencoded bodies (WHATWG URL
 * Standard §5.1), and JSON. Bytes in a declared charset must be valid in it; others are UTF-8, or else Windows-1252, which a page
 * without a charset sends (WHATWG Encoding Standard §4.2).
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { TextDecoder } from 'node:util';
import { shortened, type FieldError } from '../forms/fields.ts';
import { message } from '../languages/languages.ts';
import { messageOf } from '../lib/errors.ts';
import { refuse, type Refusal } from './answer.ts';

export type Entry = readonly [name: string, value: string];

export interface Parsed {
  readonly entries: readonly Entry[];
  /** Entries hold what was read until then. */
  readonly refusal?: Refusal | undefined;
}

export interface FieldLimits {
  /** How many entries. */
  readonly fields: number;
  /** Bytes of one value. */
  readonly field: number;
}

/** Bytes of a field's name. */
const MAX_NAME_LENGTH = 1024;

/** Collects entries within the limits; tells the first limit that was passed. */
export class Entries {
  readonly list: Entry[] = [];
  readonly #limits: FieldLimits;
  #seen = 0;
  #refusal: Refusal | undefined;

  constructor(limits: FieldLimits) {
    this.#limits = limits;
  }

  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  /** False once there is no use in reading on. A field without a name is none, as in a browser. */
  add(name: string, value: string): boolean {
    if (++this.#seen > this.#limits.fields) {
      this.#refusal = tooManyFields(this.#limits.fields);
      return false;
    }
    if (name.length > MAX_NAME_LENGTH) {
      this.#refusal = refuse('BODY_TOO_LARGE', {
        message: `The name of a field is too long (at most ${MAX_NAME_LENGTH} characters).`,
      });
      return false;
    }
    if (name === '') return true;
    if (Buffer.byteLength(value) > this.#limits.field) this.#refusal ??= fieldTooLong(name, this.#limits.field);
    this.list.push([name, value]);
    return true;
  }
}

export function tooManyFields(most: number): Refusal {
  return refuse('BODY_TOO_LARGE', { message: message('error.tooManyFields', { max: most }) });
}

function fieldTooLong(field: string, most: number): Refusal {
  return refuse('BODY_TOO_LARGE', {
    errors: [
      {
        field,
        code: 'TYPE_TEXT',
        message: ({ say, size }) => say('field.tooLarge', { field: shortened(field), size: size(most) }),
      },
    ],
  });
}

/** A body that is not what its type says. */
export function malformed(message: string, field?: FieldError): Refusal {
  return refuse('BODY_MALFORMED', { message, errors: field && [field] });
}

export function unknownCharset(label: string): Refusal {
  return refuse('UNSUPPORTED_MEDIA_TYPE', {
    message: `The charset "${label.slice(0, 40)}" is not supported. Use UTF-8.`,
  });
}

const STRICT = { fatal: true, ignoreBOM: true };

/** The decoder of a charset by any of its labels, or undefined where it is unknown. */
export function decoderOf(label: string): TextDecoder | undefined {
  try {
    return new TextDecoder(label.trim(), STRICT);
  } catch {
    return undefined;
  }
}

/** The text, or undefined where the bytes are not valid in the charset. */
export function decode(bytes: Buffer, decoder: TextDecoder): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The body as text of its charset. */
export function textOf(bytes: Buffer, charset = 'utf-8'): string | Refusal {
  const decoder = decoderOf(charset);
  if (decoder === undefined) return unknownCharset(charset);
  const text = decode(bytes, decoder)?.replace(/^\ufeff/, '');
  return text ?? malformed(`The body is not valid ${decoder.encoding}.`);
}

/** The decoder for pieces of one body that declares no charset. */
export function guessDecoder(pieces: readonly Uint8Array[]): TextDecoder {
  return new TextDecoder(pieces.every((piece) => isUtf8(piece)) ? 'utf-8' : 'windows-1252', STRICT);
}

/**
 * The parameters of a header value such as `text/plain; charset="utf-8"` by their lower-case names. In quotes a backslash
 * escapes a quote alone: names of files may be Windows paths.
 */
export function parametersOf(value: string): ReadonlyMap<string, string> {
  if (!value.includes(';')) return new Map();
  const found = value.matchAll(/;\s*([^\s=;]+)\s*=\s*(?:"((?:\\"|[^"])*)"?|([^;]*))/g);
  return new Map(
    Array.from(found, ([, name = '', quoted, plain = '']) => [
      name.toLowerCase(),
      quoted?.replaceAll('\\"', '"') ?? plain.trim(),
    ]),
  );
}

/** The client went away before its request was complete: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

export function bodyTooLarge(most: number): Refusal {
  return refuse('BODY_TOO_LARGE', {
    message: ({ say, size }) => say('error.bodyTooLarge', { size: size(most) }),
  });
}

/** Whether the request says that its body is JSON. */
export function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

/** Why a body is not read at all. */
export function refuseBody({ headers }: IncomingMessage, most: number): Refusal | undefined {
  const coding = headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (coding !== 'identity') {
    return refuse('UNSUPPORTED_MEDIA_TYPE', {
      message: 'Send the body without a Content-Encoding.',
      headers: { 'Accept-Encoding': 'identity' },
    });
  }
  return Number(headers['content-length'] ?? 0) > most ? bodyTooLarge(most) : undefined;
}

interface Requested {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Sends for a body that the client holds back until it is asked for (RFC 9110 §10.1.1). */
export function expectBody({ request, response }: Requested): void {
  if (request.headers.expect !== undefined) response.writeContinue();
}

/**
 * The whole body, or its refusal once it is longer than `most` bytes. Rejects with ClientGone. Requests that arrive in one turn
 * of the event loop go on one right after another, and not each when it is read: what they have in common is then in the
 * processor's caches, which saves a sixth of the time of a form post.
 */
export async function collect({ request, response }: Requested, most: number): Promise<Buffer | Refusal> {
  const refusal = refuseBody(request, most);
  if (refusal !== undefined) return refusal;
  expectBody({ request, response });
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    // After the first of these nothing that the others do has an effect.
    function take(chunk: Buffer): void {
      size += chunk.length;
      if (size <= most) chunks.push(chunk);
      else resolve(bodyTooLarge(most));
    }
    function gone(): void {
      // Every request closes in the end: an error, and its stack, is made only for one that was cut off.
      if (!request.complete) reject(new ClientGone('gone'));
    }
    request
      .on('data', take)
      .on('end', () => setImmediate(() => resolve(Buffer.concat(chunks))))
      .on('close', gone)
      .on('error', gone);
  });
}

/** Reads past the rest of a body that was refused, so that the client hears the answer; a flood is cut off. */
export function discardRest(request: IncomingMessage): void {
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > MAX_DISCARDED_BYTES) request.socket.destroy();
  });
  request.on('error', () => undefined);
  request.resume();
}

const MAX_DISCARDED_BYTES = 64 * 1024 * 1024;

const CHARSET = Buffer.from('_charset_');
const AMPERSAND = 0x26;
const EQUALS = 0x3d;
const PERCENT = 0x25;
const PLUS = 0x2b;
const SPACE = 0x20;

/** Linear in the body. Another charset than UTF-8 is named in its type or in a `_charset_` field (HTML §4.10.21.5). */
export function parseUrlencoded(body: Buffer, declared: string | undefined, limits: FieldLimits): Parsed {
  const pairs = splitPairs(body, limits.fields);
  const charset = declared ?? pairs.find(([name]) => name.equals(CHARSET))?.[1].toString('latin1');
  const decoder = charset === undefined ? guessDecoder(pairs.flat()) : decoderOf(charset);
  if (decoder === undefined) return { entries: [], refusal: unknownCharset(charset ?? '') };
  const entries = new Entries(limits);
  for (const [i, [name, value]] of pairs.entries()) {
    if (name.equals(CHARSET)) continue;
    const field = decode(name, decoder);
    const text = decode(value, decoder);
    if (field === undefined || text === undefined) {
      const refusal = malformed(`Field ${i + 1} of the body is not valid ${decoder.encoding}.`);
      return { entries: entries.list, refusal };
    }
    if (!entries.add(field, text)) break;
  }
  return { entries: entries.list, refusal: entries.refusal };
}

/** The pairs, unescaped; at most one more than the limit. */
function splitPairs(body: Buffer, max: number): [name: Buffer, value: Buffer][] {
  const pairs: [Buffer, Buffer][] = [];
  for (let start = 0; start < body.length && pairs.length <= max; start++) {
    if (body[start] === AMPERSAND) continue;
    const ampersand = body.indexOf(AMPERSAND, start);
    const end = ampersand === -1 ? body.length : ampersand;
    const pair = body.subarray(start, end);
    const equals = pair.indexOf(EQUALS);
    const name = equals === -1 ? pair : pair.subarray(0, equals);
    const value = equals === -1 ? pair.subarray(pair.length) : pair.subarray(equals + 1);
    pairs.push([unescape(name), unescape(value)]);
    start = end;
  }
  return pairs;
}

function unescape(bytes: Buffer): Buffer {
  const plain = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    const escaped = byte === PERCENT ? hexDigit(bytes[i + 1]) * 16 + hexDigit(bytes[i + 2]) : NaN;
    if (escaped >= 0) i += 2;
    plain[length++] = escaped >= 0 ? escaped : byte === PLUS ? SPACE : byte;
  }
  return plain.subarray(0, length);
}

/** NaN for what is no digit, and so is every sum with it. */
function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return NaN;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : NaN;
}

// JSON bodies (RFC 8259) within limits, and a JSON object as a form's entries. One pass over the tokens bounds the work,
// refuses a name that is given twice, keeps order and numbers as they are written, and knows where a fault is; the values
// themselves are JSON.parse's.

const MAX_DEPTH = 20;
/** Values in one body; beyond it nothing that anybody takes. */
const MAX_VALUES = 30_000;
/** Within texts; each is looked at by itself. */
const MAX_ESCAPED_QUOTES = 500_000;
/** Characters of all names together. */
const MAX_NAMES_LENGTH = 1 << 20;

/** A JSON object or list as a value. A member `__proto__` is one like any other, and unknown to every schema. */
export function parseJsonValue(text: string): { readonly value: unknown } | Refusal {
  try {
    new Reader(text).read(['{', '[']);
    return { value: JSON.parse(text) };
  } catch (error) {
    return refusalOf(error);
  }
}

/**
 * The entries of a JSON object: text is itself; numbers and booleans are as written; null, {} and [] are empty; a list
 * repeats the name; an object's members become `name.member`; a list or an object inside a list stays JSON.
 */
export function parseJsonObject(text: string, limits: FieldLimits): Parsed {
  const entries = new Entries(limits);
  try {
    new Reader(text, entries).read(['{']);
    return { entries: entries.list, refusal: entries.refusal };
  } catch (error) {
    return { entries: entries.list, refusal: entries.refusal ?? refusalOf(error) };
  }
}

function refusalOf(error: unknown): Refusal {
  if (!(error instanceof SyntaxError)) throw error;
  return malformed(`The body is not valid JSON: ${messageOf(error)}.`);
}

const BACKSLASH = 0x5c;
const CLOSING = { '{': '}', '[': ']' } as const;
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;

/** Goes through the tokens. Throws SyntaxError where the text is not JSON, or is beyond the limits. */
class Reader {
  readonly #text: string;
  readonly #entries: Entries | undefined;
  readonly #pattern = /[{}[\],:"]|[^ \t\r\n{}[\],:"]+/g;
  /** Where the current token begins. */
  #start = 0;
  #values = 0;
  #escapedQuotes = 0;
  #namesLength = 0;

  constructor(text: string, entries?: Entries) {
    this.#text = text;
    this.#entries = entries;
  }

  /** The whole text, which begins with one of these brackets. */
  read(beginnings: readonly string[]): void {
    const first = this.#next();
    if (!beginnings.includes(first)) throw this.#fault(`it must begin with ${beginnings.join(' or ')}`);
    this.#value(first, '', 0);
    if (this.#next() !== '') throw this.#fault('unexpected text after the end');
  }

  /** A sign, a text in its quotes, a number or a literal; empty at the end. */
  #next(): string {
    const match = this.#pattern.exec(this.#text);
    this.#start = match?.index ?? this.#text.length;
    if (match?.[0] !== '"') return match?.[0] ?? '';
    let end = this.#text.indexOf('"', this.#start + 1);
    while (end !== -1 && this.#isEscaped(end)) {
      if (++this.#escapedQuotes > MAX_ESCAPED_QUOTES) {
        throw this.#fault(`more than ${MAX_ESCAPED_QUOTES} escaped quotation marks`);
      }
      end = this.#text.indexOf('"', end + 1);
    }
    if (end === -1) throw this.#fault('unterminated string');
    this.#pattern.lastIndex = end + 1;
    return this.#text.slice(this.#start, end + 1);
  }

  #isEscaped(quote: number): boolean {
    let first = quote;
    while (this.#text.charCodeAt(first - 1) === BACKSLASH) first--;
    return (quote - first) % 2 === 1;
  }

  /** The value that begins with this token, as entries of this name; undefined: it is only counted. */
  #value(token: string, name: string | undefined, depth: number): void {
    if (++this.#values > MAX_VALUES) throw this.#fault(`more than ${MAX_VALUES} values`);
    if (token !== '{' && token !== '[') return this.#scalar(token, name);
    if (depth === MAX_DEPTH) throw this.#fault(`nested deeper than ${MAX_DEPTH} levels`);
    const isEmpty = token === '{' ? this.#object(name, depth + 1) : this.#list(name, depth + 1);
    if (isEmpty && depth > 0) this.#add(name, '');
  }

  #scalar(token: string, name: string | undefined): void {
    const isText = token.startsWith('"');
    if (!isText && !SCALAR.test(token)) throw this.#unexpected(token);
    // Of the API's, JSON.parse judges the texts.
    const text = isText && this.#entries !== undefined ? this.#string(token) : token;
    this.#add(name, text === 'null' && !isText ? '' : text);
  }

  #object(name: string | undefined, depth: number): boolean {
    const names = new Set<string>();
    const prefix = depth === 1 ? name : name && `${name}.`;
    this.#members('{', (token) => {
      if (!token.startsWith('"')) throw this.#unexpected(token, 'a name in double quotes');
      this.#namesLength += token.length;
      if (this.#namesLength > MAX_NAMES_LENGTH) throw this.#fault('the names are too long in total');
      const member = this.#string(token);
      if (names.has(member)) throw this.#fault(`the name "${member.slice(0, 60)}" is given twice`);
      names.add(member);
      const colon = this.#next();
      if (colon !== ':') throw this.#unexpected(colon, 'a colon');
      this.#value(this.#next(), prefix === undefined ? undefined : prefix + member, depth);
    });
    return names.size === 0;
  }

  #list(name: string | undefined, depth: number): boolean {
    const first = this.#values;
    this.#members('[', (token) => {
      const isNested = token === '{' || token === '[';
      const start = this.#start;
      this.#value(token, isNested ? undefined : name, depth);
      if (isNested) this.#add(name, this.#text.slice(start, this.#pattern.lastIndex));
    });
    return this.#values === first;
  }

  /** Calls `read` with the first token of each member. */
  #members(opening: keyof typeof CLOSING, read: (token: string) => void): void {
    const closing = CLOSING[opening];
    let token = this.#next();
    if (token === closing) return;
    for (;;) {
      read(token);
      token = this.#next();
      if (token === closing) return;
      if (token !== ',') throw this.#unexpected(token, `a comma or ${closing}`);
      token = this.#next();
    }
  }

  #add(name: string | undefined, value: string): void {
    if (name === undefined || this.#entries === undefined) return;
    if (!this.#entries.add(name, value)) throw this.#fault('too many fields');
  }

  #string(token: string): string {
    try {
      return String(JSON.parse(token));
    } catch (error) {
      throw this.#fault(messageOf(error).replace(/ in JSON at position.*/, ''));
    }
  }

  #unexpected(token: string, expected = 'a value'): SyntaxError {
    return this.#fault(token === '' ? 'unexpected end' : `expected ${expected}`);
  }

  #fault(what: string): SyntaxError {
    const lines = this.#text.slice(0, this.#start).split('\n');
    return new SyntaxError(`line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}: ${what}`);
  }
}
