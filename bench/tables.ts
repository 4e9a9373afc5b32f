/**
 * `npm run bench:tables [-- --rows N --posts N --sql STATEMENTS --vacuum]`: what posts that are delivered leave in the tables of
 * PostgreSQL: updates, how many of them were HOT, dead rows, sizes, and WAL. `--rows` are there before, and `--sql` is run
 * then. Autovacuum is off, so that runs can be compared, or with `--vacuum` looks every second.
 */
import { parseArgs } from 'node:util';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { startPostgres } from '../test/harness/postgres.ts';
import { postUntilDelivered } from './lib/delivered.ts';
import { fillDatabase } from './lib/fill.ts';
import { startPostern } from './lib/postern.ts';
import { emailPost } from './lib/posts.ts';
import { startSmtpSink } from './lib/smtp-sink.ts';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '5000' },
    posts: { type: 'string', default: '4000' },
    sql: { type: 'string' },
    vacuum: { type: 'boolean', default: false },
  },
});
const POSTS = Number(values.posts);
const TOGETHER = 25;
/** A session hands in its statistics after a second at most, and when it has nothing more to do. */
const SETTLE_MS = 12_000;

interface Figures {
  readonly table: string;
  readonly inserted: number;
  readonly updated: number;
  readonly hot: number;
  readonly deleted: number;
  readonly dead: number;
  readonly vacuums: number;
  readonly heap: number;
  readonly indexes: number;
}

const FIGURES = `select s.relname as table, n_tup_ins::int as inserted, n_tup_upd::int as updated, n_tup_hot_upd::int as hot,
    n_tup_del::int as deleted, n_dead_tup::int as dead, autovacuum_count::int as vacuums,
    pg_table_size(relid)::int / 1024 as heap, pg_indexes_size(relid)::int / 1024 as indexes
  from pg_stat_user_tables as s order by 1`;

await using open = new AsyncDisposableStack();
const server = open.adopt(
  await startPostgres([
    values.vacuum ? 'autovacuum_naptime=1s' : 'autovacuum=off',
    'checkpoint_timeout=1h',
    'full_page_writes=off',
  ]),
  (it) => it.close(),
);
const database = await server.createDatabase('tables');
await fillDatabase(database, Number(values.rows));
const client = open.adopt(new pg.Client(database), (it) => it.end());
await client.connect();
const sink = open.adopt(await startSmtpSink(), (it) => it.close());
const daemon = open.adopt(await startPostern({ database, deliverTo: sink.port }), (it) => it.close());
await sink.untilCount(1);
// What is too old is deleted first.
await setTimeout(SETTLE_MS);
await client.query('vacuum (full, analyze)');
if (values.sql !== undefined) await client.query(values.sql);
const before = await look();
await postUntilDelivered(daemon.formUrl, sink, POSTS);
await sendWithKeys();
const after = await look();

const wal = after.wal - before.wal;
console.log(`${POSTS} posts delivered; ${Math.round(wal / POSTS)} bytes of WAL for each`);
console.log('table                        ins     upd     HOT     del    dead  vacuums  heap KiB  indexes KiB');
for (const row of after.tables) {
  const was = before.tables.find(({ table }) => table === row.table);
  const columns = [
    row.inserted - (was?.inserted ?? 0),
    row.updated - (was?.updated ?? 0),
    row.hot - (was?.hot ?? 0),
    row.deleted - (was?.deleted ?? 0),
  ];
  if (columns.every((count) => count === 0)) continue;
  const [inserted, updated, hot, deleted] = columns.map((count) => String(count).padStart(8));
  const rest = `${String(row.dead).padStart(8)}${String(row.vacuums).padStart(9)}${String(row.heap).padStart(10)}${String(row.indexes).padStart(13)}`;
  console.log(`${row.table.padEnd(24)}${inserted}${updated}${hot}${deleted}${rest}`);
}

const [first, again] = [await pagesOfLeases(), await pagesOfLeases()];
console.log(`to find that nothing is leased takes ${first} pages, then ${again}`);

/** Mail through the API, each with an idempotency key, to a destination where nothing is delivered. */
async function sendWithKeys(): Promise<void> {
  const { headers = {}, body, contentType } = emailPost(await daemon.authorization());
  const count = POSTS / 4;
  for (let first = 0; first < count; first += TOGETHER) {
    await Promise.all(
      Array.from({ length: TOGETHER }, async (_, i) => {
        const answer = await fetch(`http://127.0.0.1:${daemon.port}/email/send`, {
          method: 'POST',
          headers: { ...headers, 'Content-Type': contentType, 'Idempotency-Key': `bench-${first + i}` },
          body,
        });
        const text = await answer.text();
        if (!answer.ok) throw new Error(`${answer.status} ${text}`);
      }),
    );
  }
}

/** What is read to renew the leases of a daemon that has none: entries of what was leased since the last vacuum stand in its way. */
async function pagesOfLeases(): Promise<number> {
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
    `explain (analyze, buffers, format json) select id from deliveries
      where state = 'sending' and state <> 'delivered' and lease_owner = 'nobody'`,
  );
  const { Plan: plan } = rows[0]?.['QUERY PLAN'][0] ?? { Plan: {} };
  return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
}

/** What the server has counted so far. */
async function look(): Promise<{ readonly wal: number; readonly tables: readonly Figures[] }> {
  await setTimeout(SETTLE_MS);
  const { rows } = await client.query<{ wal: string }>("select pg_current_wal_lsn() - '0/0' as wal");
  const { rows: tables } = await client.query<Figures>(FIGURES);
  return { wal: Number(rows[0]?.wal), tables };
}
