/** Row 13: what knowing the key, and keeping the mail durably, cost an API. */
import { startPostern } from '../lib/postern.ts';
import { emailPost } from '../lib/posts.ts';
import { startReference } from '../lib/program.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { getsPerSecond, postsPerSecond } from '../lib/wrk.ts';

export const row: Row = {
  number: '13',
  measure: 'requests with an API key (64 connections)',
  reference: 'bare Koa + @koa/router + koa-body that knows nobody and keeps nothing',
  goals: [
    { name: 'GET', atLeast: 0.6 },
    { name: 'POST /email/send, durably', atLeast: 0.5 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const daemon = open.adopt(await startPostern(), (it) => it.close());
    const koa = open.adopt(await startReference('bare-koa-api'), (it) => it.close());
    const key = await daemon.authorization();
    return await alternate({
      rounds,
      ours: () => bothPerSecond(`http://127.0.0.1:${daemon.port}`, key),
      reference: () => bothPerSecond(`http://127.0.0.1:${koa.port}`, key),
    });
  },
};

async function bothPerSecond(base: string, key: { readonly Authorization: string }): Promise<number[]> {
  return [await getsPerSecond(`${base}/auth/status`, key), await postsPerSecond(`${base}/email/send`, emailPost(key))];
}
