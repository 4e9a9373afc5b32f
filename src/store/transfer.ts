/**
 * Copies a whole database from SQLite to PostgreSQL or back, while no daemon uses either. The target is marked as unfinished from the
 * first row to the end of the check, so that no daemon starts on it, and has up to where each table is copied: what was
 * interrupted goes on there. At the end each table is compared by its number of rows and a checksum of their content.
 */
import { createHash } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { Kysely, PostgresDialect, sql, SqliteDialect } from 'kysely';
import { systemClock } from '../lib/clock.ts';
import { messageOf, PassingError, UserError } from '../lib/errors.ts';
import { createStore, databaseFile, migrationNames, UNFINISHED_COPY } from './database.ts';
import { migrationsFor } from './migrations/index.ts';
import { connectClient, createMigrationPool } from './postgres-connection.ts';
import { holdLock, openForReading, openForWriting } from './sqlite-connection.ts';
import type { Dialect, Value } from './statement.ts';

export interface Transfer {
  /** As `database.url` has them; one is SQLite, the other PostgreSQL. */
  readonly from: string;
  readonly to: string;
  readonly onProgress: (progress: Progress) => void;
}

export interface Progress {
  readonly step: 'copying' | 'checking';
  /** Rows. */
  readonly done: number;
  readonly total: number;
}

export interface Transferred {
  readonly tables: number;
  readonly rows: number;
  /** Rows that an earlier try had copied. */
  readonly resumed: number;
}

type Row = Record<string, Value>;
type Database = Kysely<Record<string, Row>>;

interface Side {
  readonly dialect: Dialect;
  readonly db: Database;
}

interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  readonly key: readonly string[];
  readonly parents: readonly string[];
}

/** Rows of a batch, which is one commit: pieces of files have up to 256 KiB. */
const BATCH = 200;
/** Of the target, while it is unfinished: up to which key each table is copied, and from where. */
const PROGRESS = 'unfinished_copy';
/** In the place of a table's name: which database is copied. */
const SOURCE = '';

/** Copies the database. Throws UserError where that cannot be done, or what was copied is not what was there. */
export async function transferDatabase({ from, to, onProgress }: Transfer): Promise<Transferred> {
  const [fromFile, toFile] = [databaseFile(from), databaseFile(to)];
  const file = fromFile ?? toFile;
  if (file === undefined || (fromFile === undefined) === (toFile === undefined)) {
    throw new UserError('One of the databases must be SQLite and the other PostgreSQL');
  }
  if (fromFile !== undefined && !existsSync(fromFile)) throw new UserError(`There is no database ${fromFile}`);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  await prepareTarget(to);
  const lock = lockStopped(file);
  const sides: Side[] = [];
  try {
    const source = await open(from, 'source');
    sides.push(source);
    const target = await open(to, 'target');
    sides.push(target);
    for (const { dialect, db } of sides) if (dialect === 'postgres') await refuseOthers(db);
    await requireSchema(source, from);
    const tables = await tablesOf(source.dialect === 'sqlite' ? source.db : target.db);
    const resumed = await begin({ source, target, tables });
    const total = await countAll(source.db, tables);
    const rows = await copyAll({ source, target, tables }, { resumed, total, onProgress });
    await compareAll({ source, target, tables }, { total, onProgress });
    await finish(target.db);
    return { tables: tables.length, rows, resumed };
  } finally {
    for (const { db } of sides) await db.destroy();
    lock.close();
    if (toFile !== undefined) giveToService(toFile);
  }
}

/** Keeps daemons from the file. Throws PassingError where one has it. */
function lockStopped(file: string): ReturnType<typeof holdLock> {
  try {
    return holdLock(file);
  } catch (error) {
    if (!(error instanceof PassingError)) throw error;
    throw new PassingError(`A daemon is using ${file}. Stop it first: systemctl stop postern`, { cause: error });
  }
}

/** Makes the tables of a new target. Throws UserError where there is something else. */
async function prepareTarget(url: string): Promise<void> {
  const file = databaseFile(url);
  if (file === undefined || existsSync(file)) {
    const { dialect, db } = await open(url, 'target');
    try {
      const done = await migrationNames(db, dialect);
      if (done.includes(UNFINISHED_COPY) || isCurrent(done, dialect)) return;
      const tables = await db.introspection.getTables();
      if (done.length > 0 || tables.length > 0) throw notEmpty();
    } finally {
      await db.destroy();
    }
  }
  await (await createStore(url, { copy: false })).close();
}

function notEmpty(): UserError {
  return new UserError('The target is not empty: name a new database');
}

async function open(url: string, role: 'source' | 'target'): Promise<Side> {
  const file = databaseFile(url);
  if (file === undefined) {
    // In words of its own: whether the server is there, and may be used.
    await connectClient(url).then(
      (client) => client.end(),
      (error: unknown) => {
        throw new PassingError(`The PostgreSQL database cannot be used: ${messageOf(error)}`, { cause: error });
      },
    );
    return {
      dialect: 'postgres',
      db: new Kysely({ dialect: new PostgresDialect({ pool: createMigrationPool(url) }) }),
    };
  }
  const database = role === 'source' ? openForReading(file) : openForWriting(file);
  return { dialect: 'sqlite', db: new Kysely({ dialect: new SqliteDialect({ database }) }) };
}

/** So often, and with this pause in ms, it is asked who else is connected: a connection that was closed ends a moment later. */
const [LOOKS, PAUSE_MS] = [20, 100];

/** Throws UserError where anybody else is connected: a daemon, most likely. */
async function refuseOthers(db: Database): Promise<void> {
  let others = 0;
  for (let look = 0; look < LOOKS; look++) {
    const { rows } = await sql<{ count: number }>`select count(*) as count from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`.execute(db);
    others = rows[0]?.count ?? 0;
    if (others === 0) return;
    await systemClock.sleep(PAUSE_MS);
  }
  throw new PassingError(
    `The PostgreSQL database is in use (connections: ${others}). Stop all daemons and other programs that use it; pg_stat_activity lists them`,
  );
}

async function requireSchema({ dialect, db }: Side, url: string): Promise<void> {
  const done = await migrationNames(db, dialect);
  if (done.includes(UNFINISHED_COPY)) throw new UserError('The source is itself an unfinished copy');
  if (isCurrent(done, dialect)) return;
  const what = databaseFile(url) ?? 'the PostgreSQL database';
  throw new UserError(
    `The schema of ${what} is from another version (${done.at(-1) ?? 'none'}): start and stop the daemon of this version on it first`,
  );
}

function isCurrent(done: readonly string[], dialect: Dialect): boolean {
  return done.join() === Object.keys(migrationsFor(dialect)).toSorted().join();
}

/** All tables, parents before children; SQLite tells, and the other has the same, but for the search index, which is made anew. */
async function tablesOf(sqlite: Database): Promise<Table[]> {
  const { rows } = await sql<{ name: string }>`select name from sqlite_master where type = 'table'
    and name not like 'sqlite_%' and name not like 'kysely_%' and name not like 'submission_index%'
    and name not in ('submission_documents', 'submissions_to_index', ${PROGRESS}) order by name`.execute(sqlite);
  const left: Table[] = [];
  for (const { name } of rows) {
    const info = await sql<{ name: string; pk: number }>`select name, pk from pragma_table_info(${name})`.execute(
      sqlite,
    );
    const keys = info.rows.filter(({ pk }) => pk > 0).toSorted((one, other) => one.pk - other.pk);
    const foreign = await sql<{ table: string }>`select "table" from pragma_foreign_key_list(${name})`.execute(sqlite);
    left.push({
      name,
      columns: info.rows.map((column) => column.name).toSorted(),
      key: keys.map((column) => column.name),
      parents: foreign.rows.map(({ table }) => table),
    });
  }
  const ordered: Table[] = [];
  while (left.length > 0) {
    const free = left.findIndex(({ parents }) => !parents.some((parent) => left.some(({ name }) => name === parent)));
    if (free < 0) throw new Error('tables refer to each other in a circle');
    ordered.push(...left.splice(free, 1));
  }
  return ordered;
}

interface Copying {
  readonly source: Side;
  readonly target: Side;
  readonly tables: readonly Table[];
}

/** Marks the target as unfinished, or finds that it is, from this source. Answers how many rows it has. */
async function begin({ source, target, tables }: Copying): Promise<number> {
  const { db } = target;
  const identity = await identityOf(source.db);
  const isBegun = (await migrationNames(db, target.dialect)).includes(UNFINISHED_COPY);
  if (isBegun) {
    const known = await db.selectFrom(PROGRESS).selectAll().where('name', '=', SOURCE).executeTakeFirst();
    if (known?.['value'] === identity) return countAll(db, tables);
    throw new UserError('The target has an unfinished copy of another database: name a new one');
  }
  if ((await countAll(db, tables)) > 0) throw notEmpty();
  await db.transaction().execute(async (transaction) => {
    await sql`create table ${sql.table(PROGRESS)} (name text primary key, value text not null)`.execute(transaction);
    await transaction.insertInto(PROGRESS).values({ name: SOURCE, value: identity }).execute();
    await transaction.insertInto('kysely_migration').values({ name: UNFINISHED_COPY, timestamp: '' }).execute();
  });
  return 0;
}

/** By which a database is known again: its secrets are its own, and are made once. */
async function identityOf(db: Database): Promise<string> {
  const rows = await db.selectFrom('secrets').selectAll().execute();
  const texts = rows.map((row) => JSON.stringify([row['name'], row['value']])).toSorted();
  return createHash('sha256').update(texts.join('\n')).digest('hex');
}

async function countAll(db: Database, tables: readonly Table[]): Promise<number> {
  let sum = 0;
  for (const { name } of tables) sum += await countRows(db, name);
  return sum;
}

async function countRows(db: Database, table: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(db);
  return rows[0]?.count ?? 0;
}

/** The rows of a table in the order of its key, as the database sorts it, from behind `after`. */
async function* batchesOf(db: Database, { name, key }: Table, after?: readonly Value[]): AsyncGenerator<Row[]> {
  let last = after;
  for (;;) {
    let query = db.selectFrom(name).selectAll().limit(BATCH);
    for (const column of key) query = query.orderBy(column);
    if (last !== undefined) {
      const columns = sql.join(key.map((column) => sql.ref(column)));
      query = query.where(sql<boolean>`(${columns}) > (${sql.join(last)})`);
    }
    const rows = await query.execute();
    const end = rows.at(-1);
    if (end === undefined) return;
    yield rows.map(withoutNul);
    last = key.map((column) => end[column] ?? null);
  }
}

/** PostgreSQL has no U+0000 in its texts. */
function withoutNul(row: Row): Row {
  for (const [column, value] of Object.entries(row)) {
    if (typeof value === 'string' && value.includes('\0')) row[column] = value.replaceAll('\0', '\uFFFD');
  }
  return row;
}

interface Watched {
  readonly total: number;
  readonly onProgress: Transfer['onProgress'];
}

/** Copies what is not there yet. Answers how many rows there are. */
async function copyAll(
  { source, target, tables }: Copying,
  { resumed, total, onProgress }: Watched & { readonly resumed: number },
): Promise<number> {
  let done = resumed;
  for (const table of tables) {
    const known = await target.db.selectFrom(PROGRESS).selectAll().where('name', '=', table.name).executeTakeFirst();
    const after = known === undefined ? undefined : (JSON.parse(String(known['value'])) as Value[]);
    for await (const rows of batchesOf(source.db, table, after)) {
      const value = JSON.stringify(table.key.map((column) => rows.at(-1)?.[column]));
      await target.db.transaction().execute(async (transaction) => {
        await transaction.insertInto(table.name).values(rows).execute();
        await transaction
          .insertInto(PROGRESS)
          .values({ name: table.name, value })
          .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
          .execute();
      });
      done += rows.length;
      onProgress({ step: 'copying', done, total });
    }
  }
  return done;
}

/** Throws UserError where a table is not the same on both sides. */
async function compareAll({ source, target, tables }: Copying, { total, onProgress }: Watched): Promise<void> {
  let done = 0;
  function count(rows: number): void {
    done += rows;
    onProgress({ step: 'checking', done, total: 2 * total });
  }
  for (const table of tables) {
    const wanted = await checksum(source.db, table, count);
    const found = await checksum(target.db, table, count);
    if (wanted === found) continue;
    throw new UserError(
      `The table ${table.name} differs between the databases: the source was changed since the copy began. ` +
        'Delete the target, and start again with a new one',
    );
  }
}

/** Number and content of the rows, in whatever order they come. */
async function checksum(db: Database, table: Table, onRows: (count: number) => void): Promise<string> {
  let sum = 0n;
  let count = 0;
  for await (const rows of batchesOf(db, table)) {
    for (const row of rows) {
      const texts = table.columns.map((column) => textOf(row[column]));
      sum += BigInt(`0x${createHash('sha256').update(JSON.stringify(texts)).digest('hex')}`);
    }
    count += rows.length;
    onRows(rows.length);
  }
  return `${count} ${sum}`;
}

function textOf(value: Value | undefined): unknown {
  return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('base64') } : value;
}

/** From now on daemons start on it. */
async function finish(db: Database): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await sql`drop table ${sql.table(PROGRESS)}`.execute(transaction);
    await sql`insert into submissions_to_index select id from submissions`.execute(transaction);
    await transaction.deleteFrom('kysely_migration').where('name', '=', UNFINISHED_COPY).execute();
  });
}

/** The service writes it, and root has copied it. */
function giveToService(file: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(dirname(file));
  for (const path of [file, `${file}-wal`, `${file}-shm`, `${file}.lock`]) {
    if (!existsSync(path)) continue;
    chmodSync(path, 0o600);
    chownSync(path, uid, gid);
  }
}
