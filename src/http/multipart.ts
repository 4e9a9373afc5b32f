/**
 * `multipart/form-data` bodies: read no faster than they are stored, and not beyond the limits. A file that is too big or
 * not wanted is read past, because the visitor shall get the fields back; a body without end or measure is not.
 */
import type { IncomingMessage } from 'node:http';
import type { Upload, FileStore, FileWriter } from '../forms/files.ts';
import { codeOf } from '../lib/errors.ts';
import {
  parameterOf,
  ClientGone,
  bodyTooLarge,
  malformed,
  decoderOf,
  guessDecoder,
  type Decoder,
  Entries,
  sizeWords,
  tooManyFields,
  unknownCharset,
  type Entry,
  type FieldLimits,
} from './entries.ts';
import { refuse, type Refusal } from './errors.ts';
import { MultipartParser, type Fault, type PartHead, type PartSink } from './multipart-parser.ts';

const MAX_BOUNDARY_LENGTH = 70;

export interface MultipartBody extends Parts {
  /** Empty where the body is refused: what had come of them is dropped. */
  readonly files: readonly Upload[];
}

/** Reads the body. Rejects with ClientGone, or with what the store said; nothing is left of it in either case. */
export async function readMultipart(request: IncomingMessage, options: CollectorOptions): Promise<MultipartBody> {
  const type = request.headers['content-type'] ?? '';
  const boundary = parameterOf(type, 'boundary') ?? '';
  // RFC 2046 §5.1.1: 1 to 70 characters.
  if (boundary === '' || boundary.length > MAX_BOUNDARY_LENGTH) {
    return { entries: [], chosen: [], files: [], refusal: malformed('The Content-Type has no boundary.') };
  }
  const collector = new PartCollector(options);
  try {
    const early = await readParts(request, { collector, boundary, most: options.limits.body });
    const parts = collector.read(parameterOf(type, 'charset'));
    const refusal = early ?? parts.refusal;
    if (refusal === undefined) return { ...parts, files: collector.uploads() };
    await collector.abort();
    return { ...parts, files: [], refusal };
  } catch (error) {
    await collector.abort();
    throw error;
  }
}

interface Reading {
  readonly collector: PartCollector;
  readonly boundary: string;
  readonly most: number;
}

/** Resolves when all is read and written, or with what ended the reading early. */
async function readParts(
  request: IncomingMessage,
  { collector, boundary, most }: Reading,
): Promise<Refusal | undefined> {
  const parser = new MultipartParser(boundary, collector);
  let size = 0;
  for await (const chunk of chunksOf(request)) {
    size += chunk.length;
    if (size > most) return bodyTooLarge(most);
    const fault = parser.write(chunk);
    if (fault !== undefined) return refusalFor(fault);
    await collector.written;
    if (collector.isStopped) return collector.refusal;
  }
  const fault = parser.end();
  return fault && refusalFor(fault);
}

/** The body's chunks; leaving early leaves the connection alone, so that it can still be answered on. */
async function* chunksOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) if (chunk instanceof Buffer) yield chunk;
  } catch (error) {
    throw new ClientGone(codeOf(error) ?? 'gone', { cause: error });
  }
}

function refusalFor(fault: Fault): Refusal {
  switch (fault) {
    case 'long headers':
      return refuse('BODY_TOO_LARGE', { message: 'The headers of a part are too large.' });
    case 'transfer encoding':
      return malformed('Send the parts without a Content-Transfer-Encoding.');
    case 'malformed':
      return malformed('The body is not valid multipart/form-data.');
  }
}

export interface MultipartLimits extends FieldLimits {
  /** Bytes of the whole body. */
  readonly body: number;
  readonly files: number;
  /** Bytes of one file. */
  readonly file: number;
  /** Bytes of all files. */
  readonly filesTotal: number;
  /** Whether the form takes files at all. */
  readonly uploads: boolean;
}

export interface Parts {
  readonly entries: readonly Entry[];
  /** Every file that was chosen, also those not kept; without a name where a field for files was left empty. */
  readonly chosen: readonly { readonly field: string; readonly filename: string }[];
  readonly refusal: Refusal | undefined;
}

interface Piece {
  readonly name: string;
  /** Of a file; undefined for a field. */
  readonly filename: string | undefined;
  readonly type: string;
  readonly chunks: Buffer[];
  size: number;
  writer?: FileWriter;
  /** Of a file that was chosen, once the charset is known. */
  names?: { readonly field: string; readonly filename: string };
}

export interface CollectorOptions {
  readonly limits: MultipartLimits;
  readonly files: FileStore;
  /** Whether files' SHA-256 are wanted. */
  readonly hash: boolean;
}

/** Takes parts as they come. Nothing here throws: what refuses the body is kept until it is asked for. */
class PartCollector implements PartSink {
  readonly #options: CollectorOptions;
  readonly #pieces: Piece[] = [];
  #fields = 0;
  #filesTotal = 0;
  #stored = 0;
  #refusal: Refusal | undefined;
  #isStopped = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  /** Whether there is no use in reading on. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Resolves when the store has taken what came so far. */
  get written(): Promise<void> {
    return this.#writing;
  }

  part({ name, filename, type }: PartHead): void {
    const { limits } = this.#options;
    if (name === undefined) return this.#stop(malformed(`Part ${this.#pieces.length + 1} of the body has no name.`));
    if (filename === undefined && ++this.#fields > limits.fields) return this.#stop(tooManyFields(limits.fields));
    if (this.#pieces.length === limits.fields + limits.files) return this.#stop(tooManyFiles(limits.files));
    this.#pieces.push({ name, filename, type, chunks: [], size: 0 });
  }

  data(chunk: Buffer): void {
    const piece = this.#pieces.at(-1);
    if (piece === undefined || this.#isStopped) return;
    piece.size += chunk.length;
    if (piece.filename !== undefined) this.#fileData(piece, chunk);
    // One chunk more than the limit shows that it was passed.
    else if (piece.size - chunk.length <= this.#options.limits.field) piece.chunks.push(chunk);
  }

  #fileData(piece: Piece, chunk: Buffer): void {
    const { limits, files, hash } = this.#options;
    this.#filesTotal += chunk.length;
    if (!limits.uploads) this.#refusal ??= refuse('NO_FILE_UPLOADS');
    else if (piece.size > limits.file) this.#refusal ??= fileTooBig(piece, limits.file);
    else if (this.#filesTotal > limits.filesTotal) this.#refusal ??= filesTooBig(limits.filesTotal);
    else if (piece.writer === undefined && this.#stored === limits.files) this.#refusal ??= tooManyFiles(limits.files);
    if (this.#refusal !== undefined) return;
    if (piece.writer === undefined) {
      piece.writer = files.begin({ field: '', filename: '', contentType: contentTypeOf(piece), hash });
      this.#stored++;
    }
    const { writer } = piece;
    this.#writing = this.#writing.then(() => writer.write(chunk));
    // Whoever awaits `written` gets the rejection; until then it must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  #stop(refusal: Refusal): void {
    this.#refusal ??= refusal;
    this.#isStopped = true;
  }

  /** Drops what was stored. */
  async abort(): Promise<void> {
    this.#isStopped = true;
    await this.#writing.catch(() => undefined);
    await Promise.all(this.#pieces.flatMap(({ writer }) => (writer === undefined ? [] : [writer.abort()])));
  }

  /** What the parts say, as far as they have come. `declared` is the charset of the body's type. */
  read(declared: string | undefined): Parts {
    const decoder = this.#decoder(declared);
    if (decoder === undefined) return { entries: [], chosen: [], refusal: unknownCharset(declared ?? '') };
    const entries = new Entries(this.#options.limits);
    const chosen: { field: string; filename: string }[] = [];
    for (const piece of this.#pieces) {
      const field = decodeName(piece.name, decoder);
      if (field === undefined) this.#refusal ??= malformed(`The name of a field is not valid ${decoder.charset}.`);
      else if (piece.filename === undefined) this.#addField(entries, { field, piece, decoder });
      else if (piece.filename !== '' || piece.size > 0) {
        piece.names = { field, filename: plainFilename(decodeName(piece.filename, decoder) ?? '') };
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
      return [{ ...writer.end(), ...names }];
    });
  }

  #addField(entries: Entries, { field, piece, decoder }: { field: string; piece: Piece; decoder: Decoder }): void {
    const own = parameterOf(piece.type, 'charset');
    const bytes = piece.chunks.length === 1 ? piece.chunks[0] : Buffer.concat(piece.chunks);
    const value = (own === undefined ? decoder : decoderOf(own))?.decode(bytes ?? Buffer.alloc(0));
    if (field === '_charset_') return;
    if (value !== undefined) return void entries.add(field, value);
    this.#refusal ??=
      own !== undefined && decoderOf(own) === undefined
        ? unknownCharset(own)
        : malformed(`The field "${field.slice(0, 60)}" is not valid ${own ?? decoder.charset}.`);
  }

  #decoder(declared: string | undefined): Decoder | undefined {
    const named = this.#pieces.find(({ name, filename }) => name === '_charset_' && filename === undefined);
    const charset = declared ?? (named === undefined ? undefined : Buffer.concat(named.chunks).toString('latin1'));
    if (charset !== undefined) return decoderOf(charset);
    const texts = this.#pieces.flatMap(({ name, filename = '', chunks, type }) => {
      const own = parameterOf(type, 'charset') !== undefined;
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
  const name = plainFilename(Buffer.from(filename, 'latin1').toString('utf8')).slice(0, 60);
  return refuse('FILES_TOO_BIG', { message: `The file “${name}” is too large (at most ${sizeWords(most)}).` });
}

function filesTooBig(most: number): Refusal {
  return refuse('FILES_TOO_BIG', { message: `The files are too large (at most ${sizeWords(most)} in total).` });
}

function tooManyFiles(most: number): Refusal {
  return refuse('TOO_MANY_FILES', { message: `There are too many files (at most ${most}).` });
}

/** A field's name or a file's, from the header's bytes one per character. Browsers escape only `"`, CR and LF (HTML §4.10.21.8). */
function decodeName(binary: string, decoder: Decoder): string | undefined {
  const text = decoder.decode(Buffer.from(binary, 'latin1'));
  return text?.replaceAll('%22', '"').replaceAll(/%0D%0A|%0D|%0A/g, '\n');
}

/** The last part of a path, without what a terminal, a mail header or a file system would act on. */
function plainFilename(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1);
  const clean = base
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
    .trim()
    .slice(0, 200);
  return clean === '' || clean === '.' || clean === '..' ? 'file' : clean;
}
