/** A database with as many submissions and deliveries as somebody wants to measure lists with, of some accounts and forms. */
import pg from 'pg';
import { newId } from '../../src/lib/ids.ts';
import { createStore } from '../../src/store/database.ts';
import { indexSome } from '../../src/store/search.ts';
import { openForWriting } from '../../src/store/sqlite-connection.ts';
import type { Value } from '../../src/store/statement.ts';
import { OPERATOR } from '../../src/store/tenants.ts';

type Row = Readonly<Record<string, Value>>;

const BATCH = 5000;
const DAY_MS = 86_400_000;
/** They came in a year, so many of them with each form of the first account. */
const SPAN_MS = 365 * DAY_MS;
const FORMS = Array.from({ length: 40 }, (_, i) => `shop${i % 10}.example/form${i}`);
const NAMES = ['Anna', 'Björn', 'Chiara', 'Dmitri', 'Eva', 'Farid', 'Greta', 'Hana', 'Ivan', 'Jonas', 'Katja', 'Luis'];
const WORDS =
  'cake bread order table friday morning price delivery lemon almond window garden invoice repair room'.split(' ');

/** In one submission of all. */
export const RARE_WORD = 'quixotry';

/** The submission, its notification and its delivery that are number `i` of `count`. */
function rowsAt(i: number, count: number, now: number): Readonly<Record<string, Row>> {
  const at = now - SPAN_MS + Math.floor((SPAN_MS / count) * i);
  const form = FORMS[(i * 7) % FORMS.length] ?? '';
  const domain = form.split('/')[0] ?? '';
  const tenant = i % 10 === 0 ? `ten_other${i % 7}` : OPERATOR;
  const name = NAMES[i % NAMES.length] ?? '';
  const email = `${name.toLowerCase()}.${i}@customer${i % 5000}.example`;
  const text = Array.from({ length: 18 }, (_, n) => WORDS[(i * 31 + n * n * 7) % WORDS.length]).join(' ');
  const message = i === Math.floor(count / 3) ? `${text} ${RARE_WORD}` : `${text} ${i}`;
  const status = i % 25 === 0 ? 'spam' : i % 1000 === 1 ? 'pending' : 'accepted';
  const id = newId('sub', at);
  const msg = newId('msg', at);
  const state = i % 500 === 3 ? 'bounced' : i % 5000 === 7 ? 'deferred' : 'delivered';
  const settled = state === 'deferred' ? null : at + 2000;
  return {
    submissions: {
      id,
      tenant,
      form,
      domain,
      revision: '',
      control: '{}',
      ip: '192.0.2.7',
      user_agent: 'Mozilla/5.0',
      fields: JSON.stringify([
        ['name', `${name} ${i % 977}`],
        ['email', email],
        ['message', message],
      ]),
      referer: '',
      status,
      spam_score: status === 'spam' ? 97 : 2,
      spam_reasons: '[]',
      environment: 'live',
      unread: i > count * 0.9 ? 1 : 0,
      has_files: i % 100 === 0 ? 1 : 0,
      created_at: at,
    },
    submissions_to_index: { submission: id },
    messages: {
      id: msg,
      tenant,
      kind: 'notification',
      submission: id,
      domain,
      source: '{}',
      body: 'dropped',
      size: 2000,
      sender: `forms@${domain}`,
      encoding: '7bit',
      destinations: 1,
      environment: 'live',
      created_at: at,
      expires_at: at + 5 * DAY_MS,
    },
    deliveries: {
      id: newId('dlv', at),
      message: msg,
      tenant,
      recipient: `owner@${domain}`,
      destination: domain,
      state,
      attempts: 1,
      next_attempt_at: state === 'deferred' ? now + DAY_MS : null,
      last_reply: '250 ok',
      begun: 0,
      created_at: at,
      expires_at: at + 5 * DAY_MS,
      settled_at: settled,
      subject: `New submission ${i % 977}`,
    },
  };
}

/** Makes the database at `url`, which must be new, with `count` submissions and deliveries, all of them in the search index. */
export async function fillDatabase(url: string, count: number, now = Date.now()): Promise<void> {
  await (await createStore(url)).close();
  if (url.startsWith('sqlite:')) fillSqlite(url.slice('sqlite:'.length), count, now);
  else await fillPostgres(url, count, now);
  const store = await createStore(url);
  while ((await indexSome(store, BATCH)) > 0);
  await store.close();
  if (url.startsWith('sqlite:')) return;
  const client = new pg.Client(url);
  await client.connect();
  await client.query('vacuum analyze');
  await client.end();
}

function fillSqlite(path: string, count: number, now: number): void {
  const database = openForWriting(path);
  database.pragma('synchronous = OFF');
  const inserts = Object.entries(rowsAt(0, count, now)).map(([table, row]) => {
    const columns = Object.keys(row);
    const marks = columns.map(() => '?').join(', ');
    return [table, database.prepare(`insert into ${table} (${columns.join(', ')}) values (${marks})`)] as const;
  });
  for (let first = 0; first < count; first += BATCH) {
    database.exec('begin');
    for (let i = first; i < Math.min(count, first + BATCH); i++) {
      const rows = rowsAt(i, count, now);
      for (const [table, insert] of inserts) insert.run(...Object.values(rows[table] ?? {}));
    }
    database.exec('commit');
  }
  database.close();
}

async function fillPostgres(url: string, count: number, now: number): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('set synchronous_commit = off');
  for (let first = 0; first < count; first += BATCH) {
    const all = Array.from({ length: Math.min(BATCH, count - first) }, (_, i) => rowsAt(first + i, count, now));
    await client.query('begin');
    for (const [table, row] of Object.entries(all[0] ?? {})) {
      const columns = Object.keys(row).join(', ');
      await client.query(
        `insert into ${table} (${columns}) select ${columns} from json_populate_recordset(null::${table}, $1)`,
        [JSON.stringify(all.map((rows) => rows[table]))],
      );
    }
    await client.query('commit');
  }
  await client.end();
}
