/** Row 18: PostgreSQL, which other processes of the same two cores run, against SQLite in the daemon itself. */
import { startPostgres } from '../../test/harness/postgres.ts';
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { postsPerSecond } from '../lib/wrk.ts';

export const row: Row = {
  number: '18',
  measure: 'form posts accepted durably on PostgreSQL',
  reference: 'on SQLite',
  goals: [{ atLeast: 0.6 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const postgres = open.adopt(await startPostgres(), (it) => it.close());
    const database = await postgres.createDatabase('bench');
    const ours = open.adopt(await startPostern({ database }), (it) => it.close());
    const sqlite = open.adopt(await startPostern(), (it) => it.close());
    const post = urlencodedPost();
    return await alternate({
      rounds,
      ours: async () => [await postsPerSecond(ours.formUrl, post)],
      reference: async () => [await postsPerSecond(sqlite.formUrl, post)],
    });
  },
};
