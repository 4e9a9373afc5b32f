/** Signing in to the console: by key, by mail, by the operator's link, with and without one-time codes; and everything that must not. */
import { describe, expect, test } from 'vitest';
import { codeAt } from '../../../src/accounts/totp.ts';
import { PERMISSIONS } from '../../../src/lib/permission-names.ts';
import { beginDeletion } from '../../../src/accounts/delete-account.ts';
import { findTenant, insertTenant, OPERATOR } from '../../../src/store/tenants.ts';
import { ownScript, testBrowser, type TestBrowser } from '../../harness/browser-session.ts';
import { testClock, type TestClock } from '../../harness/clock.ts';
import { readSources } from '../../structure/sources.ts';
import { startHttp, type TestAnswer, type TestHttp, type TestHttpOptions } from '../../harness/http.ts';
import { tenantRow, testKey, type TestKeySettings } from '../../harness/keys.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const outcome = (answer: TestAnswer) => [answer.status, answer.json()['state'] ?? answer.json()['code']];
const state = { signedIn: [200, 'signed_in'], code: [200, 'code_needed'], mailed: [200, 'mail_sent'] };

interface World {
  readonly http: TestHttp;
  readonly clock: TestClock;
  readonly browser: TestBrowser;
  readonly signIn: (body: object, browser?: TestBrowser) => Promise<TestAnswer>;
  readonly session: (browser?: TestBrowser, headers?: Record<string, string>) => Promise<Session | null>;
  readonly key: (settings?: TestKeySettings) => ReturnType<typeof testKey>;
}

interface Session {
  readonly id: string;
  readonly tenant: { readonly id: string };
  readonly operator: boolean;
  readonly acting_for: { readonly id: string; readonly name: string } | null;
  readonly environment: string;
  readonly permissions: readonly string[];
  readonly totp: { readonly enabled: boolean; readonly required: boolean };
}

async function start(options: TestHttpOptions = {}): Promise<World> {
  const clock = testClock();
  const http = await startHttp({ clock, ...options });
  const browser = testBrowser(http);
  return {
    http,
    clock,
    browser,
    signIn: (body, by = browser) => by.request('/auth/session', { body }),
    async session(by = browser, headers = {}) {
      const answer = await by.request('/auth/session', { headers });
      expect(answer.status).toBe(200);
      return answer.json()['session'] as Session | null;
    },
    key: (settings = {}) => testKey(http.store, { now: clock.now(), ...settings }),
  };
}

interface Mail {
  readonly to: string;
  readonly text: string;
}

async function mails({ store }: TestHttp): Promise<Mail[]> {
  const rows = await store.read.selectFrom('messages').select('source').orderBy('id').execute();
  return rows.map(({ source }) => JSON.parse(source) as Mail);
}

/** The tokens in the mails, once there are so many mails. */
async function mailedTokens(http: TestHttp, count: number): Promise<string[]> {
  await expect.poll(async () => (await mails(http)).length).toBe(count);
  return (await mails(http)).flatMap(({ text }) =>
    [...text.matchAll(/\/console\/sign-in#([\w-]{43})$/gm)].map(([, token = '']) => token),
  );
}

async function operatorLink(http: TestHttp): Promise<string> {
  const answer = await http.request('/admin/console-link', { method: 'POST', local: true });
  expect(answer.status).toBe(200);
  return /^http:\/\/localhost:0\/console\/sign-in#([\w-]{43})$/.exec(String(answer.json()['url']))?.[1] ?? '';
}

/** Sets up one-time codes for whoever is signed in; answers the code of a time, and the recovery codes. */
async function setUpTotp({ clock, browser }: World) {
  const started = await browser.request('/auth/totp', { body: {} });
  const secret = String(started.json()['secret']);
  const code = (steps = 0) => codeAt(secret, Math.floor(clock.now() / 30_000) + steps);
  const confirmed = await browser.request('/auth/totp/confirm', { body: { code: code() } });
  expect(confirmed.status).toBe(200);
  clock.advance(MINUTE);
  return { code, recovery: confirmed.json()['recovery_codes'] as string[], uri: String(started.json()['uri']) };
}

describe('with an API key', () => {
  test('the session may do what the key may, and no request needs the key again', async () => {
    const { browser, signIn, session, key } = await start();
    const { value, tenant } = await key({ permissions: ['forms.read', 'keys.read'] });
    expect(await session()).toBeNull();
    const answer = await signIn({ key: value });
    expect(outcome(answer)).toEqual(state.signedIn);
    expect(answer.headers['set-cookie']).toEqual([
      expect.stringMatching(/^postern=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/),
    ]);
    expect(await session()).toMatchObject({
      tenant: { id: tenant },
      operator: false,
      acting_for: null,
      environment: 'live',
      permissions: ['forms.read', 'keys.read'],
      totp: { enabled: false, required: false },
    });
    expect((await browser.request('/forms')).status).toBe(200);
    expect(outcome(await browser.request('/projects'))).toEqual([403, 'AUTH_FORBIDDEN']);
  });

  test('over HTTPS the cookie is secure, and this host’s alone', async () => {
    const { http, key } = await start({
      server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://mail.example.net' } },
    });
    const { value } = await key();
    const headers = { ...ownScript(http), Host: 'mail.example.net', Origin: 'https://mail.example.net' };
    const answer = await http.request('/auth/session', { body: { key: value }, headers });
    const [cookie = ''] = answer.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^__Host-postern=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/);
    const [pair = ''] = cookie.split(';');
    expect((await http.request('/forms', { headers: { ...headers, Cookie: pair } })).status).toBe(200);
    // The name without the prefix is not taken there: any subdomain could set it.
    const plain = pair.replace('__Host-', '');
    expect(outcome(await http.request('/forms', { headers: { ...headers, Cookie: plain } }))).toEqual([
      401,
      'AUTH_MISSING_KEY',
    ]);
  });

  test.each([
    ['revoked', { revoked: true }, [401, 'AUTH_REVOKED_KEY']],
    ['expired', { expired: true }, [401, 'AUTH_EXPIRED_KEY']],
    ['of a suspended account', { account: { suspended: 1 } }, [403, 'AUTH_FORBIDDEN']],
    ['of an account that is not confirmed', { account: { confirmed_at: null } }, [403, 'AUTH_FORBIDDEN']],
    ['for another network', { restrictions: { ip_whitelist: ['192.0.2.0/24'] } }, [403, 'AUTH_IP_NOT_ALLOWED']],
  ] satisfies [string, TestKeySettings, unknown[]][])(
    'one that is %s signs nobody in',
    async (_, settings, expected) => {
      const { signIn, session, key } = await start();
      expect(outcome(await signIn({ key: (await key(settings)).value }))).toEqual(expected);
      expect(await session()).toBeNull();
    },
  );

  test('a session ends with its key', async () => {
    const { http, browser, signIn, session, key } = await start();
    const { value, id, headers } = await key();
    const other = testBrowser(http);
    await signIn({ key: value });
    await signIn({ key: (await key({ tenant: (await key()).tenant })).value }, other);
    expect((await http.request(`/api-keys/${id}`, { method: 'DELETE', headers })).status).toBe(200);
    expect(await session()).toBeNull();
    expect(outcome(await browser.request('/forms'))).toEqual([401, 'AUTH_MISSING_KEY']);
    expect(await session(other)).not.toBeNull();
  });

  test('a key beside the cookie is what counts', async () => {
    const { browser, signIn, key } = await start();
    await signIn({ key: (await key()).value });
    const reader = await key({ permissions: ['projects.read'] });
    expect(outcome(await browser.request('/forms', { headers: reader.headers }))).toEqual([403, 'AUTH_FORBIDDEN']);
    const wrong = { Authorization: 'Bearer svc_sk_live_wrong' };
    expect(outcome(await browser.request('/forms', { headers: wrong }))).toEqual([401, 'AUTH_INVALID_KEY']);
  });

  test('a test key’s session stays in the test partition', async () => {
    const { browser, signIn, session, key } = await start();
    await signIn({ key: (await key({ environment: 'test' })).value });
    expect((await session(undefined, { 'X-Postern-Environment': 'live' }))?.environment).toBe('test');
    expect(outcome(await browser.request('/auth/totp', { body: {} }))).toEqual([403, 'AUTH_TEST_KEY']);
  });
});

describe('a session', () => {
  test('has a token of its own at each sign-in, whatever cookie the browser brought', async () => {
    const { browser, signIn, key } = await start();
    const planted = 'A'.repeat(43);
    browser.cookies.set('postern', planted);
    const { value } = await key();
    await signIn({ key: value });
    const first = browser.cookies.get('postern');
    await signIn({ key: value });
    expect(new Set([planted, first, browser.cookies.get('postern')]).size).toBe(3);
  });

  test('is in the database as a hash alone', async () => {
    const { http, browser, signIn, key } = await start();
    await signIn({ key: (await key()).value });
    const rows = await http.store.read.selectFrom('sessions').selectAll().execute();
    expect(JSON.stringify(rows)).not.toContain(browser.cookies.get('postern'));
    expect(rows).toMatchObject([{ hash: expect.stringMatching(/^[0-9a-f]{64}$/) }]);
  });

  test('ends after twelve hours without use, and after thirty days of use', async () => {
    const { clock, signIn, session, key } = await start();
    const { value } = await key();
    await signIn({ key: value });
    clock.advance(12 * HOUR - MINUTE);
    expect(await session()).not.toBeNull();
    clock.advance(12 * HOUR);
    expect(await session()).toBeNull();
    await signIn({ key: value });
    for (let hours = 0; hours < 30 * 24 - 6; hours += 6) {
      clock.advance(6 * HOUR);
      await expect.poll(() => session()).not.toBeNull();
    }
    clock.advance(6 * HOUR);
    expect(await session()).toBeNull();
  });

  test('its use is written once a minute, with the address and the browser', async () => {
    const { http, clock, browser, signIn, key } = await start();
    await signIn({ key: (await key()).value });
    const used = async () => {
      const { used_at, user_agent } = await http.store.read
        .selectFrom('sessions')
        .selectAll()
        .executeTakeFirstOrThrow();
      return [used_at, user_agent];
    };
    const began = clock.now();
    clock.advance(MINUTE - 1);
    await browser.request('/forms');
    expect(await used()).toEqual([began, 'Browser/1']);
    clock.advance(1);
    const hostile = `Evil\t${'x'.repeat(1000)}`;
    await Promise.all([1, 2, 3].map(() => browser.request('/forms', { headers: { 'User-Agent': hostile } })));
    await expect.poll(used).toEqual([began + MINUTE, `Evil${'x'.repeat(252)}`]);
  });

  test('is listed and ended by whoever may manage keys, and by nobody of another account', async () => {
    const { http, clock, browser, signIn, session, key } = await start();
    const { value, headers, tenant } = await key();
    await signIn({ key: value });
    clock.advance(1);
    const second = testBrowser(http);
    await signIn({ key: value }, second);
    const listed = (await browser.request('/auth/sessions')).json();
    expect(listed).toMatchObject({
      count: 2,
      next_cursor: null,
      sessions: [
        { current: false, ip: '127.0.0.1', user_agent: 'Browser/1' },
        { current: true, ip: '127.0.0.1' },
      ],
    });
    const [{ id }] = listed['sessions'] as [{ id: string }];
    const foreign = await key();
    expect(outcome(await http.request(`/auth/sessions/${id}`, { method: 'DELETE', headers: foreign.headers }))).toEqual(
      [404, 'NOT_FOUND'],
    );
    const testing = await key({ tenant, environment: 'test' });
    expect(outcome(await http.request('/auth/sessions', { headers: testing.headers }))).toEqual([403, 'AUTH_TEST_KEY']);
    const reader = await key({ tenant, permissions: ['keys.read'] });
    const refused = await http.request(`/auth/sessions/${id}`, { method: 'DELETE', headers: reader.headers });
    expect(outcome(refused)).toEqual([403, 'AUTH_FORBIDDEN']);
    expect((await http.request(`/auth/sessions/${id}`, { method: 'DELETE', headers })).status).toBe(200);
    expect(await session(second)).toBeNull();
    expect(await session()).not.toBeNull();
  });

  test('ends at a sign-out, and the browser forgets the cookie', async () => {
    const { browser, signIn, session, key } = await start();
    await signIn({ key: (await key()).value });
    const token = browser.cookies.get('postern') ?? '';
    expect((await browser.request('/auth/session', { method: 'DELETE' })).status).toBe(200);
    expect(browser.cookies.size).toBe(0);
    browser.cookies.set('postern', token);
    expect(await session()).toBeNull();
    expect((await browser.request('/auth/session', { method: 'DELETE' })).status).toBe(200);
  });

  test('ends when the account is suspended or deleted', async () => {
    const { http, clock, signIn, session, key } = await start();
    for (const end of ['suspend', 'delete']) {
      const { value, tenant } = await key();
      await signIn({ key: value });
      expect(await session()).not.toBeNull();
      if (end === 'suspend') {
        const change = { method: 'PATCH', local: true, body: { suspended: true } };
        expect((await http.request(`/admin/tenants/${tenant}`, change)).status).toBe(200);
        expect(await session()).toBeNull();
        await http.request(`/admin/tenants/${tenant}`, { ...change, body: { suspended: false } });
      } else {
        const row = await findTenant(http.store, tenant);
        if (row === undefined) throw new Error('no tenant');
        await beginDeletion(row, { queued: 'cancel', by: { key: undefined } }, { store: http.store, clock });
      }
      // What is resumed has none either.
      expect(await session()).toBeNull();
    }
    expect(await http.store.read.selectFrom('sessions').selectAll().execute()).toEqual([]);
  });

  test('an account has a hundred at most: the oldest end', async () => {
    const { http, clock, signIn, key } = await start();
    const { value, headers } = await key();
    for (let i = 0; i < 102; i++) {
      // One address signs in thirty times in ten minutes.
      clock.advance(MINUTE);
      expect(outcome(await signIn({ key: value }, testBrowser(http)))).toEqual(state.signedIn);
    }
    const answer = await http.request('/auth/sessions?limit=1', { headers });
    expect(answer.json()).toMatchObject({ count: 100, next_cursor: expect.stringMatching(/^ses_/) });
  });

  test('does not use up the plan of the account, and has limits of its own', async () => {
    const { http, browser, signIn, key } = await start({ plans: { free: { requests_per_minute: 2 } } });
    const { value, headers } = await key();
    await signIn({ key: value });
    for (let i = 0; i < 5; i++) expect((await browser.request('/forms')).status).toBe(200);
    expect((await browser.request('/forms')).headers['x-ratelimit-limit']).toBe('600');
    for (let i = 0; i < 2; i++) expect((await http.request('/forms', { headers })).status).toBe(200);
    expect((await http.request('/forms', { headers })).status).toBe(429);
    expect((await browser.request('/forms')).status).toBe(200);
  });

  test('sign-ins and failures are events', async () => {
    const { http, signIn, key } = await start();
    const { value, id, tenant } = await key();
    await signIn({ key: value });
    expect(await http.events(tenant, 'auth.signed_in')).toMatchObject([
      { data: { method: 'key', key: id, address: '127.0.0.1', session: expect.stringMatching(/^ses_/) } },
    ]);
    await signIn({ token: 'B'.repeat(43) });
    await expect
      .poll(() => http.events(OPERATOR, 'auth.failed'))
      .toMatchObject([{ data: { address: '127.0.0.1', last4: 'BBBB', reason: 'AUTH_INVALID_LINK' } }]);
  });
});

describe('which requests the cookie counts in', () => {
  const OWN = 'own';
  const SITES = ['same-origin', 'same-site', 'cross-site', 'none', undefined, 'same-origin, same-origin', ''] as const;
  const ORIGINS = [
    OWN,
    undefined,
    'null',
    'https://evil.example',
    'http://sub.localhost:80',
    'http://localhost',
    'https://localhost',
    'http://localhost:1',
    'http://mail.example.net.evil.example',
  ] as const;
  const METHODS = ['GET', 'POST', 'PATCH', 'DELETE'] as const;
  const TYPES = [
    'application/json',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    undefined,
  ];

  test('only a script of a page of this server, with its own origin for what changes something', async () => {
    const { http, browser, signIn, key } = await start({ limits: { requests_per_minute_per_address: 100_000 } });
    await signIn({ key: (await key()).value });
    const Cookie = `postern=${browser.cookies.get('postern')}`;
    const Host = `localhost:${http.port}`;
    const let_in = [];
    let asked = 0;
    for (const site of SITES) {
      for (const origin of ORIGINS) {
        for (const method of METHODS) {
          for (const type of TYPES) {
            for (const mode of ['cors', 'navigate']) {
              const headers = {
                Host,
                Cookie,
                'Sec-Fetch-Mode': mode,
                ...(site === undefined ? {} : { 'Sec-Fetch-Site': site }),
                ...(origin === undefined ? {} : { Origin: origin === OWN ? `http://${Host}` : origin }),
                ...(type === undefined || method === 'GET' ? {} : { 'Content-Type': type }),
              };
              const path = method === 'GET' || method === 'POST' ? '/forms' : '/forms/frm_0';
              const body = method === 'GET' || method === 'DELETE' ? {} : { body: '{}' };
              const { status } = await http.request(path, { method, headers, ...body });
              asked++;
              if (status !== 401) let_in.push([site, origin, method, mode].join(' '));
            }
          }
        }
      }
    }
    expect(asked).toBeGreaterThan(2000);
    expect([...new Set(let_in)].sort()).toEqual(
      [
        'same-origin  GET cors',
        'same-origin  GET navigate',
        'same-origin own DELETE cors',
        'same-origin own GET cors',
        'same-origin own GET navigate',
        'same-origin own PATCH cors',
        'same-origin own POST cors',
      ].sort(),
    );
  });

  test('nobody signs in or out from elsewhere', async () => {
    const { http, browser, signIn, session, key } = await start();
    const { value } = await key();
    await signIn({ key: value });
    const Cookie = `postern=${browser.cookies.get('postern')}`;
    const own = ownScript(http, 'POST');
    const foreign = [
      {},
      { ...own, 'Sec-Fetch-Site': 'cross-site' },
      { ...own, 'Sec-Fetch-Site': 'none' },
      { ...own, Origin: 'null' },
      { ...own, Origin: 'https://evil.example' },
      // DNS rebinding: the page's host leads to this machine.
      { ...own, Host: `evil.example:${http.port}`, Origin: `http://evil.example:${http.port}` },
      { ...own, 'Sec-Fetch-Mode': 'navigate' },
      { Host: own['Host'] ?? '', Origin: own['Origin'] ?? '' },
    ];
    for (const headers of foreign) {
      for (const request of [{ body: { key: value } }, { method: 'DELETE' }]) {
        const answer = await http.request('/auth/session', { ...request, headers: { ...headers, Cookie } });
        expect(outcome(answer)).toEqual([403, 'ORIGIN_NOT_ALLOWED']);
        expect(answer.headers['set-cookie']).toBeUndefined();
      }
    }
    expect(await session()).not.toBeNull();
    const local = await http.request('/auth/session', { body: { key: value }, headers: own, local: true });
    expect(outcome(local)).toEqual([403, 'ORIGIN_NOT_ALLOWED']);
  });

  test('never in a form post', async () => {
    const { http, browser, signIn, key } = await start({
      collections: {
        closed: { settings: { requireApiKey: true }, forms: { contact: { email: 'owner@example.com' } } },
      },
    });
    await signIn({ key: (await key({ tenant: OPERATOR, permissions: PERMISSIONS })).value });
    const answer = await browser.request('/c/closed/contact', { method: 'POST', body: { message: 'Hello' } });
    expect(answer.status).toBe(401);
    expect(await http.submissions()).toEqual([]);
  });

  test('where the console is off there is none, and nobody is signed in', async () => {
    const { http, browser, key } = await start({ server: { console: { enabled: false } } });
    const { value } = await key();
    for (const request of [{}, { body: { key: value } }, { method: 'DELETE' }])
      expect(outcome(await browser.request('/auth/session', request))).toEqual([404, 'NOT_FOUND']);
    expect((await http.request('/admin/console-link', { method: 'POST', local: true })).status).toBe(404);
  });
});

describe('with a mailed link', () => {
  async function account({ http, clock }: World, email: string, id = 'ten_anna') {
    await http.store.write([insertTenant(tenantRow({ id, email, confirmed_at: clock.now() }))]);
  }

  test('the browser that asked signs in with it, once', async () => {
    const world = await start();
    const { http, browser, signIn, session } = world;
    await account(world, 'Anna@inbox.test');
    const asked = await signIn({ email: 'anna@INBOX.test' });
    expect(outcome(asked)).toEqual(state.mailed);
    expect(asked.headers['set-cookie']).toEqual([
      expect.stringMatching(/^postern-browser=[\w-]{43}; Path=\/; Max-Age=900; HttpOnly; SameSite=Strict$/),
    ]);
    const [token = ''] = await mailedTokens(http, 1);
    expect((await mails(http))[0]).toMatchObject({ to: 'Anna@inbox.test' });
    expect((await mails(http))[0]?.text).toContain(`http://localhost:${http.port}/console/sign-in#${token}`);
    const elsewhere = testBrowser(http);
    expect(outcome(await signIn({ token }, elsewhere))).toEqual([401, 'AUTH_INVALID_LINK']);
    elsewhere.cookies.set('postern-browser', 'C'.repeat(43));
    expect(outcome(await signIn({ token }, elsewhere))).toEqual([401, 'AUTH_INVALID_LINK']);
    const both = await Promise.all([signIn({ token }), signIn({ token }, { ...browser })]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 401]);
    expect(await session()).toMatchObject({ tenant: { id: 'ten_anna' }, operator: false });
    expect((await session())?.permissions).toEqual(PERMISSIONS.filter((one) => one !== 'admin'));
    expect(outcome(await signIn({ token }))).toEqual([401, 'AUTH_INVALID_LINK']);
    expect(await http.events('ten_anna', 'auth.signed_in')).toMatchObject([{ data: { method: 'mailed_link' } }]);
  });

  test('the answer is the same whoever has the address, and mail goes to nobody else', async () => {
    const world = await start();
    const { http, signIn } = world;
    await account(world, 'anna@inbox.test');
    await account(world, 'susp@inbox.test', 'ten_b');
    await http.store.write([insertTenant(tenantRow({ id: 'ten_c', email: 'new@inbox.test', confirmed_at: null }))]);
    await http.request('/admin/tenants/ten_b', { method: 'PATCH', local: true, body: { suspended: true } });
    const answers = [];
    for (const email of ['nobody@inbox.test', 'susp@inbox.test', 'new@inbox.test', 'anna@inbox.test']) {
      const { status, text, headers } = await signIn({ email });
      const names = Object.keys(headers).sort();
      answers.push(JSON.stringify([status, text, names, headers['content-length']]));
    }
    expect(new Set(answers).size).toBe(1);
    await mailedTokens(http, 1);
    expect((await mails(http)).map(({ to }) => to)).toEqual(['anna@inbox.test']);
    expect(await http.store.read.selectFrom('sign_in_requests').selectAll().execute()).toEqual([]);
  });

  test('accounts with one address get one mail with a link for each', async () => {
    const world = await start();
    const { http, signIn, session } = world;
    await account(world, 'anna@inbox.test', 'ten_a');
    await account(world, 'anna@inbox.test', 'ten_b');
    await signIn({ email: 'anna@inbox.test' });
    const tokens = await mailedTokens(http, 1);
    expect(tokens).toHaveLength(2);
    const signedIn = [];
    for (const token of tokens) {
      expect(outcome(await signIn({ token }))).toEqual(state.signedIn);
      signedIn.push((await session())?.tenant.id);
    }
    expect(signedIn).toEqual(['ten_a', 'ten_b']);
  });

  test('it works for a quarter of an hour', async () => {
    const world = await start();
    const { http, clock, signIn } = world;
    await account(world, 'anna@inbox.test');
    await signIn({ email: 'anna@inbox.test' });
    const [token = ''] = await mailedTokens(http, 1);
    clock.advance(15 * MINUTE);
    expect(outcome(await signIn({ token }))).toEqual([401, 'AUTH_INVALID_LINK']);
  });

  test('asking is limited by mailbox and by address, whoever has it', async () => {
    const world = await start({ server: { http: { listen: ['127.0.0.1:0'], trusted_proxies: ['127.0.0.1'] } } });
    const { browser } = world;
    await account(world, 'anna@inbox.test');
    const ask = (email: string, from: string) =>
      browser.request('/auth/session', {
        body: { email },
        headers: { 'X-Forwarded-For': from, Host: 'mail.example.net', Origin: 'http://mail.example.net' },
      });
    expect(outcome(await ask('anna@inbox.test', '198.51.100.1'))).toEqual([403, 'ORIGIN_NOT_ALLOWED']);
    const own = (email: string) => world.signIn({ email });
    for (const email of ['anna@inbox.test', 'nobody@inbox.test']) {
      for (let i = 0; i < 5; i++) expect(outcome(await own(email))).toEqual(state.mailed);
    }
    expect(outcome(await own('other@inbox.test'))).toEqual([429, 'RATE_LIMITED']);
    world.clock.advance(HOUR);
    for (let i = 0; i < 5; i++) await own('anna+tag@inbox.test');
    expect(outcome(await own('anna@inbox.test'))).toEqual([429, 'RATE_LIMITED']);
  });

  test('the operator’s address signs the operator in', async () => {
    const { http, signIn, session } = await start();
    await signIn({ email: 'ops@example.net' });
    const [token = ''] = await mailedTokens(http, 1);
    await signIn({ token });
    expect(await session()).toMatchObject({ tenant: { id: OPERATOR }, operator: true });
  });
});

describe('with the operator’s link', () => {
  test('any browser signs in as the operator, once, within five minutes', async () => {
    const { http, clock, signIn, session } = await start();
    const token = await operatorLink(http);
    expect(outcome(await signIn({ token }))).toEqual(state.signedIn);
    expect(await session()).toMatchObject({ tenant: { id: OPERATOR }, operator: true, permissions: PERMISSIONS });
    expect(outcome(await signIn({ token }, testBrowser(http)))).toEqual([401, 'AUTH_INVALID_LINK']);
    const late = await operatorLink(http);
    clock.advance(5 * MINUTE);
    expect(outcome(await signIn({ token: late }, testBrowser(http)))).toEqual([401, 'AUTH_INVALID_LINK']);
  });

  test('no key gets one', async () => {
    const { http, browser, key } = await start();
    const { headers } = await key({ tenant: OPERATOR, permissions: PERMISSIONS });
    const answer = await http.request('/admin/console-link', { method: 'POST', headers });
    expect(outcome(answer)).toEqual([409, 'CONFLICT']);
    expect((await browser.request('/admin/console-link', { method: 'POST' })).status).toBe(401);
  });

  test('the session acts for an account that a header names, and nobody else’s does', async () => {
    const { http, browser, signIn, session, key } = await start();
    const anna = await key({ account: { name: 'Anna' } });
    await http.request('/forms', { headers: anna.headers, body: { name: 'Mine', to: 'tenant@inbox.test' } });
    const forms = async (by: TestBrowser, headers: Record<string, string>) => {
      const answer = await by.request('/forms', { headers });
      return answer.status === 200 ? Number(answer.json()['count']) : outcome(answer);
    };
    await signIn({ token: await operatorLink(http) });
    const acting = { 'X-Postern-Tenant': anna.tenant };
    const own = await forms(browser, {});
    expect(await forms(browser, acting)).toBe(1);
    expect(own).not.toBe(1);
    expect(await session(browser, acting)).toMatchObject({
      tenant: { id: OPERATOR },
      acting_for: { id: anna.tenant, name: 'Anna' },
    });
    expect(await forms(browser, { 'X-Postern-Tenant': 'ten_none' })).toEqual([403, 'AUTH_FORBIDDEN']);
    const other = testBrowser(http);
    await signIn({ key: (await key()).value }, other);
    expect(await forms(other, acting)).toEqual([403, 'AUTH_FORBIDDEN']);
    // Not even a key of the operator’s that may do nearly everything.
    const most = PERMISSIONS.filter((one) => one !== 'email.send');
    await signIn({ key: (await key({ tenant: OPERATOR, permissions: most })).value }, other);
    expect((await session(other))?.operator).toBe(false);
    expect(await forms(other, acting)).toEqual([403, 'AUTH_FORBIDDEN']);
  });

  test('the test view is the account’s test partition', async () => {
    const { http, browser, signIn, session, key } = await start();
    const anna = await key();
    const testing = await key({ tenant: anna.tenant, environment: 'test' });
    await http.request('/forms', { headers: testing.headers, body: { name: 'Try', to: 'tenant@inbox.test' } });
    await signIn({ key: anna.value });
    const view = { 'X-Postern-Environment': 'test' };
    expect((await session(browser, view))?.environment).toBe('test');
    expect((await browser.request('/forms')).json()['count']).toBe(0);
    expect((await browser.request('/forms', { headers: view })).json()['count']).toBe(1);
    expect((await browser.request('/auth/sessions', { headers: view })).status).toBe(200);
    expect(outcome(await browser.request('/forms', { headers: { 'X-Postern-Environment': 'x' } }))).toEqual([
      403,
      'AUTH_FORBIDDEN',
    ]);
    await signIn({ token: await operatorLink(http) });
    const both = { ...view, 'X-Postern-Tenant': anna.tenant };
    expect((await browser.request('/forms', { headers: both })).json()['count']).toBe(1);
    // Links and images have no headers: a GET in a session may name the same in its query.
    const query = `x-postern-environment=test&x-postern-tenant=${anna.tenant}`;
    expect((await browser.request(`/forms?limit=5&${query}`)).json()['count']).toBe(1);
    const posted = await browser.request(`/forms?${query}`, { body: { name: 'Own', to: 'ops@example.net' } });
    expect(posted.status).toBe(200);
    expect((await browser.request(`/forms?limit=5&${query}`)).json()['count']).toBe(1);
    const withKey = await http.request(`/forms?x-postern-environment=test`, { headers: anna.headers });
    expect(outcome(withKey)).toEqual([400, 'VALIDATION_FAILED']);
  });
});

describe('one-time codes', () => {
  test('are asked for with a key and with a link, which waits for the right one', async () => {
    const world = await start();
    const { http, signIn, session, key } = world;
    const { value, tenant } = await key({ account: { email: 'anna@inbox.test' } });
    await signIn({ key: value });
    const { code, uri } = await setUpTotp(world);
    expect(uri).toMatch(
      /^otpauth:\/\/totp\/mail\.example\.net:anna%40inbox\.test\?secret=[A-Z2-7]{32}&issuer=mail\.example\.net$/,
    );
    const other = testBrowser(http);
    expect(outcome(await signIn({ key: value }, other))).toEqual(state.code);
    expect(await session(other)).toBeNull();
    expect(outcome(await signIn({ key: value, code: code(5) }, other))).toEqual([401, 'AUTH_INVALID_CODE']);
    expect(outcome(await signIn({ key: value, code: code() }, other))).toEqual(state.signedIn);
    expect((await session(other))?.totp).toEqual({ enabled: true, required: false });
    await signIn({ email: 'anna@inbox.test' });
    const [token = ''] = await mailedTokens(http, 1);
    expect(outcome(await signIn({ token }))).toEqual(state.code);
    // A code counts once, however it is used.
    expect(outcome(await signIn({ token, code: code() }))).toEqual([401, 'AUTH_INVALID_CODE']);
    expect(outcome(await signIn({ token, code: code(1) }))).toEqual(state.signedIn);
    expect(await http.events(tenant, 'auth.totp_enabled')).toHaveLength(1);
  });

  test('a link bears five wrong ones, an account ten in a quarter of an hour', async () => {
    const world = await start();
    const { http, clock, signIn, key } = world;
    const { value } = await key({ account: { email: 'anna@inbox.test' } });
    await signIn({ key: value });
    const { code } = await setUpTotp(world);
    clock.advance(15 * MINUTE);
    await signIn({ email: 'anna@inbox.test' });
    const [token = ''] = await mailedTokens(http, 1);
    for (let i = 0; i < 5; i++) expect(outcome(await signIn({ token, code: '000000' }))[1]).toBe('AUTH_INVALID_CODE');
    expect(outcome(await signIn({ token, code: code() }))).toEqual([401, 'AUTH_INVALID_LINK']);
    const guesses = await Promise.all(Array.from({ length: 20 }, () => signIn({ key: value, code: '000000' })));
    const codes = guesses.map((answer) => String(outcome(answer)[1]));
    expect(codes.filter((one) => one === 'AUTH_INVALID_CODE')).toHaveLength(5);
    expect(outcome(await signIn({ key: value, code: code() }))).toEqual([429, 'RATE_LIMITED']);
    clock.advance(16 * MINUTE);
    expect(outcome(await signIn({ key: value, code: code() }))).toEqual(state.signedIn);
  });

  test('each recovery code replaces one, once, however it is written', async () => {
    const world = await start();
    const { http, signIn, key } = world;
    const { value } = await key();
    await signIn({ key: value });
    const { recovery } = await setUpTotp(world);
    expect(recovery).toHaveLength(10);
    const [first = '', second = ''] = recovery;
    expect(first).toMatch(/^[a-z]{5}-[a-z]{5}$/);
    const other = testBrowser(http);
    expect(outcome(await signIn({ key: value, code: first.toUpperCase().replace('-', ' ') }, other))).toEqual(
      state.signedIn,
    );
    expect(outcome(await signIn({ key: value, code: first }, other))).toEqual([401, 'AUTH_INVALID_CODE']);
    const both = await Promise.all([1, 2].map(() => signIn({ key: value, code: second }, testBrowser(http))));
    expect(both.map(({ status }) => status).sort()).toEqual([200, 401]);
    const stored = JSON.stringify(await http.store.read.selectFrom('recovery_codes').selectAll().execute());
    expect(stored).not.toContain(recovery[3]?.replace('-', ''));
  });

  test('nothing changes before a code has confirmed the secret, nor where one is confirmed', async () => {
    const world = await start();
    const { http, browser, signIn, key } = world;
    const { value } = await key();
    await signIn({ key: value });
    expect(outcome(await browser.request('/auth/totp/confirm', { body: { code: '123456' } }))).toEqual([
      409,
      'CONFLICT',
    ]);
    await browser.request('/auth/totp', { body: {} });
    expect(outcome(await browser.request('/auth/totp/confirm', { body: { code: '12345x' } }))).toEqual([
      401,
      'AUTH_INVALID_CODE',
    ]);
    expect(outcome(await signIn({ key: value }, testBrowser(http)))).toEqual(state.signedIn);
    await setUpTotp(world);
    expect(outcome(await browser.request('/auth/totp', { body: {} }))).toEqual([409, 'CONFLICT']);
  });

  test('end by a code; without one by the operator alone, who acts for the account', async () => {
    const world = await start();
    const { http, browser, signIn, session, key } = world;
    const { value, tenant, headers } = await key();
    await signIn({ key: value });
    const { code } = await setUpTotp(world);
    const remove = (body: object, more: object = {}) =>
      browser.request('/auth/totp', { method: 'DELETE', body, ...more });
    expect(outcome(await remove({}))).toEqual([400, 'VALIDATION_FAILED']);
    expect(outcome(await remove({ code: '000000' }))).toEqual([401, 'AUTH_INVALID_CODE']);
    expect(outcome(await http.request('/auth/totp', { method: 'DELETE', body: {}, headers }))[0]).toBe(400);
    expect((await remove({ code: code() })).status).toBe(200);
    expect((await session())?.totp.enabled).toBe(false);
    expect(outcome(await remove({ code: code() }))).toEqual([409, 'CONFLICT']);
    await setUpTotp(world);
    const named = { 'X-Postern-Tenant': tenant };
    await signIn({ token: await operatorLink(http) });
    expect((await remove({}, { headers: named })).status).toBe(200);
    await signIn({ key: value });
    await setUpTotp(world);
    const local = await http.request('/auth/totp', { method: 'DELETE', body: {}, headers: named, local: true });
    expect(local.json()).toEqual({ enabled: false });
  });

  test('where they are required, a session may only set them up', async () => {
    const world = await start({ server: { console: { require_totp: true } } });
    const { browser, signIn, session, key } = world;
    await signIn({ key: (await key()).value });
    expect(await session()).toMatchObject({ permissions: [], totp: { enabled: false, required: true } });
    expect(outcome(await browser.request('/forms'))).toEqual([403, 'AUTH_FORBIDDEN']);
    expect(outcome(await browser.request('/api-keys', { body: { name: 'Way round' } }))).toEqual([
      403,
      'AUTH_FORBIDDEN',
    ]);
    await setUpTotp(world);
    expect((await browser.request('/forms')).status).toBe(200);
    expect((await session())?.permissions).not.toEqual([]);
  });
});

test('one address signs in thirty times in ten minutes, right or wrong', async () => {
  const { signIn } = await start();
  for (let i = 0; i < 30; i++) expect((await signIn({ token: 'x' })).status).toBe(401);
  expect(outcome(await signIn({ token: 'x' }))).toEqual([429, 'RATE_LIMITED']);
});

describe('in the local environment', () => {
  test('whoever opens the console on the machine itself is the operator, until they sign out', async () => {
    const { http, browser, session } = await start({ isDev: true });
    expect((await browser.request('/auth/session')).json()).toMatchObject({ session: { operator: true }, dev: true });
    expect((await browser.request('/admin/tenants')).status).toBe(200);
    await browser.request('/auth/session', { method: 'DELETE' });
    expect(await session()).toBeNull();
    browser.cookies.clear();
    expect(await session()).not.toBeNull();
    const own = ownScript(http);
    for (const headers of [
      { ...own, 'Sec-Fetch-Site': 'cross-site' },
      { ...own, 'Sec-Fetch-Site': 'none' },
      { ...own, Host: 'evil.example' },
      { ...own, Host: `evil.example:${http.port}`, Origin: `http://evil.example:${http.port}` },
      { Host: own['Host'] ?? '' },
    ]) {
      const answer = await http.request('/auth/session', { headers });
      expect(answer.json()['session']).toBeNull();
      expect(answer.headers['set-cookie']).toBeUndefined();
    }
  });

  test('which the code of the local environment alone is', () => {
    const setters = readSources('src').filter(({ text }) => /\bisDev: true\b/.test(text));
    expect(setters.map(({ path }) => path)).toEqual(['src/dev/environment.ts']);
  });

  test('nobody is elsewhere', async () => {
    const { browser } = await start();
    const answer = await browser.request('/auth/session');
    expect(answer.json()).toEqual({ session: null, dev: false });
    expect(answer.headers['set-cookie']).toBeUndefined();
  });
});
