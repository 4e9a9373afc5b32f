/** The bytes of a message that came in, to be sent on: from any place of it, and surely whole. */
import type { Garbage } from '../lib/gc.ts';
import { rawPieces, RAW_PIECE_BYTES } from '../store/inbound.ts';
import type { InboundRow } from '../store/tables-inbound.ts';
import type { Store } from '../store/store.ts';

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
  if (size > RAW_PIECE_BYTES) return (from) => discarded(piecesFrom(store, { id, size }, from), garbage);
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
  for await (const piece of rawPieces(store, id)) {
    const skip = Math.max(0, from - at);
    at += piece.length;
    if (skip < piece.length) yield piece.subarray(skip);
  }
  // Whoever sends it must not come to its end as if all had been said.
  if (at !== size) throw new Error(`of the ${size} bytes of ${id} only ${at} are there`);
}
