/**
 * The copies that are made of a SQLite database before a new version migrates it: verified, beside it, the last two kept. With
 * the version before and its copy one goes back (docs/upgrade.md). A copy has its name only when it is whole and on the disk.
 */
import { readdirSync, statSync } from 'node:fs';
import { open, rename, rm, statfs } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { PassingError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { copyVerified } from './backup.ts';

const KEPT = 2;
const MARK = '.before-migration-';
const DRAFT = '.new';

/** Copies the database, and removes older copies. Rejects with PassingError where the disk has no room for it. */
export async function copyBeforeMigration(
  path: string,
  { log, reserve }: { readonly log: Log; readonly reserve: number },
): Promise<void> {
  // What a start that was killed has left.
  for (const draft of filesBeside(path, DRAFT)) await rm(draft);
  await requireRoom(path, reserve);
  const time = new Date(systemClock.now()).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const file = `${path}${MARK}${time}`;
  const draft = `${file}${DRAFT}`;
  const { size, rows } = await copyVerified({ from: path, to: draft });
  await sync(draft);
  await rename(draft, file);
  await sync(dirname(path));
  log.info('migration.copied', { file, size, rows });
  for (const old of migrationCopies(path).slice(KEPT)) await rm(old);
}

/** Their paths, newest first. */
export function migrationCopies(path: string): string[] {
  return filesBeside(path, 'Z').toReversed();
}

function filesBeside(path: string, end: string): string[] {
  const start = `${basename(path)}${MARK}`;
  const names = readdirSync(dirname(path)).filter((name) => name.startsWith(start) && name.endsWith(end));
  return names.toSorted().map((name) => join(dirname(path), name));
}

async function requireRoom(path: string, reserve: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(path));
  // What is committed and not yet in the file is in the -wal.
  const sizes = [path, `${path}-wal`].map((file) => statSync(file, { throwIfNoEntry: false })?.size ?? 0);
  const needed = sizes.reduce((sum, size) => sum + size, reserve);
  const free = bavail * bsize;
  if (free >= needed) return;
  const [room, is] = [needed, free].map((bytes) => `${Math.ceil(bytes / 1024 ** 2)} MiB`);
  throw new PassingError(
    `it must be migrated, but the disk has no room for the copy that is made first: ${room} needed, ${is} free in ${dirname(path)}`,
  );
}

/** Syncs a file or a folder. */
async function sync(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
