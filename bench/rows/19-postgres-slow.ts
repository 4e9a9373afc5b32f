/** Row 19: PostgreSQL while somebody reads from an old snapshot, as pg_dump does; and with a network between it and the daemon. */
import pg from 'pg';
import { startPostgres } from '../../test/harness/postgres.ts';
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSlowLine } from '../lib/slow-line.ts';
import { postsPerSecond } from '../lib/wrk.ts';

/** A second, at a round trip of 1 ms. */
const WANTED = 3000;

export const row: Row = {
  number: '19',
  measure: 'form posts accepted durably on PostgreSQL',
  reference: 'without the snapshot; what is wanted',
  goals: [
    { name: 'with an open snapshot', atLeast: 0.9 },
    { name: 'at a round trip of 1 ms', atLeast: 1 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const postgres = open.adopt(await startPostgres(), (it) => it.close());
    const near = await postgres.createDatabase('near');
    const far = new URL(await postgres.createDatabase('far'));
    const line = open.adopt(await startSlowLine(Number(far.port), 1), (it) => it.close());
    far.port = `${line.port}`;
    const daemon = open.adopt(await startPostern({ database: near }), (it) => it.close());
    const distant = open.adopt(await startPostern({ database: far.href }), (it) => it.close());
    const post = urlencodedPost();

    async function withSnapshot(): Promise<number> {
      const reader = new pg.Client({ connectionString: near });
      await reader.connect();
      await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await reader.query('SELECT count(*) FROM submissions');
      try {
        return await postsPerSecond(daemon.formUrl, post);
      } finally {
        await reader.end();
      }
    }

    return await alternate({
      rounds,
      ours: async () => [await withSnapshot(), await postsPerSecond(distant.formUrl, post)],
      reference: async () => [await postsPerSecond(daemon.formUrl, post), WANTED],
    });
  },
};
