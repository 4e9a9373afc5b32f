/**
 * Run as a program, with the system calls of test/harness/fail-sync.c: writes to a store while syncs fail, prints what
 * each write was answered, and is killed before anything else is written.
 */
import { sql } from 'kysely';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeFileSync } from 'node:fs';
import { codeOf } from '../../src/lib/errors.ts';
import { createStore } from '../../src/store/database.ts';
import { query } from '../../src/store/statement.ts';

const [, , path = '', how = ''] = process.argv;
const insert = query<{ name: string }>(
  (value) => sql`insert into secrets (name, value, created_at) values (${value('name')}, ${'x'.repeat(20_000)}, 1)`,
);

const store = await createStore(`sqlite:${path}`);
// A reader, as a daemon has.
await store.read.selectFrom('secrets').select('name').execute();
await store.write([insert({ name: 'before' })]);
writeFileSync(process.env['FAIL_SYNC'] ?? '', how);
const answer = await store.write([insert({ name: 'refused' })]).then(
  () => 'written',
  (error: unknown) => codeOf(error) ?? 'no code',
);
process.stdout.write(`${answer}\n`);
await sleep(100);
process.kill(process.pid, 'SIGKILL');
