/** Row 17: durable answers on a disk whose syncs take 2 ms more. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { needPackage } from '../../test/harness/debian.ts';
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { postsPerSecond } from '../lib/wrk.ts';

const MORE_US = 2000;

export const row: Row = {
  number: '17',
  measure: 'form posts accepted durably, 2 ms more for each sync',
  reference: 'this disk',
  goals: [{ atLeast: 0.8 }],
  async run({ rounds }) {
    needPackage('/usr/bin/gcc', 'gcc');
    await using open = new AsyncDisposableStack();
    const folder = open.adopt(await mkdtemp(join(tmpdir(), 'postern-bench-')), (it) => rm(it, { recursive: true }));
    const library = join(folder, 'slow-sync.so');
    execFileSync('gcc', ['-shared', '-fPIC', '-o', library, join(import.meta.dirname, '../lib/slow-sync.c'), '-ldl']);
    const environment = { LD_PRELOAD: library, SYNC_DELAY_US: String(MORE_US) };
    const slow = open.adopt(await startPostern({ environment }), (it) => it.close());
    const fast = open.adopt(await startPostern(), (it) => it.close());
    const post = urlencodedPost();
    return await alternate({
      rounds,
      ours: async () => [await postsPerSecond(slow.formUrl, post)],
      reference: async () => [await postsPerSecond(fast.formUrl, post)],
    });
  },
};
