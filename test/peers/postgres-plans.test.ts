/** What the lists of the API ask PostgreSQL reads no large table from one end to the other, however it is filtered. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { fillDatabase } from '../../bench/lib/fill.ts';
import { LARGE, LISTS } from '../../bench/lib/lists.ts';
import { createStore } from '../../src/store/database.ts';
import { until } from '../harness/child.ts';
import { startHttp } from '../harness/http.ts';
import { startPostgres } from '../harness/postgres.ts';

/** The server logs the plan of each statement, and reads a table whole only where no index serves. */
const SETTINGS = [
  'session_preload_libraries=auto_explain',
  'auto_explain.log_min_duration=0',
  'enable_seqscan=off',
  'enable_bitmapscan=off',
  'jit=off',
];

test('no list scans a large table', async () => {
  const server = await startPostgres(SETTINGS, { inMemory: true });
  onTestFinished(() => server.close());
  const url = await server.createDatabase('plans');
  await fillDatabase(url, 300);
  const store = await createStore(url);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await store.close();
  });
  const http = await startHttp({ store });
  async function mark(text: string): Promise<void> {
    await client.query(`select '${text}'`);
    await until('the log has it', () => server.log().includes(text));
  }
  for (const [i, [name, , path]] of LISTS.entries()) {
    await mark(`begin ${i}`);
    const { status, text } = await http.request(path(0), { local: true });
    expect([name, status], text).toEqual([name, 200]);
    await mark(`end ${i}`);
    const logged = server.log().split(`begin ${i}`)[1] ?? '';
    const plans = logged.split('Query Text:').slice(1, -1);
    expect(plans.length, name).toBeGreaterThan(0);
    const scans = plans.filter((plan) =>
      new RegExp(`Seq Scan on (?:${LARGE})(?:_until)?(?:_\\d+|_default)?\\b`).test(plan),
    );
    expect([name, scans]).toEqual([name, []]);
  }
});
