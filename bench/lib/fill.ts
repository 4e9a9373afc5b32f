/** A database with as many submissions and deliveries as somebody wants to measure lists with, of some accounts and forms, and what they leave behind: events, their counts by the hour, and mail that came in. */
import pg from 'pg';
import { newId } from '../../src/lib/ids.ts';
import { createStore } from '../../src/store/database.ts';
import { indexSome, mergeSome } from '../../src/store/search.ts';
import { openForWriting } from '../../src/store/sqlite-connection.ts';
import type { Value } from '../../src/store/statement.ts';
import { OPERATOR } from '../../src/store/tenants.ts';

type Row = Readonly<Record<string, Value>>;

const BATCH = 5000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Events are kept so long by default; what was counted of them, for good. */
const EVENTS_MS = 30 * DAY_MS;
/** They came in a year, so many of them with each form of the first account. */
const SPAN_MS = 365 * DAY_MS;
const FORMS = Array.from({ length: 40 }, (_, i) => `shop${i % 10}.example/form${i}`);
const NAMES = ['Anna', 'Björn', 'Chiara', 'Dmitri', 'Eva', 'Farid', 'Greta', 'Hana', 'Ivan', 'Jonas', 'Katja', 'Luis'];
const WORDS =
  'cake bread order table friday morning price delivery lemon almond window garden invoice repair room'.split(' ');

/** In one submission of all. */
export const RARE_WORD = 'quixotry';

/** The submission, its notification and its delivery that are number `i` of `count`, with their events, and an inbound message. */
function rowsAt(i: number, count: number, now: number): readonly (readonly [table: string, Row])[] {
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
  const event = { tenant, data: '{}', submission: id, message: msg, domain, form, request: null };
  return [
    [
      'submissions',
      {
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
    ],
    ['submissions_to_index', { submission: id }],
    [
      'messages',
      {
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
    ],
    [
      'deliveries',
      {
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
    ],
    ['events', { ...event, id: newId('evt', at), type: `submission.${status}`, created_at: at }],
    ['events', { ...event, id: newId('evt', at + 2000), type: `email.${state}`, created_at: at + 2000 }],
    [
      'inbound_log',
      {
        id: newId('inl', at),
        tenant,
        domain,
        ip: '192.0.2.25',
        helo: 'mx.customer.example',
        sender: email,
        recipient: `info@${domain}`,
        outcome: i % 10 === 1 ? 'rejected' : 'accepted',
        reply: i % 10 === 1 ? '550 5.1.1 no such address here' : '250 2.0.0 queued',
        reason: i % 10 === 1 ? 'unknown_recipient' : 'accepted',
        inbound: null,
        created_at: at,
      },
    ],
  ];
}

/** All rows in batches, by table; events of hours that are over are counted, as the daemon does. */
function* batches(count: number, now: number): Generator<ReadonlyMap<string, readonly Row[]>> {
  const thisHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const counts = new Map<string, Row & { count: number }>();
  let batch = new Map<string, Row[]>();
  function add(table: string, row: Row): void {
    const rows = batch.get(table);
    if (rows === undefined) batch.set(table, [row]);
    else rows.push(row);
  }
  for (let i = 0; i < count; i++) {
    for (const [table, row] of rowsAt(i, count, now)) {
      if (table !== 'events') {
        add(table, row);
        continue;
      }
      const { tenant = '', type = '', domain = '', form = '', created_at: at = 0 } = row;
      if (Number(at) > now - EVENTS_MS) add(table, row);
      const hour = Math.floor(Number(at) / HOUR_MS) * HOUR_MS;
      const key = [tenant, hour, type, form].join(' ');
      const known = counts.get(key);
      if (known !== undefined) known.count++;
      else if (hour < thisHour) counts.set(key, { tenant, hour, type, domain, form, count: 1 });
    }
    if (i % BATCH !== BATCH - 1) continue;
    yield batch;
    batch = new Map();
  }
  for (const row of counts.values()) add('event_counts', row);
  yield batch;
}

/** Makes the database at `url`, which must be new, with `count` submissions and deliveries, all of them in the search index. */
export async function fillDatabase(url: string, count: number, now = Date.now()): Promise<void> {
  await (await createStore(url)).close();
  if (url.startsWith('sqlite:')) fillSqlite(url.slice('sqlite:'.length), count, now);
  else await fillPostgres(url, count, now);
  const store = await createStore(url);
  while ((await indexSome(store, BATCH)) > 0) while (await mergeSome(store));
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
  for (const batch of batches(count, now)) {
    database.exec('begin');
    for (const [table, rows] of batch) {
      const columns = Object.keys(rows[0] ?? {});
      const marks = columns.map(() => '?').join(', ');
      const insert = database.prepare(`insert into ${table} (${columns.join(', ')}) values (${marks})`);
      for (const row of rows) insert.run(...Object.values(row));
    }
    database.exec('commit');
  }
  database.close();
}

async function fillPostgres(url: string, count: number, now: number): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('set synchronous_commit = off');
  for (const batch of batches(count, now)) {
    await client.query('begin');
    for (const [table, rows] of batch) {
      const columns = Object.keys(rows[0] ?? {}).join(', ');
      for (let first = 0; first < rows.length; first += BATCH) {
        await client.query(
          `insert into ${table} (${columns}) select ${columns} from json_populate_recordset(null::${table}, $1)`,
          [JSON.stringify(rows.slice(first, first + BATCH))],
        );
      }
    }
    await client.query('commit');
  }
  await client.end();
}
