/** Runs the program poster.ts: for benches that must know how many posts were accepted, which wrk cannot be told. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { Post } from './posts.ts';

const run = promisify(execFile);

/** Posts `count` times; answers the seconds until the last answer. */
export async function postExactly(
  url: string,
  post: Post,
  { count, connections = 64 }: { readonly count: number; readonly connections?: number },
): Promise<number> {
  const { port, pathname } = new URL(url);
  const folder = await mkdtemp(join(tmpdir(), 'postern-poster-'));
  try {
    const bodyFile = join(folder, 'body');
    await writeFile(bodyFile, post.body);
    const { contentType, headers = {} } = post;
    const job = { port: Number(port), path: pathname, bodyFile, contentType, headers, count, connections };
    const { stdout } = await run(process.execPath, [`${import.meta.dirname}/poster.ts`, JSON.stringify(job)]);
    return z.object({ microseconds: z.number() }).parse(JSON.parse(stdout)).microseconds / 1e6;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
