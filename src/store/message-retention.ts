/**
 * Messages that are settled for long: first what they say goes, then the record of who got them. A delivery that is settled
 * stays so, and what is not settled is not touched.
 */
import { sql } from 'kysely';
import { dropAttachments } from './attachments.ts';
import { listed } from './listed.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { MessageRow } from './tables.ts';

export interface AgedMessage extends Pick<MessageRow, 'id' | 'kind' | 'body'> {
  /** When its last recipient was; null while one is not. */
  readonly settled_at: number | null;
  /** Whether the submission that it tells of is there: 0 or 1. */
  readonly has_submission: number;
  /** What is kept of it. */
  readonly bytes: number;
}

const stretch = define<{ after: string; before: string; limit: number }>()((db, value) =>
  db
    .selectFrom('messages')
    .select((eb) => [
      'messages.id',
      'messages.kind',
      'messages.body',
      eb
        .selectFrom('deliveries')
        // One that is not settled makes it null.
        .select(sql<number | null>`case when count(*) = count(settled_at) then max(settled_at) end`.as('settled_at'))
        .whereRef('deliveries.message', '=', 'messages.id')
        .as('settled_at'),
      eb
        .case()
        .when(
          eb.exists(
            eb
              .selectFrom('submissions')
              .select('submissions.id')
              .whereRef('submissions.id', '=', 'messages.submission'),
          ),
        )
        .then(1)
        .else(0)
        .end()
        .as('has_submission'),
      sql<number>`length(messages.source) + messages.size + coalesce(${eb
        .selectFrom('attachment_chunks')
        .select(sql<number>`cast(sum(length(bytes)) as bigint)`.as('bytes'))
        .whereRef('attachment_chunks.message', '=', 'messages.id')}, 0)`.as('bytes'),
    ])
    // Webhook deliveries have a time of their own (store/webhook-deliveries).
    .where('messages.kind', '<>', 'webhook')
    .where('messages.id', '>', value('after'))
    .where('messages.id', '<', value('before'))
    .orderBy('messages.id')
    .limit(value('limit')),
);

/** The next messages behind `after` and before `before`, oldest first. */
export function agedMessages(
  store: Store,
  where: { readonly after: string; readonly before: string; readonly limit: number },
): Promise<AgedMessage[]> {
  return store.select(stretch(where));
}

const drop = define<Pick<MessageRow, 'id' | 'source'>>()((db, value) =>
  db
    .updateTable('messages')
    .set({ body: 'dropped', source: value('source') })
    .where('id', '=', value('id')),
);
const dropChunks = define<{ message: string }>()((db, value) =>
  db.deleteFrom('message_chunks').where('message', '=', value('message')),
);

/** The statements that drop what a settled message says; `source` is what stays of how it was asked for. */
export function dropContent({ id, source }: Pick<MessageRow, 'id' | 'source'>): Statement[] {
  return [drop({ id, source }), dropChunks({ message: id }), dropAttachments({ message: id })];
}

const forget = define<{ ids: string }>()((db, value, dialect) =>
  db.deleteFrom('messages').where('id', 'in', listed(value('ids'), dialect)),
);

/** The statement that forgets settled messages with their deliveries and attempts. */
export function forgetMessages(ids: readonly string[]): Statement {
  return forget({ ids: JSON.stringify(ids) });
}
