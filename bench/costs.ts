/**
 * `npm run bench:costs [-- --messages N]`: what a message costs the daemon and PostgreSQL, as `bench/simulate` wants to know it,
 * in YAML: processor time, bytes of WAL, dead rows, what is kept, what retention and VACUUM cost, and how many posts some
 * numbers of clients got accepted, which the simulation is compared with. Autovacuum and checkpoints are off meanwhile.
 */
import { randomBytes } from 'node:crypto';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Document, isMap, isScalar, visit } from 'yaml';
import { serverSchema } from '../src/config/schema-server.ts';
import { buildSnapshot } from '../src/config/snapshot.ts';
import { retentionJobs } from '../src/daemon/jobs.ts';
import { forgetOldEvents } from '../src/events/counts.ts';
import { systemClock } from '../src/lib/clock.ts';
import { sweepInbound } from '../src/smtp/retention.ts';
import { createStore } from '../src/store/database.ts';
import { startPostgres, type Postgres } from '../test/harness/postgres.ts';
import { until } from '../test/harness/child.ts';
import { Meter } from './lib/meter.ts';
import { postExactly } from './lib/post-exactly.ts';
import { FORWARDED, startPostern, type Daemon } from './lib/postern.ts';
import { emailPost, urlencodedPost } from './lib/posts.ts';
import { processorSeconds, scheduled } from './lib/processor.ts';
import { median } from './lib/rounds.ts';
import { SENDER, writeSignedMail, type SignedMail } from './lib/signed-mail.ts';
import { startSmtpSink, type SmtpSink } from './lib/smtp-sink.ts';
import { sendBySmtp } from './lib/smtp-source.ts';

const { values } = parseArgs({ options: { messages: { type: 'string', default: '2000' } } });
const count = Number(values.messages);
const DESTINATION = 'owner.test';
/** `retention`: message_bodies, events, submissions; then all is forgotten. */
const KEPT_DAYS = [7, 30, 90];
const DAY_MS = 86_400_000;
/** Clients at once, of the loads that the simulation is compared with. */
const CLIENTS = [2, 8, 32, 64];
const ROUNDS = 3;
/** A session that has nothing to do says within ten seconds what it has done (pgstat.c). */
const STATISTICS_MS = 11_000;
const SETTINGS = ['autovacuum=off', 'checkpoint_timeout=1d', 'max_wal_size=16GB', 'track_wal_io_timing=on'];

await using open = new AsyncDisposableStack();
const postgres = open.adopt(await startPostgres(SETTINGS), (it) => it.close());
const sink = open.adopt(await startSmtpSink(), (it) => it.close());
const mail = open.adopt(await writeSignedMail(incompressible()), (it) => it.remove());
const kinds = {
  post: await measureKind('post', { postgres, sink, mail }),
  email: await measureKind('email', { postgres, sink, mail }),
  inbound: await measureKind('inbound', { postgres, sink, mail }),
};
const measured = {
  measured: {
    on: new Date().toISOString().slice(0, 10),
    processor: cpus()[0]?.model,
    cores: cpus().length,
    messages: count,
  },
  kinds,
  ...(await measureLoads(postgres)),
};
console.log(compact(rounded(measured)).trimEnd());

type Kind = 'post' | 'email' | 'inbound';
interface Parts {
  readonly postgres: Postgres;
  readonly sink: SmtpSink;
  readonly mail: SignedMail;
}

async function measureKind(kind: Kind, { postgres, sink, mail }: Parts) {
  console.error(`${kind} …`);
  await using open = new AsyncDisposableStack();
  const database = await postgres.createDatabase(kind);
  const options = { database, deliverTo: sink.port, takesMail: true, records: mail.records };
  const running = open.use(new AsyncDisposableStack());
  const daemon = running.adopt(await startPostern(options), (it) => it.close());
  const client = new pg.Client(database);
  await client.connect();
  open.defer(() => client.end());
  const meter = new Meter(daemon, client, postgres);
  const accept = await sender(kind, daemon, mail);

  await accept(count / 4);
  await until('the first are delivered', async () => (await waiting(client)) === 0, 120_000);
  await daemon.hold(DESTINATION);
  const accepted = await meter.during(count, async () => {
    await accept(count);
    await until('all is indexed', async () => (await rowsOf(client, 'submissions_to_index')) === 0, 120_000);
  });
  const first = sink.count();
  const delivered = await meter.during(count, async () => {
    await daemon.release(DESTINATION);
    await sink.untilCount(first + count);
    await until('the results are written', async () => (await waiting(client)) === 0);
  });
  const vacuum = await meter.vacuum();
  const everything = (count * 5) / 4;
  await running.disposeAsync();
  const sizes = [await sizesOf(client)];
  const forgetting = { all_us: 0, database_us: 0, wal_bytes: 0 };
  for (const days of KEPT_DAYS) {
    const cost = await meter.during(everything, () => forget(database, days + 1), process.pid);
    for (const name of ['all_us', 'database_us', 'wal_bytes'] as const) forgetting[name] += cost[name];
    sizes.push(await sizesOf(client));
  }
  const tables = tablesOf(sizes, everything);
  return { accept: accepted, deliver: delivered, forget: forgetting, vacuum, tables };
}

/** What tables of each message take while nothing of it is forgotten, and after each of KEPT_DAYS; what is the same before and after all is not its. */
function tablesOf(sizes: readonly Map<string, Size>[], messages: number) {
  const [first, ...later] = sizes;
  const last = later.pop();
  const tables = [...(first ?? [])].map(([name, size]) => {
    const end = last?.get(name);
    const stages = [size, ...later.map((each) => each.get(name))];
    function each(what: 'rows' | 'heap' | 'index'): number[] {
      return stages.map((stage) => ((stage?.[what] ?? 0) - (end?.[what] ?? 0)) / messages);
    }
    return [
      name,
      {
        rows: each('rows'),
        heap_bytes: each('heap'),
        index_bytes: each('index'),
        dead_rows: (end?.dead ?? 0) / messages,
      },
    ] as const;
  });
  return Object.fromEntries(tables.filter(([, { rows, dead_rows }]) => Number(rows[0]) > 0.01 || dead_rows > 0.1));
}

/** What sends so many of a kind. */
async function sender(kind: Kind, daemon: Daemon, mail: SignedMail): Promise<(count: number) => Promise<unknown>> {
  switch (kind) {
    case 'post':
      return (count) => postExactly(daemon.formUrl, urlencodedPost(), { count });
    case 'email': {
      const post = emailPost(await daemon.authorization(), `office@${DESTINATION}`);
      const url = `http://127.0.0.1:${daemon.port}/email/send`;
      return (count) => postExactly(url, post, { count });
    }
    case 'inbound': {
      const options = { port: daemon.smtpPort, from: SENDER, to: FORWARDED, messageFile: mail.path };
      return (count) => sendBySmtp({ ...options, count, sessions: 50 });
    }
  }
}

async function rowsOf(client: pg.Client, table: string): Promise<number> {
  const { rows } = await client.query<{ count: number }>(`select count(*)::int as count from ${table}`);
  return rows[0]?.count ?? Number.NaN;
}

/** Deliveries that are not at their end. */
function waiting(client: pg.Client): Promise<number> {
  return rowsOf(client, 'deliveries where settled_at is null');
}

/** As attachments and images are, to a database that compresses: 70 lines of 70 characters. */
function incompressible(): string {
  const lines = Array.from({ length: 70 }, () => randomBytes(52).toString('base64').slice(0, 70));
  return `${lines.join('\n')}\n`;
}

interface Size {
  readonly rows: number;
  readonly heap: number;
  readonly index: number;
  /** Versions of rows that died since the table was made, and that indexes pointed to, so that VACUUM has to remove them. */
  readonly dead: number;
}

/** Of all tables, without what is dead, bytes. */
async function sizesOf(client: pg.Client): Promise<Map<string, Size>> {
  await sleep(STATISTICS_MS);
  await client.query('vacuum full analyze');
  const { rows } = await client.query<{ name: string; rows: number; heap: string; index: string; dead: string }>(
    `select coalesce(parent.relname, stat.relname) as name, sum(greatest(pg_class.reltuples, 0))::int as rows,
        sum(pg_table_size(relid)) as heap, sum(pg_indexes_size(relid)) as index,
        sum(n_tup_upd - n_tup_hot_upd + n_tup_del) as dead
      from pg_stat_user_tables stat join pg_class on pg_class.oid = relid
        left join pg_inherits on inhrelid = relid left join pg_class parent on parent.oid = inhparent
      where pg_class.relkind = 'r' group by 1`,
  );
  return new Map(
    rows.map(({ name, rows, heap, index, dead }) => [
      name,
      { rows, heap: Number(heap), index: Number(index), dead: Number(dead) },
    ]),
  );
}

/** Runs what forgets, as if it were so many days later. */
async function forget(database: string, days: number): Promise<void> {
  const clock = { ...systemClock, now: () => Date.now() + days * DAY_MS };
  const server = serverSchema.parse({ server: { hostname: 'mail.postern.test', operator: 'ops@postern.test' } });
  const snapshot = buildSnapshot({ server, projects: [] });
  const store = await createStore(database);
  const parts = { store, clock, config: () => server, snapshot: () => snapshot };
  try {
    for (const job of Object.values(retentionJobs(parts))) await job();
    await sweepInbound(parts)();
    await forgetOldEvents({ ...parts, counts: { rollUp: () => Promise.resolve() } });
  } finally {
    await store.close();
  }
}

/** Posts of some numbers of clients to one daemon that delivers nothing. */
async function measureLoads(postgres: Postgres) {
  console.error('loads …');
  await using open = new AsyncDisposableStack();
  const database = await postgres.createDatabase('loads');
  const daemon = open.adopt(await startPostern({ database }), (it) => it.close());
  const client = new pg.Client(database);
  await client.connect();
  open.defer(() => client.end());
  const meter = new Meter(daemon, client, postgres);
  await postExactly(daemon.formUrl, urlencodedPost(), { count });
  await sleep(STATISTICS_MS);
  const measured = new Map<number, Record<string, number>[]>(CLIENTS.map((clients) => [clients, []]));
  for (let round = 0; round < ROUNDS; round++) for (const [clients, loads] of measured) loads.push(await load(clients));
  const loads = [...measured].map(([clients, rounds]) => {
    const names = Object.keys(rounds[0] ?? {});
    return {
      clients,
      ...Object.fromEntries(names.map((name) => [name, median(rounds.map((each) => each[name] ?? NaN))])),
    };
  });
  return { loads };

  async function load(clients: number): Promise<Record<string, number>> {
    const before = { ...(await syncs(client)), poster: processorSeconds(process.pid) };
    const [main, server] = [scheduled(daemon.pid), scheduled(postgres.pid, { family: true })];
    let seconds = 0;
    let [stretch, database_stretch] = [1, 1];
    const used = await meter.during(count, async () => {
      seconds = await postExactly(daemon.formUrl, urlencodedPost(), { count, connections: clients });
      stretch = stretchOf(main, scheduled(daemon.pid));
      database_stretch = stretchOf(server, scheduled(postgres.pid, { family: true }));
    });
    const poster_us = ((processorSeconds(process.pid) - before.poster) * 1e6) / count;
    await sleep(STATISTICS_MS);
    const after = await syncs(client);
    return {
      ...used,
      poster_us,
      stretch,
      database_stretch,
      posts_per_second: count / seconds,
      fsyncs: (after.count - before.count) / count,
      fsync_ms: (after.ms - before.ms) / (after.count - before.count),
    };
  }
}

type Scheduled = ReturnType<typeof scheduled>;

/** How much longer than its processor time something took, because others used the processors. */
function stretchOf(before: Scheduled, after: Scheduled): number {
  return 1 + (after.waited - before.waited) / (after.ran - before.ran);
}

async function syncs(client: pg.Client): Promise<{ readonly count: number; readonly ms: number }> {
  const { rows } = await client.query<{ count: string; ms: number }>(
    'select wal_sync as count, wal_sync_time as ms from pg_stat_wal',
  );
  return { count: Number(rows[0]?.count), ms: rows[0]?.ms ?? Number.NaN };
}

/** YAML with what is short on one line. */
function compact(value: unknown): string {
  const document = new Document(value);
  visit(document, {
    Map(_, node) {
      node.flow = node.items.every(({ value }) => isScalar(value));
    },
    Seq(_, node) {
      node.flow = !node.items.some(isMap);
    },
  });
  return document.toString({ lineWidth: 128 });
}

/** Figures have no more digits than they are worth. */
function rounded(value: unknown): unknown {
  if (typeof value === 'number') return Number(value.toPrecision(3));
  if (Array.isArray(value)) return value.map(rounded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, rounded(inner)]));
}
