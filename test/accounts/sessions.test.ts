/** Sessions, links and codes in the store, on SQLite and on PostgreSQL: what happens at the same time happens once. */
import { expect, test } from 'vitest';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import { beginDeletion } from '../../src/accounts/delete-account.ts';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import { Sessions } from '../../src/accounts/sessions.ts';
import { alterTenant } from '../../src/accounts/tenants.ts';
import { codeAt, createTotp } from '../../src/accounts/totp.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { silentLog } from '../../src/lib/log.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { insertRequest } from '../../src/store/sessions.ts';
import { findTenant, insertTenant, saveOperator } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { tenantRow, testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

const CLIENT = { ip: '192.0.2.1', userAgent: 'Browser/1' };
const MINUTE = 60_000;

async function open() {
  const store = await openTestStore();
  const clock = testClock();
  await saveOperator(store, 'ops@example.net', clock.now());
  const limits = await createLimits({ store, clock, log: silentLog });
  const totp = createTotp({ store, clock, limits });
  const server = { hostname: 'mail.example.net', operator: 'ops@example.net' };
  const config = serverSchema.parse({ server: { ...server, http: { base_url: 'https://mail.example.net' } } });
  const letters: string[] = [];
  const sessions = new Sessions({
    store,
    clock,
    log: silentLog,
    totp,
    config: () => config,
    authenticator: new Authenticator({ store, clock, log: silentLog }),
    accountMail(mail) {
      letters.push(mail.text);
      return systemMail(mail, 'mail.example.net', clock.now());
    },
    wake: () => undefined,
  });
  await store.write([insertTenant(tenantRow({ id: 'ten_anna', email: 'Anna@inbox.test' }))]);
  const key = (settings = {}) => testKey(store, { tenant: 'ten_anna', now: clock.now(), ...settings });
  return { store, clock, sessions, totp, letters, key };
}

type World = Awaited<ReturnType<typeof open>>;

async function signIn({ sessions, key }: World): Promise<string> {
  const done = await sessions.byKey((await key()).value, undefined, CLIENT);
  return done.kind === 'signed in' ? done.token : '';
}

async function secretOf({ totp, clock }: World): Promise<string> {
  const secret = (await totp.start('ten_anna')) ?? '';
  await totp.confirm('ten_anna', codeAt(secret, Math.floor(clock.now() / 30_000)));
  clock.advance(MINUTE);
  return secret;
}

test('a link signs in once, however many use it at the same time', async () => {
  const { sessions, letters } = await open();
  const browser = await sessions.requestLink('anna@inbox.test', 'https://mail.example.net');
  await sessions.mailLinks();
  expect(letters).toHaveLength(1);
  const token = /sign-in#([\w-]{43})$/m.exec(letters[0] ?? '')?.[1] ?? '';
  const uses = Array.from({ length: 5 }, () => sessions.byLink(token, undefined, { ...CLIENT, browser }));
  const kinds = (await Promise.all(uses)).map(({ kind }) => kind);
  expect(kinds.sort()).toEqual(['signed in', 'wrong link', 'wrong link', 'wrong link', 'wrong link']);
});

test('mail that was asked for is mailed once, also what a crash left', async () => {
  const { store, clock, sessions, letters } = await open();
  const left = { id: 'sgn_1', email: 'anna@inbox.test', browser: 'x', origin: 'https://mail.example.net' };
  const row = (id: string, created_at: number) => ({ ...left, id, created_at });
  await store.write([
    insertRequest(row('sgn_1', clock.now() - MINUTE)),
    insertRequest(row('sgn_2', clock.now() - 15 * MINUTE)),
  ]);
  await Promise.all([sessions.sweep(), sessions.mailLinks(), sessions.mailLinks()]);
  // The second one is too late: its link would not work any more.
  expect(letters).toHaveLength(1);
  expect(await store.read.selectFrom('sign_in_requests').selectAll().execute()).toEqual([]);
  expect(await store.read.selectFrom('messages').select('kind').execute()).toEqual([{ kind: 'system' }]);
});

test('a code lets in once, however many show it at the same time', async () => {
  const world = await open();
  const { sessions, clock, key } = world;
  const { value } = await key();
  const secret = await secretOf(world);
  const code = codeAt(secret, Math.floor(clock.now() / 30_000));
  const kinds = await Promise.all([1, 2, 3].map(async () => (await sessions.byKey(value, code, CLIENT)).kind));
  expect(kinds.sort()).toEqual(['signed in', 'wrong code', 'wrong code']);
});

test('guesses at the same time are limited like others', async () => {
  const world = await open();
  await secretOf(world);
  const checks = await Promise.all(Array.from({ length: 20 }, () => world.totp.check('ten_anna', '000000')));
  // One try went into the set-up.
  expect(checks.filter(({ kind }) => kind === 'wrong')).toHaveLength(9);
  expect(checks.filter(({ kind }) => kind === 'limited')).toHaveLength(11);
});

test('sessions end with the account’s suspension and deletion, and what has ended is swept', async () => {
  const world = await open();
  const { store, clock, sessions } = world;
  const by = { tenant: tenantRow(), key: undefined, permissions: new Set<never>(), restrictions: {} };
  const first = await signIn(world);
  expect(await sessions.find(first, CLIENT)).toMatchObject({ account: { id: 'ten_anna' }, isOperator: false });
  await alterTenant(store, { id: 'ten_anna', suspended: true, by: { ...by, environment: 'live' } }, clock.now());
  await alterTenant(store, { id: 'ten_anna', suspended: false, by: { ...by, environment: 'live' } }, clock.now());
  expect(await sessions.find(first, CLIENT)).toBeUndefined();
  const second = await signIn(world);
  clock.advance(12 * 60 * MINUTE);
  expect(await sessions.find(second, CLIENT)).toBeUndefined();
  const third = await signIn(world);
  await sessions.sweep();
  expect(await store.read.selectFrom('sessions').selectAll().execute()).toHaveLength(1);
  const row = await findTenant(store, 'ten_anna');
  if (row !== undefined) await beginDeletion(row, { queued: 'cancel', by: { key: undefined } }, { store, clock });
  expect(await sessions.find(third, CLIENT)).toBeUndefined();
  expect(await store.read.selectFrom('sessions').selectAll().execute()).toEqual([]);
});
