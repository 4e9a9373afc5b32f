/** Where the bytes of files and messages go: into the database, or the large ones into the bucket of `storage.url`. */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { UserError } from '../lib/errors.ts';
import { createBucketBlobs, hasObjects } from '../store/blobs.ts';
import type { Store } from '../store/store.ts';

export interface StorageParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: ServerConfig['storage'];
}

export interface Storage {
  /** The store, with its bytes where the settings say. */
  readonly store: Store;
  /** Ends the connections to the bucket. */
  close(): Promise<void>;
}

/** Opens it in the calling thread. The bucket is first asked when it is used. */
export async function openStorage({ store, clock, settings }: StorageParts): Promise<Storage> {
  const { url, access_key_id: accessKeyId, secret_access_key: secretAccessKey } = settings;
  if (url === null || accessKeyId === null || secretAccessKey === null) {
    return { store, close: () => Promise.resolve() };
  }
  // Not without a bucket: it brings the code that signs requests.
  const { openBucket } = await import('../store/s3.ts');
  const bucket = openBucket({ ...url, accessKeyId, secretAccessKey });
  return { store: { ...store, blobs: createBucketBlobs({ store, clock, bucket }) }, close: bucket.close };
}

/** Throws UserError where files or messages of the store are in a bucket, and there is none. */
export async function refuseLostBucket(store: Store): Promise<void> {
  if (store.blobs.bucket !== undefined || !(await hasObjects(store))) return;
  throw new UserError('files and messages of this database are in a bucket: set storage.url to that bucket again');
}
