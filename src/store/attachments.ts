/** What is attached to a message that is yet to be rendered, in pieces; it goes with the message. */
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { AttachmentChunkRow } from './tables.ts';

const PIECE_BYTES = 256 * 1024;

const insertChunk = define<AttachmentChunkRow>()((db, value) =>
  db.insertInto('attachment_chunks').values({
    message: value('message'),
    position: value('position'),
    seq: value('seq'),
    bytes: value('bytes'),
  }),
);
const chunks = define<{ message: string; position: number }>()((db, value) =>
  db
    .selectFrom('attachment_chunks')
    .select('bytes')
    .where('message', '=', value('message'))
    .where('position', '=', value('position'))
    .orderBy('seq'),
);

/** The statements that keep the attachments of a message, after the one that makes it. */
export function keepAttachments(message: string, contents: readonly Uint8Array[]): Statement[] {
  return contents.flatMap((content, position) => {
    const statements: Statement[] = [];
    for (let at = 0; at < content.length; at += PIECE_BYTES) {
      const bytes = content.subarray(at, at + PIECE_BYTES);
      statements.push(insertChunk({ message, position, seq: at / PIECE_BYTES, bytes }));
    }
    return statements;
  });
}

/** The statement that drops them: the finished message holds them. */
export const dropAttachments = define<{ message: string }>()((db, value) =>
  db.deleteFrom('attachment_chunks').where('message', '=', value('message')),
);

/** The whole content of one attachment. */
export async function readAttachment(store: Store, message: string, position: number): Promise<Buffer> {
  const rows = await store.select(chunks({ message, position }));
  return Buffer.concat(rows.map(({ bytes }) => bytes));
}
