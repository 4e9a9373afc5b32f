/** Global set-up of the suite `peers-postgres`: one server for all its files, each test in a database of its own. */
import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgres: string;
  }
}

/** Starts the server, tells the tests where it is, and answers how to stop it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  // A database for each test: waiting for the disk would take most of the time, and no test here cuts the power.
  const server = await startPostgres(['fsync=off', 'full_page_writes=off']);
  project.provide('postgres', server.url);
  return () => server.close();
}
