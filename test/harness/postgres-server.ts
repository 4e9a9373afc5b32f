/** Global set-up of the suite `peers-postgres`: one server for all its files, each test in a database of its own. */
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { createStore } from '../../src/store/database.ts';
import { startPostgres } from './postgres.ts';
import { databaseUrl, TEMPLATE } from './store.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgres: string;
  }
}

/** Starts the server, tells the tests where it is, and answers how to stop it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  // A database for each test: waiting for a disk would take most of the time, and no test here cuts the power.
  const server = await startPostgres(['full_page_writes=off'], { inMemory: true });
  await migrateTemplate(server.url);
  project.provide('postgres', server.url);
  return () => server.close();
}

async function migrateTemplate(server: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query(`CREATE DATABASE ${TEMPLATE}`);
  await client.end();
  const store = await createStore(databaseUrl(server, TEMPLATE));
  await store.close();
}
