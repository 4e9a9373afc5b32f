/** A verified copy of a SQLite database in use, made by a thread of its own (sqlite-copy-thread). */
import { closeSync, openSync } from 'node:fs';
import { MessageChannel, Worker } from 'node:worker_threads';
import { messageOf } from '../lib/errors.ts';
import type { CopyNews } from './sqlite-copy-news.ts';

export interface Copying {
  readonly from: string;
  /** A path where nothing is; the file has mode 0600. */
  readonly to: string;
  readonly onNews: (news: CopyNews) => void;
}

/** Begins a copy; `onNews` hears how it goes, and in the end `verified` or `failed`. Answers what breaks it off. */
export function copySqlite({ from, to, onNews }: Copying): () => Promise<void> {
  closeSync(openSync(to, 'wx', 0o600));
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL('./sqlite-copy-thread.ts', import.meta.url), {
    workerData: { from, to, port: port2 },
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
