/** A store of its own for one test: SQLite in a temporary folder, or, where the peers suite says so, a fresh PostgreSQL database. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { createStore } from '../../src/store/database.ts';
import type { Store } from '../../src/store/store.ts';

/** Address of a PostgreSQL server whose user may create databases; unset: SQLite. */
const SERVER = process.env['POSTERN_TEST_POSTGRES'];

/** Where a new store may live; nothing is there yet. It is gone when the test is over. */
export async function freshDatabase(): Promise<string> {
  return SERVER === undefined ? `sqlite:${join(await temporaryFolder(), 'postern.db')}` : createDatabase(SERVER);
}

/** The same with all migrations done, which is most of the work of opening a store. */
export async function migratedDatabase(): Promise<string> {
  if (SERVER !== undefined) return createDatabase(SERVER, TEMPLATE);
  template ??= await migratedFile();
  const url = await freshDatabase();
  await writeFile(url.slice('sqlite:'.length), template, { mode: 0o600 });
  return url;
}

/** What `migratedDatabase` copies on PostgreSQL. */
export const TEMPLATE = 'migrated';

/** What it copies on SQLite: the bytes of the file. */
let template: Buffer | undefined;

async function migratedFile(): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-test-'));
  try {
    const path = join(folder, 'postern.db');
    const store = await createStore(`sqlite:${path}`);
    await store.close();
    return await readFile(path);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function createDatabase(server: string, from = 'template1'): Promise<string> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  await onServer(`CREATE DATABASE ${name} TEMPLATE ${from}`);
  onTestFinished(() => onServer(`DROP DATABASE ${name} WITH (FORCE)`));
  return databaseUrl(server, name);
}

/** The address of another database of the same server. */
export function databaseUrl(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

export interface TestStore extends Store {
  /** As `database.url` names it. */
  readonly url: string;
}

/** An empty store. On SQLite the next test of the file gets the same one, emptied: to open one costs more than most tests do. */
export async function openTestStore(): Promise<TestStore> {
  if (SERVER !== undefined) {
    const url = await migratedDatabase();
    const store = await createStore(url);
    onTestFinished(() => store.close());
    return { ...store, url };
  }
  const lent = idle.pop() ?? (await openIdleStore());
  let over: 'returned' | 'closed' | undefined;
  onTestFinished(async () => {
    if (over !== undefined) return;
    over = 'returned';
    await lent.empty();
    idle.push(lent);
  });
  return {
    ...lent.store,
    url: lent.url,
    // What a test leaves running writes nothing into the store of another.
    write: (unit) => (over === undefined ? lent.store.write(unit) : new Promise(() => undefined)),
    close() {
      over = 'closed';
      return lent.close();
    },
  };
}

interface IdleStore {
  readonly store: Store;
  readonly url: string;
  /** Takes all rows out, after all writes that are under way. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

const idle: IdleStore[] = [];

/** For the end of a test file. */
export async function closeIdleStores(): Promise<void> {
  for (const { close } of idle.splice(0)) await close();
}

async function openIdleStore(): Promise<IdleStore> {
  template ??= await migratedFile();
  const folder = await mkdtemp(join(tmpdir(), 'postern-test-'));
  await writeFile(join(folder, 'postern.db'), template, { mode: 0o600 });
  const url = `sqlite:${join(folder, 'postern.db')}`;
  const store = await createStore(url);
  const tables = await store.read.introspection.getTables();
  const own = tables.filter(({ name }) => !name.startsWith('submission_index'));
  const texts = ['pragma defer_foreign_keys = on', ...own.map(({ name }) => `delete from "${name}"`)];
  const unit = texts.map((text) => ({ definition: () => sql.raw(text), values: {} }));
  return {
    store,
    url,
    async empty() {
      await store.write(unit);
    },
    async close() {
      await store.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** A folder that is removed when the test is over. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

async function onServer(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: SERVER });
  await client.connect();
  await client.query(sql);
  await client.end();
}
