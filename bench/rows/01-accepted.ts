/** Row 1: a durable answer against an answer that keeps nothing. */
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { startReference } from '../lib/program.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { postsPerSecond } from '../lib/wrk.ts';

export const row: Row = {
  number: '1',
  measure: 'form posts accepted durably (urlencoded, 5 fields, 64 connections)',
  reference: 'bare Koa + @koa/router + koa-body that only parses',
  goals: [{ atLeast: 1 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const daemon = open.adopt(await startPostern(), (it) => it.close());
    const koa = open.adopt(await startReference('bare-koa'), (it) => it.close());
    const post = urlencodedPost();
    return await alternate({
      rounds,
      ours: async () => [await postsPerSecond(daemon.formUrl, post)],
      reference: async () => [await postsPerSecond(`http://127.0.0.1:${koa.port}/forms.test/contact`, post)],
    });
  },
};
