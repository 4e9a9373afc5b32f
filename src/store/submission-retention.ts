/**
 * Submissions that are old enough to go. One goes only when all mail about it is settled and every active webhook has been
 * told of it. Whether its mail is settled is asked again in the unit that removes it, so that a mail which is asked for
 * meanwhile keeps what it is made of.
 */
import { sql, type ExpressionBuilder } from 'kysely';
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import { lockSubmissions } from './submissions.ts';
import type { Tables } from './tables.ts';

/** A form that has submissions, of one tenant. */
export interface Shelf {
  readonly tenant: string;
  readonly form: string;
}

const nextShelf = define<{ tenant: string; form: string }>()((db, value) =>
  db
    .selectFrom('submissions')
    .select(['tenant', 'form'])
    .where(sql<boolean>`(tenant, form) > (${value('tenant')}, ${value('form')})`)
    .orderBy('tenant')
    .orderBy('form')
    .limit(sql.lit(1)),
);

/** The shelf after this one; undefined after the last. */
export async function shelfAfter(store: Store, { tenant, form }: Shelf): Promise<Shelf | undefined> {
  const [row] = await store.select(nextShelf({ tenant, form }));
  return row;
}

type Submissions = ExpressionBuilder<Tables, 'submissions'>;

function isSettled({ not, exists, selectFrom }: Submissions) {
  return not(
    exists(
      selectFrom('messages')
        .innerJoin('deliveries', 'deliveries.message', 'messages.id')
        .select('deliveries.id')
        .whereRef('messages.submission', '=', 'submissions.id')
        .where('deliveries.state', 'in', ['queued', 'sending', 'deferred']),
    ),
  );
}

function hasArrived({ exists, selectFrom }: Submissions) {
  return exists(
    selectFrom('messages')
      .innerJoin('deliveries', 'deliveries.message', 'messages.id')
      .select('deliveries.id')
      .whereRef('messages.submission', '=', 'submissions.id')
      .where('messages.kind', '=', 'notification')
      .where('deliveries.state', 'in', ['delivered', 'captured']),
  );
}

/** Events are found a while after they were recorded (events/webhooks), and posted a while after that. */
function isTold({ not, exists, selectFrom }: Submissions) {
  return not(
    exists(
      selectFrom('webhooks')
        .select('webhooks.id')
        .whereRef('webhooks.tenant', '=', 'submissions.tenant')
        .where('status', '=', 'active')
        .where((eb) =>
          eb.or([
            eb('webhooks.cursor', '<=', sql<number>`submissions.created_at + 120000`),
            eb.exists(
              eb
                .selectFrom('events')
                .innerJoin('deliveries', 'deliveries.event', 'events.id')
                .select('events.id')
                .whereRef('events.tenant', '=', 'submissions.tenant')
                .whereRef('events.created_at', '=', 'submissions.created_at')
                .whereRef('events.submission', '=', 'submissions.id')
                .whereRef('deliveries.webhook', '=', 'webhooks.id')
                .where('deliveries.settled_at', 'is', null),
            ),
          ]),
        ),
    ),
  );
}

const old = define<Shelf & { after: string; before: string; unreached: string; limit: number }>()((db, value) =>
  db
    .selectFrom('submissions')
    .select('submissions.id')
    .where('submissions.tenant', '=', value('tenant'))
    .where('submissions.form', '=', value('form'))
    .where('submissions.id', '>', value('after'))
    .where('submissions.id', '<', value('before'))
    .where((eb) => eb.or([eb('submissions.id', '<', value('unreached')), hasArrived(eb)]))
    .where(isSettled)
    .where(isTold)
    .orderBy('submissions.id')
    .limit(value('limit')),
);
const files = define<{ ids: string }>()((db, value, dialect) =>
  db
    .selectFrom('submission_files')
    .select(['submission', 'id', 'size'])
    .where('submission', 'in', listed(value('ids'), dialect)),
);
const bodies = define<{ ids: string }>()((db, value, dialect) =>
  db
    .selectFrom('messages')
    .select(['submission', 'size'])
    .where('submission', 'in', listed(value('ids'), dialect))
    .where('body', '<>', 'dropped'),
);

export interface OldSubmission {
  readonly id: string;
  readonly files: readonly string[];
  /** Of its files and of the bodies of its mail. */
  readonly bytes: number;
}

export interface OldOnes extends Shelf {
  /** Only those behind this one. */
  readonly after: string;
  /** Only those before this id; and of those that no recipient got, only those before `unreached`. */
  readonly before: string;
  readonly unreached: string;
  readonly limit: number;
}

/** Submissions of the shelf that may go, oldest first. */
export async function oldSubmissions(store: Store, which: OldOnes): Promise<OldSubmission[]> {
  const rows = await store.select(old(which));
  if (rows.length === 0) return [];
  const ids = JSON.stringify(rows.map(({ id }) => id));
  const [ofFiles, ofBodies] = await Promise.all([store.select(files({ ids })), store.select(bodies({ ids }))]);
  const filesBy = Map.groupBy(ofFiles, ({ submission }) => submission);
  const bodiesBy = Map.groupBy(ofBodies, ({ submission }) => submission);
  return rows.map(({ id }) => {
    const own = filesBy.get(id) ?? [];
    const bytes = [...own, ...(bodiesBy.get(id) ?? [])].reduce((sum, { size }) => sum + size, 0);
    return { id, files: own.map((file) => file.id), bytes };
  });
}

/** The rows of their files go with them. */
const removeSettled = define<{ ids: string }>()((db, value, dialect) =>
  db
    .deleteFrom('submissions')
    .where('submissions.id', 'in', listed(value('ids'), dialect))
    .where((eb) => isSettled(eb)),
);
const removeFiles = define<{ files: string }>()((db, value, dialect) =>
  db
    .deleteFrom('file_chunks')
    .where('file', 'in', listed(value('files'), dialect))
    .where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('submission_files').select('id').whereRef('submission_files.id', '=', 'file_chunks.file'))),
    ),
);
function isGone({ not, exists, selectFrom }: ExpressionBuilder<Tables, 'messages'>) {
  return not(
    exists(selectFrom('submissions').select('submissions.id').whereRef('submissions.id', '=', 'messages.submission')),
  );
}
const removeBodies = define<{ ids: string }>()((db, value, dialect) =>
  db.deleteFrom('message_chunks').where('message', 'in', (eb) =>
    eb
      .selectFrom('messages')
      .select('messages.id')
      .where('submission', 'in', listed(value('ids'), dialect))
      .where((messages) => isGone(messages)),
  ),
);
const dropBodies = define<{ ids: string }>()((db, value, dialect) =>
  db
    .updateTable('messages')
    .set({ body: 'dropped' })
    .where('submission', 'in', listed(value('ids'), dialect))
    .where('body', '<>', 'dropped')
    .where((eb) => isGone(eb)),
);

/** The unit that removes those of these submissions whose mail is settled still, their files and the bodies of their mail. */
export function removeOldSubmissions(those: readonly OldSubmission[]): Statement[] {
  const ids = JSON.stringify(those.map(({ id }) => id));
  return [
    lockSubmissions({ ids }),
    removeSettled({ ids }),
    removeFiles({ files: JSON.stringify(those.flatMap((each) => each.files)) }),
    removeBodies({ ids }),
    dropBodies({ ids }),
  ];
}
