/**
 * Reloads when a file of the configuration changes. Polls instead of asking the kernel: it works on every file system and
 * with every editor's way of saving, and sees one change where an editor makes three.
 */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../lib/clock.ts';
import { codeOf } from '../lib/errors.ts';
import { listProjects } from './files.ts';

const INTERVAL = 1000;

export interface WatchOptions {
  /** Path of server.yml; it and `projects/*.yml` beside it are watched. */
  readonly file: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Whether `server.watch` is on now; it may change with any reload. */
  readonly enabled: () => boolean;
  readonly reload: () => Promise<unknown>;
}

/**
 * Looks every second until `signal` aborts; calls `reload` once what it sees differs from before and has stayed the same
 * for a second, so that a file is not read while it is being written.
 */
export async function watchConfig({ file, clock, signal, enabled, reload }: WatchOptions): Promise<void> {
  let loaded = await fingerprint(file);
  let seen = loaded;
  for (;;) {
    await clock.sleep(INTERVAL, signal);
    if (signal.aborted) return;
    const now = await fingerprint(file);
    const settled = now === seen;
    seen = now;
    if (!settled || now === loaded) continue;
    loaded = now;
    if (enabled()) await reload();
  }
}

/** Time, size and identity of every file. */
async function fingerprint(file: string): Promise<string> {
  const projects = await listProjects(file).catch((error: unknown) => [String(codeOf(error))]);
  const lines = await Promise.all([file, ...projects.map((name) => join(dirname(file), name))].map(describe));
  return lines.join('\n');
}

async function describe(path: string): Promise<string> {
  try {
    const { mtimeNs, size, ino } = await stat(path, { bigint: true });
    return `${path} ${mtimeNs} ${size} ${ino}`;
  } catch (error) {
    return `${path} ${codeOf(error)}`;
  }
}
