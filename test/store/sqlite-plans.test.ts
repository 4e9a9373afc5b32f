/** What the lists of the API ask the database reads no large table from one end to the other, however it is filtered. */
import Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { LARGE, LISTS } from '../../bench/lib/lists.ts';
import { createCompiler } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import type { Tables } from '../../src/store/tables.ts';
import { fillDatabase } from '../../bench/lib/fill.ts';
import { createStore } from '../../src/store/database.ts';
import { startHttp } from '../harness/http.ts';
import { freshDatabase } from '../harness/store.ts';

/** The newest rows of a table, however it is filled: SQLite walks along its key until it has them. */
const NEWEST = /^select \* from "\w+" where 1 = 1 order by id desc limit \?$/;

test('no list scans a large table', async () => {
  const url = await freshDatabase();
  await fillDatabase(url, 300);
  const inner = await createStore(url);
  const database = new Database(url.slice('sqlite:'.length), { readonly: true });
  onTestFinished(async () => {
    database.close();
    await inner.close();
  });
  const asked: string[] = [];
  const read = new Kysely<Tables>({
    dialect: new SqliteDialect({ database }),
    log: ({ query: { sql } }) => void asked.push(sql),
  });
  const compile = createCompiler(read, 'sqlite');
  const store: Store = {
    ...inner,
    read,
    select(statement) {
      asked.push(compile(statement.definition).sql);
      return inner.select(statement);
    },
  };
  const http = await startHttp({ store });
  for (const [name, , path] of LISTS) {
    asked.length = 0;
    const { status, text } = await http.request(path(0), { local: true });
    expect([name, status], text).toEqual([name, 200]);
    for (const sql of new Set(asked.filter((each) => !NEWEST.test(each)))) {
      const plan = database.prepare<unknown[], { detail: string }>(`explain query plan ${sql}`);
      const steps = plan.all(...Array.from(sql.matchAll(/\?/g), () => null)).map(({ detail }) => detail);
      const scans = steps.filter((step) => new RegExp(`^SCAN (?:${LARGE})(?: |$)`).test(step));
      expect([name, sql, scans]).toEqual([name, sql, []]);
    }
  }
});
