/** A store of its own for one test: SQLite in a temporary folder, or, where the peers suite says so, a fresh PostgreSQL database. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { createStore } from '../../src/store/database.ts';
import type { Store } from '../../src/store/store.ts';

/** Address of a PostgreSQL server whose user may create databases; unset: SQLite. */
const SERVER = process.env['POSTERN_TEST_POSTGRES'];

/** Where a new store may live. It is gone when the test is over. */
export async function freshDatabase(): Promise<string> {
  if (SERVER === undefined) {
    const folder = await temporaryFolder();
    return `sqlite:${join(folder, 'postern.db')}`;
  }
  const name = `test_${randomBytes(8).toString('hex')}`;
  await onServer(`CREATE DATABASE ${name}`);
  onTestFinished(() => onServer(`DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(SERVER);
  url.pathname = `/${name}`;
  return url.href;
}

/** An open store, closed when the test is over. */
export async function openTestStore(): Promise<Store> {
  const store = await createStore(await freshDatabase());
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
