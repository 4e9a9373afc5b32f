/**
 * `npm run bench:post [-- --posts N]`: what one form post takes of the processor, and what would be left of it: the same post to
 * a bare Koa that only parses, and the rows that the daemon wrote, written once more to a new SQLite file by better-sqlite3
 * alone, in groups that are synced like those of the daemon.
 */
import { statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createStore } from '../src/store/database.ts';
import { openForReading, openForWriting } from '../src/store/sqlite-connection.ts';
import { postExactly } from './lib/post-exactly.ts';
import { startPostern } from './lib/postern.ts';
import { urlencodedPost } from './lib/posts.ts';
import { processorSeconds } from './lib/processor.ts';
import { startReference } from './lib/program.ts';
import { median } from './lib/rounds.ts';

const { values } = parseArgs({ options: { posts: { type: 'string', default: '8000' } } });
const count = Number(values.posts);
/** Posts whose rows are written again: of more, SQLite would begin its log anew. */
const POSTS = 1536;
/** The rows of a post: the table, and which rows of it belong to a submission. */
const ROWS = [
  ['submissions', 'id = ?'],
  ['messages', 'submission = ?'],
  ['deliveries', 'message in (select id from messages where submission = ?)'],
  ['events', "message in (select id from messages where submission = ?) and type = 'email.queued'"],
  [
    'events',
    `id in (select events.id from submissions join events on events.tenant = submissions.tenant
      and events.created_at = submissions.created_at and events.submission = submissions.id
      where submissions.id = ? and type = 'submission.accepted')`,
  ],
] as const;
const GROUPS = [16, 64];

interface Insert {
  readonly sql: string;
  readonly values: readonly unknown[];
}

await using open = new AsyncDisposableStack();
const post = urlencodedPost();
const koa = open.adopt(await startReference('bare-koa'), (it) => it.close());
let database = '';
function keepPath(path: string): void {
  database = path;
}
const daemon = open.adopt(await startPostern({ fill: keepPath }), (it) => it.close());
print('the daemon', await perPost(daemon.pid, daemon.formUrl));
print('a bare Koa that only parses', await perPost(koa.pid, `http://127.0.0.1:${koa.port}/forms.test/contact`));
const posts = readPosts(database);
for (const size of GROUPS) await writeAgain(posts, size);

function print(what: string, microseconds: number): void {
  console.log(`${what}: ${microseconds.toFixed(0)} µs of the processor for a post`);
}

/** User and system time of all threads, µs; after as many posts that warm it up. */
async function perPost(pid: number, url: string): Promise<number> {
  await postExactly(url, post, { count });
  const before = processorSeconds(pid);
  await postExactly(url, post, { count });
  return ((processorSeconds(pid) - before) * 1e6) / count;
}

/** The inserts of the last posts, oldest first. */
function readPosts(path: string): Insert[][] {
  const reading = openForReading(path);
  const newest = reading.prepare<[number], { id: string }>('select id from submissions order by id desc limit ?');
  const rows = ROWS.map(([table, condition]) => ({
    table,
    found: reading.prepare<[string], Record<string, unknown>>(`select * from ${table} where ${condition}`),
  }));
  const posts = newest
    .all(POSTS)
    .map(({ id }) => [
      insertOf('submissions_to_index', { submission: id }),
      ...rows.flatMap(({ table, found }) => found.all(id).map((row) => insertOf(table, row))),
    ]);
  reading.close();
  return posts.reverse();
}

function insertOf(table: string, row: Readonly<Record<string, unknown>>): Insert {
  const columns = Object.keys(row);
  const sql = `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`;
  return { sql, values: Object.values(row) };
}

/** Writes the rows in transactions of so many posts. A counter and the look at the destination are not among them. */
async function writeAgain(posts: readonly (readonly Insert[])[], size: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-bench-'));
  const path = join(folder, 'postern.db');
  await (await createStore(`sqlite:${path}`)).close();
  const writing = openForWriting(path);
  const statements = new Map(posts.flat().map(({ sql }) => [sql, writing.prepare(sql)]));
  const begin = writing.prepare('begin immediate');
  const commit = writing.prepare('commit');
  const times: number[] = [];
  for (let at = 0; at < posts.length; at += size) {
    const before = process.cpuUsage();
    begin.run();
    for (const { sql, values } of posts.slice(at, at + size).flat()) statements.get(sql)?.run(...values);
    commit.run();
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / size);
  }
  print(`better-sqlite3 alone, the same rows, ${size} posts to a commit`, median(times));
  console.log(`  ${(statSync(`${path}-wal`).size / posts.length / 1024).toFixed(1)} KiB of its log for each`);
  writing.close();
  await rm(folder, { recursive: true });
}
