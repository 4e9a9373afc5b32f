/**
 * A message on its way into the store: what one connection holds of it is at most two pieces, the one that fills and the
 * one that is being written; whoever sends faster than the disk writes waits. The store's thread reads a piece where it
 * is, in shared memory, and the connection fills it again: however large a message is, it leaves no garbage behind.
 */
import { deleteRaw, insertRawChunk, rawPieces, RAW_PIECE_BYTES } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';

/** Most messages are smaller. */
const FIRST_BYTES = 16 * 1024;

export class Pieces {
  readonly #store: Store;
  readonly #id: string;
  readonly #at: number;
  #filling: Buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #filled = 0;
  /** Pieces that are written or being written. */
  #count = 0;
  #writing: Promise<void> | undefined;
  /** Memory of a piece that is written. */
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

  /** Why a piece could not be written; undefined while all is well. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Adds bytes, which are copied; `beforeFirst` sees the beginning before it leaves. Resolves when more may come. */
  add(bytes: Uint8Array, beforeFirst: () => void): Promise<void> | undefined {
    this.#size += bytes.length;
    let rest = bytes;
    while (rest.length > 0) {
      this.#grow(rest.length);
      const part = rest.subarray(0, this.#filling.length - this.#filled);
      this.#filling.set(part, this.#filled);
      this.#filled += part.length;
      rest = rest.subarray(part.length);
      if (this.#filled < RAW_PIECE_BYTES) continue;
      if (this.#count === 0) beforeFirst();
      if (this.#writing !== undefined) {
        const left = Buffer.from(rest);
        return this.#writing.then(() => {
          this.#send();
          this.#size -= left.length;
          return this.add(left, beforeFirst);
        });
      }
      this.#send();
    }
    return undefined;
  }

  #grow(more: number): void {
    if (this.#filled + more <= this.#filling.length || this.#filling.length === RAW_PIECE_BYTES) return;
    const larger = pieceOfMemory();
    this.#filling.copy(larger, 0, 0, this.#filled);
    this.#filling = larger;
  }

  /** Writes the piece that is full, and goes on with another. */
  #send(): void {
    const bytes = this.#filling;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#writing = promise;
    this.#filling = this.#spare ?? pieceOfMemory();
    this.#spare = undefined;
    this.#filled = 0;
    this.#store
      .write([insertRawChunk({ inbound: this.#id, seq: this.#count++, bytes, created_at: this.#at })])
      .catch((error: unknown) => (this.#failure ??= error))
      .finally(() => {
        this.#spare = bytes;
        this.#writing = undefined;
        resolve();
      });
  }

  /** Waits until what was sent is written. */
  async settle(): Promise<void> {
    await this.#writing;
  }

  /** The statement that writes the last piece, for the unit that takes the message. Nothing may be added any more. */
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
    if (this.#count > 0) yield* rawPieces(this.#store, this.#id);
    if (this.#filled > 0) yield this.#filling.subarray(0, this.#filled);
  }
}

function pieceOfMemory(): Buffer {
  return Buffer.from(new SharedArrayBuffer(RAW_PIECE_BYTES));
}
