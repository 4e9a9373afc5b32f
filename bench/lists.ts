/**
 * `npm run bench:lists [-- --rows N --database URL]`: fills a new database with a million submissions and deliveries, reads every
 * list 20 times, and prints the medians. Without `--database` it is SQLite in a temporary folder.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createStore } from '../src/store/database.ts';
import { fillDatabase } from './lib/fill.ts';
import { LISTS } from './lib/lists.ts';
import { median } from './lib/rounds.ts';

const ROUNDS = 20;

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '1000000' }, database: { type: 'string' } },
});
const folder = await mkdtemp(join(tmpdir(), 'postern-lists-'));
const url = values.database ?? `sqlite:${join(folder, 'postern.db')}`;
try {
  const began = performance.now();
  const isThere = url.startsWith('sqlite:') && existsSync(url.slice('sqlite:'.length));
  if (!isThere) await fillDatabase(url, Number(values.rows));
  console.error(`filled in ${Math.round((performance.now() - began) / 1000)} s`);
  const store = await createStore(url);
  for (const [name, mostMs, read] of LISTS) {
    await read(store);
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      await read(store);
      times.push(performance.now() - start);
    }
    const found = median(times);
    if (found > mostMs) process.exitCode = 1;
    console.log(`${name.padEnd(44)} ${found.toFixed(1).padStart(7)} ms of ${mostMs}`);
  }
  await store.close();
} finally {
  await rm(folder, { recursive: true, force: true });
}
