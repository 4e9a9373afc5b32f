/** Row 3: a file that is on the disk, synced, before the answer, against one that is in a temporary folder by chance. */
import { startPostern } from '../lib/postern.ts';
import { multipartPost } from '../lib/posts.ts';
import { startReference } from '../lib/program.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { postsPerSecond } from '../lib/wrk.ts';

export const row: Row = {
  number: '3',
  measure: 'multipart with a file of 20 KiB, accepted durably (64 connections)',
  reference: 'bare Koa + koa-body multipart',
  goals: [{ atLeast: 1 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const daemon = open.adopt(await startPostern(), (it) => it.close());
    const koa = open.adopt(await startReference('bare-koa'), (it) => it.close());
    const post = multipartPost();
    return await alternate({
      rounds,
      ours: async () => [await postsPerSecond(daemon.formUrl, post)],
      async reference() {
        const figure = await postsPerSecond(`http://127.0.0.1:${koa.port}/forms.test/contact`, post);
        await koa.tidy();
        return [figure];
      },
    });
  },
};
