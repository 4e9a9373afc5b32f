/**
 * The fields of a body, in the order sent and within limits: reading the bytes, their charset, and urlencoded bodies (WHATWG
 * URL Standard §5.1). Bytes in a declared charset must be valid in it; others are UTF-8, or else Windows-1252, which a page
 * without a charset sends (WHATWG Encoding Standard §4.2).
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { TextDecoder } from 'node:util';
import { type FieldError, shortened } from '../forms/fields.ts';
import { message } from '../languages/languages.ts';
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

/** The whole body, or its refusal once it is longer than `most` bytes. Rejects with ClientGone. */
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
      .on('end', () => resolve(Buffer.concat(chunks)))
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
