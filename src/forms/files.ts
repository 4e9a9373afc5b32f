/**
 * Files as they come in. Memory is bounded by one piece per file that is being received: full pieces go to the store at
 * once, the last one goes with the submission, so that a small file costs no commit of its own. Pieces of a submission
 * that was refused are dropped; those of one that a crash cut off are swept when they are old.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { cleanText } from '../mail/header.ts';
import { HEAD_BYTES, mediaTypeOf, signatureOf, type Signature } from './file-types.ts';
import type { Scanner } from './scanner.ts';
import { naming } from '../store/blobs.ts';
import { chunksOfFile, deleteFileChunks, deleteOrphans, insertFileChunk } from '../store/submissions.ts';
import type { Store } from '../store/store.ts';

/** What the visitor says of a file: any text. */
export interface FileHead {
  /** Name of the form's field. */
  readonly field: string;
  readonly filename: string;
  readonly contentType: string;
  /** Whether `sha256` is wanted: for an idempotency key. */
  readonly hash?: boolean;
}

/** A file that is here: its full pieces in the store, its tail in memory. */
export interface Upload {
  readonly id: string;
  readonly field: string;
  readonly filename: string;
  /** What its bytes and name show, else what the visitor says. */
  readonly contentType: string;
  /** What its first bytes show. */
  readonly signature: Signature | undefined;
  /** Bytes in all. */
  readonly size: number;
  /** How many pieces are in the store. */
  readonly pieces: number;
  readonly tail: Uint8Array;
  /** There is a virus scanner, and it did not answer. */
  readonly unscanned?: boolean | undefined;
  /** Hex; only where it was asked for. */
  readonly sha256?: string | undefined;
}

export interface FileWriter {
  /** Resolves when more may come: the caller waits, so that a fast client fills no memory. */
  write(chunk: Uint8Array): Promise<void>;
  /** The file, with the names that are known by now. */
  end(names?: Pick<FileHead, 'field' | 'filename'>): Upload;
  /** The file is not wanted after all. */
  abort(): Promise<void>;
}

export interface FileStore {
  begin(head: FileHead): FileWriter;
  /** Asks the virus scanner, where there is one, and answers the files with what it said. */
  scan(uploads: readonly Upload[]): Promise<ScannedUploads>;
  /** Drops files whose submission was refused. */
  discard(uploads: readonly Upload[]): Promise<void>;
  /** Drops pieces that waited for their submission for an hour. */
  sweep(): Promise<void>;
}

/** Files of one submission that were scanned for viruses. */
export interface ScannedUploads {
  readonly files: readonly Upload[];
  /** Those of them that must not be accepted. */
  readonly infected: readonly Upload[];
}

const PIECE = 256 * 1024;
const SMALLEST = 4 * 1024;

/** No request takes so long. */
const ORPHAN_MS = 3_600_000;

/** Files of submissions in the store. */
export function createFileStore({
  store,
  clock,
  scanner,
}: {
  store: Store;
  clock: Clock;
  /** None: nothing is scanned. */
  scanner?: Scanner;
}): FileStore {
  let sweptUntil = 0;

  return {
    begin: (head) => openWriter(head, store, clock),
    async scan(uploads) {
      if (scanner === undefined) return { files: uploads, infected: [] };
      const contents = uploads.map((upload) => ({ ...upload, content: contentOf(store, upload) }));
      const results = await scanner(contents);
      return {
        files: uploads.map((upload, i) => (results[i] === 'failed' ? { ...upload, unscanned: true } : upload)),
        infected: uploads.filter((_, i) => results[i] === 'infected'),
      };
    },
    async discard(uploads) {
      await Promise.all(uploads.map(({ id, pieces }) => drop(store, id, pieces)));
    },
    async sweep() {
      const before = clock.now() - ORPHAN_MS;
      await store.write([deleteOrphans({ since: sweptUntil, before })]);
      sweptUntil = before;
    },
  };
}

/** Piece by piece, one of them in memory at a time. */
async function* contentOf(store: Store, { id, tail }: Upload): AsyncGenerator<Uint8Array> {
  yield* chunksOfFile(store, id);
  yield tail;
}

async function drop(store: Store, file: string, pieces: number): Promise<void> {
  if (pieces > 0) await store.write([deleteFileChunks({ file })]);
}

function openWriter(head: FileHead, store: Store, clock: Clock): FileWriter {
  const id = newId('fil', clock.now());
  const digest = head.hash === true ? createHash('sha256') : undefined;
  let first = Buffer.alloc(0);
  let piece = new ArrayBuffer(0);
  let used = 0;
  let size = 0;
  let pieces = 0;

  /** What is there, in memory of its own: the store's thread is posted all the memory that a view is of. */
  function take(): Uint8Array {
    const bytes = new Uint8Array(piece.transfer(used));
    piece = new ArrayBuffer(0);
    used = 0;
    return bytes;
  }

  async function write(chunk: Uint8Array): Promise<void> {
    digest?.update(chunk);
    if (first.length < HEAD_BYTES) first = Buffer.concat([first, chunk.subarray(0, HEAD_BYTES - first.length)]);
    size += chunk.length;
    for (let rest = chunk; rest.length > 0;) {
      const part = rest.subarray(0, PIECE - used);
      rest = rest.subarray(part.length);
      const needed = used + part.length;
      if (needed > piece.byteLength) piece = piece.transfer(Math.min(PIECE, Math.max(SMALLEST, needed * 2)));
      // Copied: the chunk may be a sliver of a large buffer, or be used again by whoever read it.
      new Uint8Array(piece, used).set(part);
      used = needed;
      if (used < PIECE) return;
      const seq = pieces++;
      const blob = await store.blobs.put(take());
      await store.write([insertFileChunk({ file: id, seq, ...blob, created_at: clock.now() }), ...naming(blob)]);
    }
  }

  return {
    write,
    end(names = head) {
      // One line each: what is stored, shown and sent holds no control character, and PostgreSQL takes no NUL.
      const field = cleanText(names.field, 200);
      const filename = cleanText(names.filename, 255);
      const signature = size === 0 ? undefined : signatureOf(first);
      const contentType = mediaTypeOf({ filename, contentType: cleanText(head.contentType, 255), signature });
      return { id, field, filename, contentType, signature, size, pieces, tail: take(), sha256: digest?.digest('hex') };
    },
    async abort() {
      take();
      await drop(store, id, pieces);
    },
  };
}
