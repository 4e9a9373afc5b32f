/** Row 19: PostgreSQL while somebody reads from an old snapshot, as pg_dump does; and with a network between it and the daemon. */
import pg from 'pg';
import { startPostgres } from '../../test/harness/postgres.ts';
import { startPostern, type Daemon } from '../lib/postern.ts';
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
  reference: 'without the snapshot; what is wanted; on the same host',
  goals: [
    { name: 'with an open snapshot', atLeast: 0.9 },
    { name: 'at a round trip of 1 ms', atLeast: 1 },
    { name: 'at a round trip of 5 ms', atLeast: 0.5 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const postgres = open.adopt(await startPostgres(), (it) => it.close());
    const near = await postgres.createDatabase('near');
    const daemon = open.adopt(await startPostern({ database: near }), (it) => it.close());
    const [at1, at5] = [await startFar('far', 1), await startFar('farther', 5)];
    const post = urlencodedPost();

    async function startFar(name: string, roundTrip: number): Promise<Daemon> {
      const database = new URL(await postgres.createDatabase(name));
      const line = open.adopt(await startSlowLine(Number(database.port), roundTrip), (it) => it.close());
      database.port = `${line.port}`;
      return open.adopt(await startPostern({ database: database.href }), (it) => it.close());
    }

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
      ours: async () => [
        await withSnapshot(),
        await postsPerSecond(at1.formUrl, post),
        await postsPerSecond(at5.formUrl, post),
      ],
      async reference() {
        const alone = await postsPerSecond(daemon.formUrl, post);
        return [alone, WANTED, alone];
      },
    });
  },
};
