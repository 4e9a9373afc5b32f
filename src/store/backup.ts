/**
 * Backups of a SQLite database, one at a time: a verified copy beside it, there until it was fetched once, or until nobody
 * asks for it any more. What an ended process left is removed before the next one and at the start.
 */
import { closeSync, createReadStream, openSync } from 'node:fs';
import { rm, statfs, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { MessageChannel, Worker } from 'node:worker_threads';
import type { Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { CopyNews, VerifiedCopy } from './backup-thread.ts';

export type BackupState = { readonly kind: 'none' } | CopyNews | ({ readonly kind: 'fetching' } & VerifiedCopy);

/** Why none is begun. */
export type NoBackup =
  | { readonly kind: 'not-sqlite' }
  | { readonly kind: 'running' }
  /** Bytes. */
  | { readonly kind: 'no-room'; readonly needed: number; readonly free: number };

export interface Backups {
  /** Begins one; undefined where that is done. */
  begin(): Promise<NoBackup | undefined>;
  /** How it goes; asking keeps it. */
  state(): BackupState;
  /** The bytes of the verified copy, which is gone when they were read, or reading them ended; undefined where there is none. */
  fetch(): (VerifiedCopy & { readonly stream: AsyncIterable<Uint8Array> }) | undefined;
  /** Gives up what there is. */
  drop(): Promise<void>;
}

export interface BackupOptions {
  /** Of the database; undefined where it is a server's. */
  readonly path: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Bytes of disk that stay free. */
  readonly reserve: () => number;
}

/** Whoever wants the copy asks more often. */
const PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 5000;

export async function openBackups({ path, clock, log, reserve }: BackupOptions): Promise<Backups> {
  const copy = `${path ?? ''}.backup`;
  let state: BackupState = { kind: 'none' };
  let stop: (() => Promise<void>) | undefined;
  let askedAt = 0;
  let running = new AbortController();
  if (path !== undefined) await clean();

  async function clean(): Promise<void> {
    for (const end of ['', '-journal', '-wal', '-shm']) await rm(`${copy}${end}`, { force: true });
  }

  async function drop(): Promise<void> {
    running.abort();
    state = { kind: 'none' };
    await stop?.();
    if (path !== undefined) await clean();
  }

  function hear(news: CopyNews): void {
    state = news;
    if (news.kind === 'failed') {
      log.error('backup.failed', { reason: news.reason });
      running.abort();
    }
    if (news.kind === 'verified') log.info('backup.verified', { size: news.size, rows: news.rows });
  }

  /** Ends what nobody asks for any more. */
  async function watch({ signal }: AbortController): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(LOOK_EVERY_MS, signal);
      if (signal.aborted || state.kind === 'fetching' || clock.monotonic() - askedAt < PATIENCE_MS) continue;
      log.warn('backup.abandoned');
      await drop();
    }
  }

  async function roomFor(from: string): Promise<NoBackup | undefined> {
    const { bavail, bsize } = await statfs(dirname(from));
    const needed = (await stat(from)).size + reserve();
    const free = bavail * bsize;
    return free < needed ? { kind: 'no-room', needed, free } : undefined;
  }

  async function* bytes(verified: VerifiedCopy): AsyncGenerator<Uint8Array> {
    if (state.kind !== 'verified') throw new Error('the backup is being fetched by someone else, or was abandoned');
    const mine: BackupState = { ...verified, kind: 'fetching' };
    state = mine;
    try {
      for await (const piece of createReadStream(copy)) yield piece;
    } finally {
      // Given up meanwhile, and perhaps another begun.
      if (state === mine) await drop();
    }
  }

  return {
    async begin() {
      if (path === undefined) return { kind: 'not-sqlite' };
      if (state.kind !== 'none' && state.kind !== 'failed') return { kind: 'running' };
      const begun: BackupState = { kind: 'copying', done: 0, total: 0 };
      state = begun;
      try {
        await stop?.();
        await clean();
        const refused = await roomFor(path);
        if (refused !== undefined) {
          state = { kind: 'none' };
          return refused;
        }
        // Given up meanwhile.
        if (state !== begun) return undefined;
        stop = startCopy({ from: path, to: copy }, hear);
      } catch (error) {
        state = { kind: 'none' };
        throw error;
      }
      askedAt = clock.monotonic();
      running = new AbortController();
      watch(running).catch((error: unknown) => log.error('backup.not_removed', errorFields(error)));
      return undefined;
    },
    state() {
      askedAt = clock.monotonic();
      return state;
    },
    fetch() {
      if (state.kind !== 'verified') return undefined;
      const { kind: _, ...verified } = state;
      return { ...verified, stream: bytes(verified) };
    },
    drop,
  };
}

/** Makes one verified copy; `to` is a path where nothing is. Rejects where that fails, and leaves nothing then. */
export async function copyVerified(paths: { from: string; to: string }): Promise<VerifiedCopy> {
  const { promise, resolve, reject } = Promise.withResolvers<VerifiedCopy>();
  const stop = startCopy(paths, (news) => {
    if (news.kind === 'verified') resolve(news);
    if (news.kind === 'failed') reject(new Error(news.reason));
  });
  try {
    return await promise;
  } catch (error) {
    await rm(paths.to, { force: true });
    throw error;
  } finally {
    await stop();
  }
}

/** Starts the thread; `to` is a path where nothing is. `onNews` hears how it goes, `verified` or `failed` last. Answers what breaks it off. */
function startCopy(paths: { from: string; to: string }, onNews: (news: CopyNews) => void): () => Promise<void> {
  closeSync(openSync(paths.to, 'wx', 0o600));
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL('./backup-thread.ts', import.meta.url), {
    workerData: { ...paths, port: port2 },
    transferList: [port2],
    name: 'copy',
  });
  let over = false;

  function hear(news: CopyNews): void {
    if (over) return;
    over = news.kind === 'verified' || news.kind === 'failed';
    onNews(news);
  }

  port1.on('message', hear);
  worker.on('error', (error: unknown) => hear({ kind: 'failed', reason: messageOf(error) }));
  return async () => {
    over = true;
    port1.close();
    await worker.terminate();
  };
}
