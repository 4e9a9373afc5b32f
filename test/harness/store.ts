/** A store of its own for one test: SQLite in a temporary folder, or, where the peers suite says so, a fresh PostgreSQL database. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

/** An open store, closed when the test is over. */
export async function openTestStore(): Promise<Store> {
  const store = await createStore(await migratedDatabase());
  onTestFinished(() => store.close());
  return store;
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
