/** What PostgreSQL counts of its tables while the queue works. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { createStore } from '../../src/store/database.ts';
import { beginDeliveries, claimDeliveries } from '../../src/store/leases.ts';
import { newMessage } from '../harness/queue.ts';
import { startPostgres } from '../harness/postgres.ts';

const NOW = 1_000_000;
const CLAIM = {
  destination: 'example.test',
  now: NOW,
  owner: 'me',
  until: NOW + 60_000,
  delays: '[100]',
  last_delay: 0,
};
const TOGETHER = 100;
const ROUNDS = 5;

test('that a try begins changes no index of the queue, for most', async () => {
  const server = await startPostgres(['autovacuum=off'], { inMemory: true });
  onTestFinished(() => server.close());
  const store = await createStore(server.url);
  for (let round = 0; round < ROUNDS; round++) {
    const messages = Array.from({ length: TOGETHER }, (_, i) => enqueue(newMessage(`r${i}@example.test`), NOW));
    await Promise.all(messages.map(({ unit }) => store.write(unit)));
    const [{ rows }] = await store.write([claimDeliveries({ ...CLAIM, limit: TOGETHER })]);
    await store.write([beginDeliveries({ ids: rows.map(({ id }) => id), owner: CLAIM.owner })]);
  }
  // What a session counts, it hands in at its end.
  await store.close();
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  onTestFinished(() => client.end());
  const begun = TOGETHER * ROUNDS;
  const count =
    "select n_tup_upd::int as updates, n_tup_hot_upd::int as hot from pg_stat_user_tables where relname = 'deliveries'";
  await expect.poll(async () => (await client.query(count)).rows[0]?.updates).toBe(2 * begun);
  const { rows } = await client.query<{ hot: number }>(count);
  expect((rows[0]?.hot ?? 0) / begun).toBeGreaterThan(0.5);
});
