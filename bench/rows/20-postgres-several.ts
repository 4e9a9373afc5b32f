/**
 * Row 20: several daemons on one PostgreSQL. Two cores cannot show that two daemons accept twice as much: a post must take no
 * more of the processor, of the daemons and the database together, and wait for no lock.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startPostgres } from '../../test/harness/postgres.ts';
import { startPostern, type Daemon } from '../lib/postern.ts';
import { postExactly } from '../lib/post-exactly.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { familySeconds, processorSeconds } from '../lib/processor.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';

const POSTS = 6000;
const WARM_UP = 3 * POSTS;
/** To each daemon, as if each had a machine and visitors of its own: the more posts wait, the more share a transaction. */
const CONNECTIONS = 60;
const SAMPLE_EVERY_MS = 20;

export const row: Row = {
  number: '20',
  measure: 'form posts on PostgreSQL',
  reference: 'one daemon',
  goals: [
    { name: 'by a second of the processor, two daemons', atLeast: 0.95 },
    { name: 'by a second of the processor, three daemons', atLeast: 0.95 },
    { name: 'busy connections that wait for a lock, %, three daemons', atMost: 5 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const postgres = open.adopt(await startPostgres(), (it) => it.close());
    const database = await postgres.createDatabase('bench');
    const daemons: Daemon[] = [];
    for (let i = 0; i < 3; i++) daemons.push(open.adopt(await startPostern({ database }), (it) => it.close()));
    const watcher = new pg.Client({ connectionString: database });
    await watcher.connect();
    open.defer(() => watcher.end());

    function used(): number {
      return daemons.reduce((sum, { pid }) => sum + processorSeconds(pid), familySeconds(postgres.pid));
    }

    /** Posts to the first `count` daemons. */
    async function load(count: number): Promise<{ readonly perSecond: number; readonly waiting: number }> {
      const job = { count: POSTS / count, connections: CONNECTIONS };
      const ended = new AbortController();
      const waiting = shareOfWaits(watcher, ended.signal);
      const before = used();
      await Promise.all(daemons.slice(0, count).map(({ formUrl }) => postExactly(formUrl, urlencodedPost(), job)));
      const perSecond = POSTS / (used() - before);
      ended.abort();
      return { perSecond, waiting: await waiting };
    }

    // V8 compiles as it goes: a daemon that has taken fewer posts takes longer for each.
    for (const { formUrl } of daemons) {
      await postExactly(formUrl, urlencodedPost(), { count: WARM_UP, connections: CONNECTIONS });
    }
    return await alternate({
      rounds,
      async ours() {
        const two = await load(2);
        const three = await load(3);
        return [two.perSecond, three.perSecond, three.waiting];
      },
      async reference() {
        const { perSecond, waiting } = await load(1);
        return [perSecond, perSecond, waiting];
      },
    });
  },
};

/** Of the connections that are busy whenever it looks, how many wait for a lock that another holds, in percent. */
async function shareOfWaits(watcher: pg.Client, ended: AbortSignal): Promise<number> {
  let busy = 0;
  let waiting = 0;
  while (!ended.aborted) {
    const { rows } = await watcher.query<{ busy: number; waiting: number }>(
      `SELECT count(*)::int AS busy, count(*) FILTER (WHERE wait_event_type = 'Lock')::int AS waiting FROM pg_stat_activity
        WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`,
    );
    busy += rows[0]?.busy ?? 0;
    waiting += rows[0]?.waiting ?? 0;
    await sleep(SAMPLE_EVERY_MS);
  }
  return (waiting / Math.max(1, busy)) * 100;
}
