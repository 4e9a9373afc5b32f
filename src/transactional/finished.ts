/** The finished bytes of a mail, as far as they are kept. */
import { z } from 'zod';
import { rawPieces } from '../store/inbound.ts';
import { bodyChunk } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';

const source = z.object({ raw: z.string().optional() });

/** All of them; undefined where some are not kept. */
export async function finishedBytes(
  store: Store,
  { id, body, size, source: json }: MessageRow,
): Promise<Buffer | undefined> {
  if (body !== 'stored' && body !== 'prefixed') return undefined;
  const kept = await storedBytes(store, id);
  if (body === 'stored') return kept;
  const { raw } = source.parse(JSON.parse(json));
  const came: Uint8Array[] = [];
  if (raw !== undefined) for await (const piece of rawPieces(store, raw)) came.push(piece);
  const all = Buffer.concat(came);
  const from = all.length - (size - kept.length);
  // The bytes that came in may be gone.
  return from < 0 || raw === undefined ? undefined : Buffer.concat([kept, all.subarray(from)]);
}

async function storedBytes(store: Store, id: string): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (;;) {
    const piece = await bodyChunk(store, id, pieces.length);
    if (piece === undefined) return Buffer.concat(pieces);
    pieces.push(piece);
  }
}
