/**
 * Inbound messages in the store, in chunks. On the way in, a connection holds at most two chunks, the one that fills and the
 * one that is being written; a client that sends faster than the disk writes waits. The store's thread reads a chunk where
 * it is, in shared memory, and the connection fills it again. On the way out, a message is read from any offset, and it is an
 * error where bytes are missing.
 */
import { deleteRaw, insertRawChunk, rawChunks, RAW_CHUNK_BYTES } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { Garbage } from '../lib/gc.ts';
import type { InboundRow } from '../store/tables.ts';

/** Most messages are smaller. */
const FIRST_BYTES = 16 * 1024;

export class Chunks {
  readonly #store: Store;
  readonly #id: string;
  readonly #at: number;
  #filling: Buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #filled = 0;
  /** Chunks that are written or being written. */
  #count = 0;
  #writing: Promise<void> | undefined;
  /** Memory of a chunk that is written. */
  #spare: Buffer | undefined;
  #failure: unknown;
  #size = 0;

  /** `at`: when it began to come, ms. */
  constructor(store: Store, id: string, at: number) {
    this.#store = store;
    this.#id = id;
    this.#at = at;
  }

  get size(): number {
    return this.#size;
  }

  /** What has come, while nothing of it is written. */
  get start(): Buffer | undefined {
    return this.#count === 0 ? this.#filling.subarray(0, this.#filled) : undefined;
  }

  /** Why a chunk could not be written; undefined while all is well. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Adds bytes, which are copied; `beforeFirst` is called before the first chunk is written. Resolves when more may come. */
  async add(bytes: Uint8Array, beforeFirst: () => void): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      this.#grow(rest.length);
      const part = rest.subarray(0, this.#filling.length - this.#filled);
      this.#filling.set(part, this.#filled);
      this.#filled += part.length;
      this.#size += part.length;
      rest = rest.subarray(part.length);
      if (this.#filled < RAW_CHUNK_BYTES) continue;
      if (this.#count === 0) beforeFirst();
      await this.#writing;
      this.#send();
    }
  }

  #grow(more: number): void {
    if (this.#filled + more <= this.#filling.length || this.#filling.length === RAW_CHUNK_BYTES) return;
    const larger = sharedChunk();
    this.#filling.copy(larger, 0, 0, this.#filled);
    this.#filling = larger;
  }

  /** Writes the chunk that is full, and goes on with another. */
  #send(): void {
    const bytes = this.#filling;
    this.#filling = this.#spare ?? sharedChunk();
    this.#spare = undefined;
    this.#filled = 0;
    this.#writing = this.#store
      .write([insertRawChunk({ inbound: this.#id, seq: this.#count++, bytes, created_at: this.#at })])
      .then(
        () => undefined,
        (error: unknown) => void (this.#failure ??= error),
      )
      .finally(() => {
        this.#spare = bytes;
        this.#writing = undefined;
      });
  }

  /** Waits until what was sent is written. */
  async settle(): Promise<void> {
    await this.#writing;
  }

  /** The statement that writes the last chunk, for the unit that takes the message. Nothing may be added any more. */
  last(): Statement[] {
    if (this.#filled === 0) return [];
    const filled = this.#filling.subarray(0, this.#filled);
    // What is not shared goes in memory of its own: the store's thread is posted all the memory that a view is of.
    const bytes = filled.buffer instanceof SharedArrayBuffer ? filled : Uint8Array.from(filled);
    return [insertRawChunk({ inbound: this.#id, seq: this.#count, bytes, created_at: this.#at })];
  }

  /** The statement that drops what is written; none where nothing is. */
  dropped(): Statement[] {
    return this.#count === 0 ? [] : [deleteRaw({ inbound: this.#id })];
  }

  /** All of it, after `settle`. */
  async *all(): AsyncGenerator<Uint8Array> {
    if (this.#count > 0) yield* rawChunks(this.#store, this.#id);
    if (this.#filled > 0) yield this.#filling.subarray(0, this.#filled);
  }
}

function sharedChunk(): Buffer {
  return Buffer.from(new SharedArrayBuffer(RAW_CHUNK_BYTES));
}

/** Reads it from byte `from` on, the same at each call; it fails where a piece is missing. */
export type ReadFrom = (from: number) => Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

export interface RawParts {
  readonly store: Store;
  /** Takes note of pieces that were sent and are done with. */
  readonly garbage: Garbage;
}

type Raw = Pick<InboundRow, 'id' | 'size'>;

/** A small message is read once and held, a larger one is read from the store piece by piece, each time anew. */
export async function openRaw({ store, garbage }: RawParts, { id, size }: Raw): Promise<ReadFrom> {
  if (size > RAW_CHUNK_BYTES) return (from) => discarded(piecesFrom(store, { id, size }, from), garbage);
  const held: Uint8Array[] = [];
  for await (const piece of piecesFrom(store, { id, size }, 0)) held.push(piece);
  return (from) => [Buffer.concat(held).subarray(from)];
}

async function* discarded(pieces: AsyncIterable<Uint8Array>, garbage: Garbage): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    yield piece;
    garbage.add(piece.length);
  }
}

async function* piecesFrom(store: Store, { id, size }: Raw, from: number): AsyncGenerator<Uint8Array> {
  let at = 0;
  for await (const piece of rawChunks(store, id)) {
    const skip = Math.max(0, from - at);
    at += piece.length;
    if (skip < piece.length) yield piece.subarray(skip);
  }
  // Whoever sends it must not come to its end as if all had been said.
  if (at !== size) throw new Error(`of the ${size} bytes of ${id} only ${at} are there`);
}
