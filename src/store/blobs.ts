/**
 * The bytes of files and messages, chunk by chunk: in the rows of their chunks, or, where `storage.url` names a bucket, the
 * large ones as objects that these rows name.
 *
 * An object is in the table `objects` before it is in the bucket, so that each one is known, and it is in the bucket before
 * the unit that names it is written. What no row names within an hour is removed, and so is what a row has named that is
 * gone, whatever removed the row (a trigger of the database notes it). Before it is removed, it is marked; from then on no
 * unit can name it.
 */
import { sql } from 'kysely';
import type { Clock } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import type { Bucket } from './s3.ts';
import { deleteAmong, insertInto, query, reader, update, type Statement } from './statement.ts';
import { STORAGE_UNAVAILABLE, StoreError, type Blob, type Blobs, type Store } from './store.ts';

/**
 * Smaller chunks stay in their rows: a request to a bucket takes ten milliseconds or more and costs as much as keeping this
 * for months, and a row is written by the commit that is made anyway.
 */
export const MIN_OBJECT_BYTES = 100 * 1024;

/** No chunk is written so long before its row, ms. */
const MAX_UNNAMED_MS = 3_600_000;
/** Objects removed in one go, and at a time. */
const BATCH = 500;
const MAX_REMOVALS = 8;

const insertObject = insertInto('objects');
const nameObject = update('objects', [sql`remove_at = null`], ['id', sql`remove_at > 0`]);
const markForRemoval = query<{ now: number }>(
  (value) => sql`update objects set remove_at = 0 where remove_at > 0 and remove_at <= ${value('now')}`,
);
const toRemove = reader(
  (limit: number) => sql<{ id: string }>`select id from objects where remove_at = 0 limit ${limit}`,
);
const forgetObjects = deleteAmong('objects', 'id');
const anyObject = reader(() => sql<{ id: string }>`select id from objects limit 1`);

/** The statements for the unit that writes a row which names this object; it is unmet where the object is being removed. */
export function naming({ object = null }: Blob): Statement[] {
  return object === null ? [] : [nameObject({ id: object }, 1)];
}

/** Whether bytes of this store are in a bucket. */
export async function hasObjects(store: Pick<Store, 'select'>): Promise<boolean> {
  return (await anyObject(store)).length > 0;
}

export interface BucketBlobsParts {
  readonly store: Pick<Store, 'write' | 'select'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly bucket: Bucket;
}

/** Large chunks as objects of the bucket. */
export function createBucketBlobs({ store, clock, bucket }: BucketBlobsParts): Blobs {
  async function putObject(bytes: Uint8Array): Promise<string> {
    const now = clock.now();
    const id = newId('obj', now);
    await store.write([insertObject({ id, remove_at: now + MAX_UNNAMED_MS })]);
    await bucket.put(id, bytes);
    return id;
  }

  async function remove(ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length; i += MAX_REMOVALS) {
      await Promise.all(ids.slice(i, i + MAX_REMOVALS).map((id) => bucket.remove(id)));
    }
    await store.write([forgetObjects(ids)]);
  }

  return {
    async put(bytes) {
      if (bytes.length < MIN_OBJECT_BYTES) return { bytes };
      return { bytes: new Uint8Array(), object: await putObject(bytes) };
    },
    get: ({ bytes, object = null }) => (object === null ? Promise.resolve(bytes) : bucket.get(object)),
    async sweep() {
      await store.write([markForRemoval({ now: clock.now() })]);
      for (let count = BATCH; count === BATCH;) {
        const ids = (await toRemove(store, BATCH)).map(({ id }) => id);
        count = ids.length;
        if (count > 0) await remove(ids);
      }
    },
    bucket: {
      name: bucket.name,
      async probe() {
        const id = await putObject(PROBE);
        const found = await bucket.get(id);
        if (!PROBE.equals(found))
          throw new StoreError(`${bucket.name} returns different bytes than were stored`, STORAGE_UNAVAILABLE);
        await remove([id]);
      },
    },
  };
}

const PROBE = Buffer.from('Postern writes and reads this to see whether it can.\n');
