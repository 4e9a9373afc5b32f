/**
 * A database of every released schema is opened by this version: what it holds is answered as before, and mail that waits in it is
 * sent. A release keeps its own:
 * `POSTERN_RELEASE=v0.2.0 npm test -- test/flows/released.test.ts` writes `test/store/fixtures/v0.2.0.sql` and `.json`.
 */
import { readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import nodemailer from 'nodemailer';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { FULL } from '../../src/accounts/api-keys.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { Value } from '../../src/store/statement.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { ask } from '../harness/binary.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { temporaryFolder } from '../harness/store.ts';

const FIXTURES = join(import.meta.dirname, '../store/fixtures');
/** The release whose fixture is to be written, instead of a test. */
const RELEASE = process.env['POSTERN_RELEASE'];

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forwarding:
      "info@example.test": ana@inbox.test
    forms:
      contact: { name: Contact form, to: owner@inbox.test, uploads: { enabled: true } }
`;
const ZONE = [
  { name: 'held.test', type: 'MX', value: '10 mx.inbox.test' },
  { name: 'sender.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
] as const;

/** What a fixture is beside its SQL. */
const released = z.object({
  /** When it was made, ms: for whoever opens it, it is that time. */
  at: z.int(),
  /** An API key of the operator. */
  key: z.string(),
  /** What the API answered, by path, without what changes by itself. */
  answers: z.record(z.string(), z.unknown()),
  /** Subjects of the mail that waits. */
  waiting: z.array(z.string()),
});
type Released = z.output<typeof released>;

/** Members that a daemon changes by itself, or that name the machine. */
const CHANGING = new Set(['checked_at', 'last_used_at', 'managed_by', 'next_attempt_at', 'file_missing', 'count']);

async function answerTo({ url }: TestWorld, key: string, path: string): Promise<unknown> {
  const response = await fetch(url + path, { headers: { Authorization: `Bearer ${key}` } });
  const text = await response.text();
  expect([path, response.status, text]).toEqual([path, 200, expect.any(String)]);
  if (response.headers.get('content-type')?.startsWith('application/json') !== true) return text;
  return JSON.parse(text.replaceAll(url, 'http://here.test'), (name, value: unknown) =>
    CHANGING.has(name) ? undefined : value,
  );
}

const identified = z.object({ id: z.string() });

/** Has a server do a bit of everything, ends it, and answers what it left. */
async function makeRelease(): Promise<{ sql: string; released: Released }> {
  const world = await startTestWorld({ projects: { 'site.yml': SITE }, zone: ZONE, asInProduction: true });
  const permissions = [...FULL, 'admin'] as const;
  const { value: key } = await testKey(world.daemon.store, { tenant: OPERATOR, permissions, now: systemClock.now() });
  world.mx.behave(({ stage }) => (stage === 'rcpt' ? { code: 451, text: '4.7.1 later' } : undefined));

  async function post(path: string, body: object): Promise<string> {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const response = await fetch(world.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    const text = await response.text();
    expect([path, response.status, text]).toEqual([
      path,
      expect.toSatisfy((status) => status < 300),
      expect.any(String),
    ]);
    return identified.safeParse(JSON.parse(text)).data?.id ?? '';
  }

  const hold = { socketPath: world.daemon.addresses?.socket, path: '/admin/queue/hold', method: 'POST' };
  await ask({ ...hold, headers: { 'Content-Type': 'application/json' } }, JSON.stringify({ domain: 'held.test' }));
  const form = new FormData();
  form.set('email', 'visitor@sender.test');
  form.set('message', 'Grüße: are you open?');
  form.set('file', new File(['a text'], 'note.txt', { type: 'text/plain' }));
  expect((await world.post('/example.test/contact', form)).status).toBe(200);
  const apiForm = await post('/forms', { name: 'Made by the API', to: 'owner@inbox.test' });
  expect((await world.post(`/f/${apiForm}`, { message: 'To a form of the API' })).status).toBe(200);
  await post('/collections', { name: 'tools', forms: { feedback: { email: 'owner@inbox.test' } } });
  const text = { text: 'Hello' };
  const email = await post('/email/send', { to: 'ana@inbox.test', subject: 'Deferred', ...text });
  await post('/email/send', { to: 'ana@held.test', subject: 'Held', ...text });
  await post('/suppressions', { address: 'never@inbox.test' });
  await post('/webhooks', { url: 'https://hooks.example.org/in', events: ['domain.failed'] });
  await post('/admin/tenants', { name: 'Shop', email: 'shop@inbox.test' });
  const instant = await post('/instant/forms', { name: 'Instant', email: 'owner@inbox.test' });
  const port = world.daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  await transport.sendMail({ from: 'ann@sender.test', to: 'info@example.test', subject: 'Forwarded', ...text });
  await expect(transport.sendMail({ from: 'ann@sender.test', to: 'x@example.test', ...text })).rejects.toThrow('550');
  // All that can be tried was tried once.
  await expect
    .poll(async () => (await world.queue()).map(({ state }) => state).sort())
    .toEqual(['deferred', 'deferred', 'deferred', 'deferred', 'queued']);

  const submissions = z.object({ submissions: z.array(identified.extend({ files: z.array(identified) })) });
  const list = '/forms/example.test/contact/submissions';
  const [submission] = submissions.parse(await answerTo(world, key, list)).submissions;
  const paths = [
    '/projects',
    '/projects/site/config',
    '/domains',
    '/domains/example.test',
    '/admin/host-keys',
    '/forms',
    `/forms/${apiForm}`,
    `/instant/forms/${instant}`,
    '/collections',
    '/recipients',
    list,
    `/submissions/${submission?.id}`,
    `/submissions/${submission?.id}/files/${submission?.files[0]?.id}`,
    `/email/${email}`,
    `/email/${email}/source`,
    '/suppressions',
    '/webhooks',
    '/api-keys',
    '/admin/tenants',
    '/admin/inbound',
    '/events?type=submission.accepted',
  ];
  const answers: Record<string, unknown> = {};
  for (const path of paths) answers[path] = await answerTo(world, key, path);
  const file = world.daemon.snapshot().server.database.url.slice('sqlite:'.length);
  const at = systemClock.now();
  await world.daemon.close();
  const waiting = ['Contact form: visitor@sender.test', 'Deferred', 'Forwarded', 'Held', 'Made by the API'];
  // Nothing of the machine that made it.
  const sql = dump(file).replaceAll(`'${hostname()}'`, "'mail-1'").replaceAll(world.folder, '/etc/postern');
  return { sql, released: { at, key, answers, waiting } };
}

/** The statements that make a database like this one. */
function dump(file: string): string {
  const database = new Database(file, { readonly: true });
  try {
    const made = database
      .prepare<[], { type: string; name: string; sql: string | null }>(
        `select type, name, sql from sqlite_master order by type = 'index'`,
      )
      .all();
    const lines = made.flatMap(({ type, name, sql }) => {
      if (sql === null) return [];
      const rows = type === 'table' ? database.prepare<[], Record<string, Value>>(`select * from "${name}"`).all() : [];
      return [
        `${sql};`,
        ...rows.map((row) => {
          const columns = Object.keys(row).map((column) => `"${column}"`);
          return `insert into "${name}" (${columns.join(', ')}) values (${Object.values(row).map(literal).join(', ')});`;
        }),
      ];
    });
    return `${lines.join('\n')}\n`;
  } finally {
    database.close();
  }
}

function literal(value: Value): string {
  if (value === null) return 'null';
  if (value instanceof Uint8Array) return `x'${Buffer.from(value).toString('hex')}'`;
  return typeof value === 'number' ? `${value}` : `'${value.replaceAll("'", "''")}'`;
}

if (RELEASE !== undefined) {
  test('a fixture of the release is written', async () => {
    const { sql, released: facts } = await makeRelease();
    expect(released.parse(facts)).toEqual(facts);
    await writeFile(join(FIXTURES, `${RELEASE}.sql`), sql);
    await writeFile(join(FIXTURES, `${RELEASE}.json`), `${JSON.stringify(facts, null, 2)}\n`);
  });
}

const names = readdirSync(FIXTURES).flatMap((name) => /^(.+)\.sql$/.exec(name)?.[1] ?? []);

test('there is a fixture', () => {
  expect(names).toContain('v0.1.0');
});

test.for(names)('%s: what it holds is answered as before, and its mail is sent', async (name) => {
  const recorded = await readFile(join(FIXTURES, `${name}.json`), 'utf8');
  // Its words may be other ones today.
  const facts = released.parse(
    JSON.parse(recorded, (member, value: unknown) => (member === 'advice' ? undefined : value)),
  );
  const path = join(await temporaryFolder(), 'postern.db');
  const database = new Database(path);
  database.pragma('foreign_keys = OFF');
  database.exec(await readFile(join(FIXTURES, `${name}.sql`), 'utf8'));
  database.close();
  const opened = systemClock.now();
  const world = await startTestWorld({
    // It is in the database, and its file on another machine.
    projects: {},
    zone: ZONE,
    server: { database: { url: `sqlite:${path}` } },
    parts: { clock: { ...systemClock, now: () => facts.at + systemClock.now() - opened } },
  });
  for (const [route, answer] of Object.entries(facts.answers)) {
    expect([route, await answerTo(world, facts.key, route)]).toMatchObject([route, answer]);
  }
  const headers = { 'Content-Type': 'application/json' };
  const socketPath = world.daemon.addresses?.socket;
  const release = { socketPath, path: '/admin/queue/release', method: 'POST', headers };
  expect((await ask(release, JSON.stringify({ domain: 'held.test' }))).status).toBe(200);
  const retry = { socketPath, path: '/admin/queue/actions', method: 'POST', headers };
  await ask(retry, JSON.stringify({ action: 'retry', filter: { state: 'deferred' } }));
  const mails = (await world.caught(facts.waiting.length)).list();
  const subjects = mails.map(({ subject }) => subject).sort();
  expect(subjects).toEqual(facts.waiting.toSorted().map((subject) => expect.stringContaining(subject)));
  // Signed by the keys that were in it; what is forwarded keeps the signatures of its author.
  const unsigned = mails.filter(({ verdicts }) => !verdicts.dkim.some(({ result }) => result === 'pass'));
  expect(unsigned.map(({ subject }) => subject)).toEqual(['Forwarded']);
  await expect
    .poll(async () => new Set((await world.queue()).map(({ state }) => state)))
    .toEqual(new Set(['delivered']));
});
