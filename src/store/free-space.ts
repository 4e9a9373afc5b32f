/** Whether the disk under the database has room: below the low-water mark nothing is accepted, before it is really full. */
import { statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

const EVERY_MS = 1000;

export interface FreeSpace {
  /** Whether less than `most` bytes are free, as of a second ago at most while requests come. */
  below(least: number): boolean;
}

/** Watches the file system of `path`; on PostgreSQL there is none of ours to watch. */
export function watchFreeSpace(path: string | undefined, { clock, log }: { clock: Clock; log: Log }): FreeSpace {
  if (path === undefined) return { below: () => false };
  const folder = dirname(path);
  const first = statfsSync(folder);
  let free = first.bavail * first.bsize;
  let asked = clock.monotonic();
  let asking = false;

  async function ask(): Promise<void> {
    asking = true;
    try {
      const { bavail, bsize } = await statfs(folder);
      free = bavail * bsize;
    } catch (error) {
      log.error('disk.not_known', { folder, ...errorFields(error) });
    } finally {
      asked = clock.monotonic();
      asking = false;
    }
  }

  return {
    below(least) {
      if (!asking && clock.monotonic() - asked >= EVERY_MS) void ask();
      return free < least;
    },
  };
}
