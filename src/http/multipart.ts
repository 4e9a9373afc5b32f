/**
 * `multipart/form-data` bodies (RFC 2046 §5.1.1, RFC 7578): read no faster than they are stored, and not beyond the limits. A
 * file that is too big or not wanted is read past, because the visitor shall get the fields back; a body without end or
 * measure is not.
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { TextDecoder } from 'node:util';
import type { ServerConfig } from '../config/schema.ts';
import { fileTooLarge } from '../forms/fields.ts';
import type { FileStore, FileWriter, Upload } from '../forms/files.ts';
import { message } from '../languages/languages.ts';
import { codeOf } from '../lib/errors.ts';
import { decodeWords } from '../mail/header.ts';
import { StoreError } from '../store/store.ts';
import { refuse, type Refusal } from './answer.ts';
import {
  bodyTooLarge,
  ClientGone,
  decode,
  decoderOf,
  Entries,
  guessDecoder,
  malformed,
  parametersOf,
  tooManyFields,
  unknownCharset,
  type Entry,
  type FieldLimits,
} from './entries.ts';

/** Bytes of the body, of a file and of all files, and how many files; `uploads`: whether the form takes files at all. */
export interface MultipartLimits
  extends FieldLimits, Pick<ServerConfig['limits'], 'body' | 'files' | 'file' | 'files_total'> {
  readonly uploads: boolean;
}

interface MultipartBody {
  readonly entries: readonly Entry[];
  /** Every file that was chosen, also those not kept; without a name where a field for files was left empty. */
  readonly chosen: readonly { readonly field: string; readonly filename: string }[];
  readonly refusal: Refusal | undefined;
  /** Empty where the body is refused: what had come of them is dropped. */
  readonly files: readonly Upload[];
  /** What the store said when it could not take a file; the body is read on all the same. */
  readonly fault?: Error | undefined;
}

export interface MultipartOptions {
  readonly limits: MultipartLimits;
  readonly files: FileStore;
  /** Whether files' SHA-256 are wanted. */
  readonly hash: boolean;
}

const MAX_BOUNDARY_LENGTH = 70;
const INVALID = 'The body is not valid multipart/form-data.';

/** Reads the body. Rejects with ClientGone; nothing is left of it then, nor where the store failed. */
export async function readMultipart(request: IncomingMessage, options: MultipartOptions): Promise<MultipartBody> {
  const parameters = parametersOf(request.headers['content-type'] ?? '');
  const boundary = parameters.get('boundary') ?? '';
  // RFC 2046 §5.1.1: 1 to 70 characters.
  if (boundary === '' || boundary.length > MAX_BOUNDARY_LENGTH) {
    return { entries: [], chosen: [], files: [], refusal: malformed('The Content-Type has no boundary.') };
  }
  const collector = new PartCollector(options);
  const chunks = chunksOf(request, options.limits.body);
  try {
    const early = await collector.take(partsOf(chunks, boundary));
    const parts = collector.read(parameters.get('charset'));
    const refusal = early ?? parts.refusal;
    const { fault } = collector;
    if (refusal === undefined && fault === undefined) return { ...parts, files: collector.uploads() };
    await collector.abort();
    return { ...parts, files: [], refusal, fault };
  } catch (error) {
    await collector.abort();
    throw error;
  } finally {
    await chunks.return();
  }
}

/** Ends the reading of a body. */
class Refused extends Error {
  override readonly name = 'Refused';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.code);
    this.refusal = refusal;
  }
}

/** The body's chunks; leaving early leaves the connection alone, so that it can still be answered on. */
async function* chunksOf(request: IncomingMessage, most: number): AsyncGenerator<Buffer, void> {
  let size = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      if (!(chunk instanceof Buffer)) continue;
      size += chunk.length;
      if (size > most) throw new Refused(bodyTooLarge(most));
      yield chunk;
    }
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new ClientGone(codeOf(error) ?? 'gone', { cause: error });
  }
}

export interface PartHead {
  /** Of the field; undefined where the part has none. Names are bytes, one per character: their charset is not known yet. */
  readonly name: string | undefined;
  /** Of a file; undefined for a field. */
  readonly filename: string | undefined;
  /** The value of its Content-Type, or nothing. */
  readonly type: string;
}

const MAX_HEADERS_BYTES = 16 * 1024;
/**
 * Lines that only begin like a boundary. RFC 2046 §5.1.1 forbids them in a part, so that an honest body has hardly one; each
 * costs as much as a thousand bytes.
 */
const MAX_NEAR_BOUNDARIES = 1000;
const END_OF_HEADERS = '\r\n\r\n';
/** What follows the boundary on its line: two hyphens at the very end, else nothing but blanks; and what may yet become so. */
const BOUNDARY_LINE = /^(?:--|[ \t]{0,64}\r\n)/;
const MAX_LINE = 66;
const UNDECIDED_LINE = /^(?:-|[ \t]{0,64}\r?)$/;

/**
 * Of each part its head, then its content in pieces. One search for the boundary, no copy of what stands between, nothing
 * kept but a boundary's length and the headers of a part up to a limit. Whatever the bytes are, each costs the same few
 * nanoseconds. Throws Refused.
 */
export async function* partsOf(
  chunks: AsyncIterator<Buffer, unknown>,
  boundary: string,
): AsyncGenerator<PartHead | Buffer, void> {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  // Not looked at, or the possible beginning of a sign. The first boundary needs no line break before it.
  let rest = Buffer.from('\r\n');
  let isInPart = false;
  let nearBoundaries = 0;

  /** False at the end of the body. */
  async function more(): Promise<boolean> {
    const next = await chunks.next();
    if (next.done !== true) rest = Buffer.concat([rest, next.value]);
    return next.done !== true;
  }

  for (;;) {
    const at = rest.indexOf(delimiter);
    const end = at === -1 ? Math.max(0, rest.length - delimiter.length + 1) : at;
    if (isInPart && end > 0) yield rest.subarray(0, end);
    rest = rest.subarray(at === -1 ? end : end + delimiter.length);
    if (at === -1) {
      if (!(await more())) throw new Refused(malformed(INVALID));
      continue;
    }
    let line = rest.toString('latin1', 0, MAX_LINE);
    while (UNDECIDED_LINE.test(line) && (await more())) line = rest.toString('latin1', 0, MAX_LINE);
    const [found] = BOUNDARY_LINE.exec(line) ?? [];
    if (found === undefined) {
      if (++nearBoundaries > MAX_NEAR_BOUNDARIES) throw new Refused(malformed(INVALID));
      if (isInPart) yield delimiter;
    } else if (found === '--') {
      do rest = Buffer.alloc(0);
      while (await more());
      return;
    } else {
      // Its line break may be the first half of the empty line that ends the headers.
      rest = rest.subarray(found.length - 2);
      while (!rest.includes(END_OF_HEADERS) && rest.length <= MAX_HEADERS_BYTES && (await more()));
      const length = rest.indexOf(END_OF_HEADERS);
      if (length > MAX_HEADERS_BYTES || (length === -1 && rest.length > MAX_HEADERS_BYTES)) {
        throw new Refused(refuse('BODY_TOO_LARGE', { message: 'The headers of a part are too large.' }));
      }
      if (length === -1) continue;
      yield readHead(rest.toString('latin1', 2, length));
      isInPart = true;
      rest = rest.subarray(length + END_OF_HEADERS.length);
    }
  }
}

function readHead(headers: string): PartHead {
  let disposition = '';
  let type = '';
  for (const line of headers.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon < 1 && headers !== '') throw new Refused(malformed(INVALID));
    const value = line.slice(colon + 1).trim();
    switch (line.slice(0, colon).trim().toLowerCase()) {
      case 'content-disposition':
        disposition = value;
        break;
      case 'content-type':
        type = value;
        break;
      case 'content-transfer-encoding':
        // RFC 7578 §4.7: deprecated; these say that nothing is encoded.
        if (/^(?:7bit|8bit|binary)$/i.test(value)) break;
        throw new Refused(malformed('Send the parts without a Content-Transfer-Encoding.'));
    }
  }
  const parameters = parametersOf(disposition);
  // RFC 6266 §4.3: the extended one is the exact one.
  const filename = readExtended(parameters.get('filename*')) ?? parameters.get('filename');
  return { name: parameters.get('name'), filename, type };
}

/** The `filename*` of RFC 8187, which RFC 7578 forbids and some libraries send all the same, as bytes of UTF-8. */
function readExtended(value: string | undefined): string | undefined {
  // Most parts have none: to ask for the decoder of no charset would be an exception for each.
  const [, charset, encoded] = /^([\w-]{1,40})'[^']*'(.*)$/.exec(value ?? '') ?? [];
  const decoder = charset && decoderOf(charset);
  if (!decoder || encoded === undefined) return undefined;
  const bytes = encoded.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  const text = decode(Buffer.from(bytes, 'latin1'), decoder);
  return text === undefined ? undefined : Buffer.from(text).toString('latin1');
}

interface Piece extends PartHead {
  readonly name: string;
  readonly chunks: Buffer[];
  size: number;
  writer?: FileWriter;
  /** Of a file that was chosen, once the charset is known. */
  names?: { readonly field: string; readonly filename: string };
}

/** Takes parts as they come. A file that is not taken refuses the body, which is read on all the same. */
class PartCollector {
  readonly #options: MultipartOptions;
  readonly #pieces: Piece[] = [];
  #fields = 0;
  #filesTotal = 0;
  #stored = 0;
  #refusal: Refusal | undefined;
  #fault: Error | undefined;

  constructor(options: MultipartOptions) {
    this.#options = options;
  }

  /** What the store said when it could not take a file. */
  get fault(): Error | undefined {
    return this.#fault;
  }

  /** Resolves when all is read and written, or with what ended the reading early. */
  async take(items: AsyncIterable<PartHead | Buffer>): Promise<Refusal | undefined> {
    try {
      for await (const item of items) {
        if (Buffer.isBuffer(item)) await this.#data(item);
        else this.#begin(item);
      }
      return undefined;
    } catch (error) {
      if (error instanceof Refused) return error.refusal;
      throw error;
    }
  }

  #begin({ name, ...head }: PartHead): void {
    const { limits } = this.#options;
    const pieces = this.#pieces;
    if (name === undefined) throw new Refused(malformed(`Part ${pieces.length + 1} of the body has no name.`));
    if (head.filename === undefined && ++this.#fields > limits.fields) throw new Refused(tooManyFields(limits.fields));
    if (pieces.length === limits.fields + limits.files) throw new Refused(tooManyFiles(limits.files));
    pieces.push({ name, ...head, chunks: [], size: 0 });
  }

  async #data(chunk: Buffer): Promise<void> {
    const piece = this.#pieces.at(-1);
    if (piece === undefined) return;
    piece.size += chunk.length;
    if (piece.filename !== undefined) await this.#fileData(piece, chunk);
    // One chunk more than the limit shows that it was passed.
    else if (piece.size - chunk.length <= this.#options.limits.field) piece.chunks.push(chunk);
  }

  async #fileData(piece: Piece, chunk: Buffer): Promise<void> {
    const { limits, files, hash } = this.#options;
    this.#filesTotal += chunk.length;
    if (!limits.uploads) this.#refusal ??= refuse('NO_FILE_UPLOADS');
    else if (piece.size > limits.file) this.#refusal ??= fileTooBig(piece, limits.file);
    else if (this.#filesTotal > limits.files_total) this.#refusal ??= filesTooBig(limits.files_total);
    else if (piece.writer === undefined && this.#stored === limits.files) this.#refusal ??= tooManyFiles(limits.files);
    if (this.#refusal !== undefined || this.#fault !== undefined) return;
    if (piece.writer === undefined) this.#stored++;
    piece.writer ??= files.begin({ field: '', filename: '', contentType: contentTypeOf(piece), hash });
    try {
      await piece.writer.write(chunk);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#fault = error;
    }
  }

  /** Drops what was stored; what a store that fails keeps is swept later. */
  async abort(): Promise<void> {
    try {
      await Promise.all(this.#pieces.flatMap(({ writer }) => (writer === undefined ? [] : [writer.abort()])));
    } catch (error) {
      if (this.#fault === undefined) throw error;
    }
  }

  /** What the parts say, as far as they have come. `declared` is the charset of the body's type. */
  read(declared: string | undefined): Omit<MultipartBody, 'files'> {
    const decoder = this.#decoder(declared);
    if (decoder === undefined) return { entries: [], chosen: [], refusal: unknownCharset(declared ?? '') };
    const entries = new Entries(this.#options.limits);
    const chosen: { field: string; filename: string }[] = [];
    for (const piece of this.#pieces) {
      const field = decodeName(piece.name, decoder);
      if (field === undefined) this.#refusal ??= malformed(`The name of a field is not valid ${decoder.encoding}.`);
      else if (piece.filename === undefined) this.#addField(entries, { field, piece, decoder });
      else if (piece.filename !== '' || piece.size > 0) {
        piece.names = { field, filename: filenameOf(piece.filename, decoder) };
        chosen.push(piece.names);
      } else chosen.push({ field, filename: '' });
    }
    return { entries: entries.list, chosen, refusal: this.#refusal ?? entries.refusal };
  }

  /** The files, once everything is read and written. */
  uploads(): Upload[] {
    const { files, hash } = this.#options;
    return this.#pieces.flatMap((piece) => {
      const { names } = piece;
      if (names === undefined) return [];
      // A file without content had no reason to begin one.
      const writer = piece.writer ?? files.begin({ ...names, contentType: contentTypeOf(piece), hash });
      return [writer.end(names)];
    });
  }

  #addField(entries: Entries, { field, piece, decoder }: { field: string; piece: Piece; decoder: TextDecoder }): void {
    const own = parametersOf(piece.type).get('charset');
    const bytes = piece.chunks.length === 1 ? piece.chunks[0] : Buffer.concat(piece.chunks);
    const known = own === undefined ? decoder : decoderOf(own);
    const value = known && decode(bytes ?? Buffer.alloc(0), known);
    if (field === '_charset_') return;
    if (value !== undefined) return void entries.add(field, value);
    this.#refusal ??=
      known === undefined
        ? unknownCharset(own ?? '')
        : malformed(`The field "${field.slice(0, 60)}" is not valid ${known.encoding}.`);
  }

  #decoder(declared: string | undefined): TextDecoder | undefined {
    const named = this.#pieces.find(({ name, filename }) => name === '_charset_' && filename === undefined);
    const charset = declared ?? (named === undefined ? undefined : Buffer.concat(named.chunks).toString('latin1'));
    if (charset !== undefined) return decoderOf(charset);
    const texts = this.#pieces.flatMap(({ name, filename = '', chunks, type }) => {
      const own = parametersOf(type).has('charset');
      return [Buffer.from(name, 'latin1'), Buffer.from(filename, 'latin1'), ...(own ? [] : [Buffer.concat(chunks)])];
    });
    return guessDecoder(texts);
  }
}

/** A type that a mail header can carry; anything else is bytes. */
function contentTypeOf({ type }: Piece): string {
  const plain = type.split(';')[0]?.trim().toLowerCase() ?? '';
  return /^[\w.+-]{1,60}\/[\w.+-]{1,60}$/.test(plain) ? plain : 'application/octet-stream';
}

function fileTooBig({ filename = '' }: Piece, most: number): Refusal {
  return refuse('FILES_TOO_BIG', { message: fileTooLarge(filenameOf(filename, guessDecoder([])), most) });
}

function filesTooBig(most: number): Refusal {
  return refuse('FILES_TOO_BIG', { message: ({ say, size }) => say('file.allTooLarge', { size: size(most) }) });
}

function tooManyFiles(most: number): Refusal {
  return refuse('TOO_MANY_FILES', { message: message('file.tooMany', { max: most }) });
}

/** A field's name or a file's, from the header's bytes one per character. Browsers escape only `"`, CR and LF (HTML §4.10.21.8). */
function decodeName(binary: string, decoder: TextDecoder): string | undefined {
  const text = decode(Buffer.from(binary, 'latin1'), decoder);
  return text?.replaceAll('%22', '"').replaceAll(/%0D%0A|%0D|%0A/g, '\n');
}

// The name of an uploaded file, as its visitor sees it: whatever program sent it, in whichever of the ways that programs
// write names beyond ASCII into a header, and without what a terminal, a mail header or a file system would act on.

const MAX_LENGTH = 200;
const MAX_EXTENSION_LENGTH = 20;

/** The name from the header's bytes, one per character; `decoder` is that of the body. */
export function filenameOf(binary: string, decoder: TextDecoder): string {
  const bytes = Buffer.from(binary, 'latin1');
  // Bytes that are valid UTF-8 by chance are rare, and programs write UTF-8 whatever the body's charset is.
  const text = isUtf8(bytes) ? bytes.toString('utf8') : (decode(bytes, decoder) ?? windows1252().decode(bytes));
  // Browsers escape only `"`, CR and LF (HTML §4.10.21.8); mail libraries write encoded words (RFC 2047).
  const unescaped = text.replaceAll('%22', '"').replaceAll(/%0D|%0A/g, '');
  const decoded = /=\?[\w-]+\?[bq]\?/i.test(unescaped) ? decodeWords(unescaped) : unescaped;
  return plainFilename(repaired(decoded).normalize('NFC'));
}

function windows1252(): TextDecoder {
  return new TextDecoder('windows-1252');
}

/** UTF-8 that a program between took for Latin-1 and encoded again (`GrÃ¶Ã\u009fe`), once more as it was. */
function repaired(text: string): string {
  if (!/[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u2122]/.test(text)) return text;
  const bytes = latin1BytesOf(text);
  return bytes !== undefined && isUtf8(bytes) ? bytes.toString('utf8') : text;
}

/** The bytes of a text in Windows-1252, or in Latin-1 where that has none; undefined where it has other characters. */
function latin1BytesOf(text: string): Buffer | undefined {
  const high = windows1252().decode(Uint8Array.from({ length: 32 }, (_, i) => 0x80 + i));
  const codes = Array.from(text, (character) => {
    const special = high.indexOf(character);
    return special === -1 ? (character.codePointAt(0) ?? 0) : 0x80 + special;
  });
  return codes.every((code) => code < 0x100) ? Buffer.from(codes) : undefined;
}

/** Control and format characters, which turn the direction of text among other things; Persian and emoji need the joiners. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]|(?![\u200c\u200d])\p{Cf}/gu;

/** The last part of a path, without what is not seen. A long one keeps its extension. */
function plainFilename(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1);
  const clean = base.replaceAll(UNSEEN, '').trim();
  if (clean === '' || clean === '.' || clean === '..') return 'file';
  if (clean.length <= MAX_LENGTH) return clean;
  const dot = clean.lastIndexOf('.');
  const extension = dot > 0 && clean.length - dot <= MAX_EXTENSION_LENGTH ? clean.slice(dot) : '';
  // Half of a character beyond the basic plane would be none.
  const stem = clean.slice(0, MAX_LENGTH - extension.length).replace(/[\ud800-\udbff]$/, '');
  return stem + extension;
}
