import { describe, expect, test } from 'vitest';
import { sweepTokens } from '../../../src/accounts/consent.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestAnswer, type TestHttp } from '../../harness/http.ts';

const outcome = (answer: TestAnswer) => [answer.status, answer.json()['code']];
const DAY = 86_400_000;
const ANNA = { name: 'Anna', email: 'anna@inbox.test' };

async function start(
  server: object = { signup: 'open', http: { listen: ['127.0.0.1:0'], base_url: 'https://mail.example.net' } },
) {
  const clock = testClock();
  const http = await startHttp({ clock, server });
  const signup = (body: object, more: object = {}) => http.request('/signup', { body, ...more });
  const status = (key: unknown) => http.request('/auth/status', { headers: { 'X-Api-Key': String(key) } });
  return { clock, http, signup, status };
}

interface AccountMail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** What was put into the queue. */
async function letters({ store }: TestHttp): Promise<{ tenant: string; letter: AccountMail }[]> {
  const rows = await store.read.selectFrom('messages').select(['tenant', 'source', 'kind']).orderBy('id').execute();
  return rows.map(({ tenant, source }) => ({ tenant, letter: JSON.parse(source) as AccountMail }));
}

/** The path of the link in the newest mail. */
async function mailedPath(http: TestHttp): Promise<string> {
  const mails = await letters(http);
  return /https:\/\/mail\.example\.net(\/confirm\/\S+)/.exec(mails.at(-1)?.letter.text ?? '')?.[1] ?? '';
}

describe('where sign-up is closed', () => {
  test('strangers are refused, and nothing is kept', async () => {
    const { http, signup } = await start({});
    for (const prefix of ['', '/api', '/v1']) {
      const answer = await http.request(`${prefix}/signup`, { body: ANNA });
      expect(outcome(answer)).toEqual([403, 'SIGNUP_CLOSED']);
    }
    expect(outcome(await signup(ANNA, { headers: { Authorization: 'Bearer rubbish' } }))).toEqual([
      403,
      'SIGNUP_CLOSED',
    ]);
    expect(await http.store.read.selectFrom('tenants').select('id').execute()).toEqual([{ id: OPERATOR }]);
    expect(await letters(http)).toEqual([]);
  });

  test('over the Unix socket an account is made and works at once', async () => {
    const { http, signup, status } = await start({});
    const made = await signup(ANNA, { local: true });
    expect([made.status, made.json()]).toEqual([
      200,
      {
        tenant: {
          id: expect.stringMatching(/^ten_/),
          ...ANNA,
          plan: 'free',
          requests_per_hour: null,
          messages_per_hour: null,
          messages_per_day: null,
          suspended: false,
          trusted: true,
          confirmed_at: '2026-01-01T00:00:00.000Z',
          deleting: null,
          created_at: '2026-01-01T00:00:00.000Z',
        },
        key: expect.stringMatching(/^svc_sk_live_/),
      },
    ]);
    expect((await status(made.json()['key'])).json()).toMatchObject({ tenant: { name: 'Anna', plan: 'free' } });
    expect(await letters(http)).toEqual([]);
  });
});

describe('where sign-up is open', () => {
  test('a key works once the mailed link is confirmed: looking at it is not enough', async () => {
    const { http, signup, status } = await start();
    const made = (await signup(ANNA)).json();
    expect(made).toMatchObject({ tenant: { name: 'Anna', confirmed_at: null } });
    const early = await status(made['key']);
    expect(outcome(early)).toEqual([403, 'AUTH_FORBIDDEN']);
    expect(early.json()['error']).toContain('not confirmed');

    const path = await mailedPath(http);
    const shown = await http.request(path);
    expect([shown.status, shown.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(shown.text).toContain('<form method="post">');
    expect(shown.text).toContain('anna@inbox.test');
    expect(shown.headers['content-security-policy']).toContain("form-action 'self'");
    expect((await status(made['key'])).status).toBe(403);

    for (let i = 0; i < 2; i++) {
      const done = await http.request(path, { method: 'POST', body: new URLSearchParams() });
      expect([done.status, done.text]).toEqual([200, expect.stringContaining('Your account is confirmed')]);
    }
    expect((await http.request(path)).text).toContain('Your account is confirmed');
    expect((await status(made['key'])).status).toBe(200);
    const told = await http.store.read
      .selectFrom('events')
      .selectAll()
      .where('type', '=', 'tenant.confirmed')
      .execute();
    expect(told).toHaveLength(1);
  });

  test('the mail is the server’s own, and holds no word of who asked', async () => {
    const { http, signup } = await start();
    const before = http.wakes();
    await signup({ name: 'Buy at https://spam.example now', email: 'Victim@Inbox.test' });
    expect(await letters(http)).toEqual([
      {
        tenant: OPERATOR,
        letter: {
          to: 'Victim@inbox.test',
          subject: 'Confirm your account on mail.example.net',
          text: expect.not.stringContaining('spam.example'),
        },
      },
    ]);
    expect(http.wakes()).toBe(before + 1);
  });

  test('the token is nowhere in the database but in the mail', async () => {
    const { http, signup } = await start();
    await signup(ANNA);
    const token = (await mailedPath(http)).split('/').at(-1) ?? '';
    expect(token).toMatch(/^[\w-]{32}$/);
    const { read } = http.store;
    const rows = [
      await read.selectFrom('tokens').selectAll().execute(),
      await read.selectFrom('events').selectAll().execute(),
    ];
    expect(JSON.stringify(rows)).not.toContain(token);
  });

  test('the link works for 7 days; then it and the account are gone', async () => {
    const { clock, http, signup, status } = await start();
    const made = (await signup(ANNA)).json();
    const path = await mailedPath(http);
    clock.advance(7 * DAY - 1);
    await sweepTokens({ store: http.store, clock });
    expect((await http.request(path)).status).toBe(200);
    clock.advance(1);
    for (const method of ['GET', 'POST']) {
      const over = await http.request(path, { method });
      expect([over.status, over.text]).toEqual([404, expect.stringContaining('sign up again')]);
    }
    await sweepTokens({ store: http.store, clock });
    expect(outcome(await status(made['key']))).toEqual([401, 'AUTH_INVALID_KEY']);
    const { read } = http.store;
    expect(await read.selectFrom('tokens').selectAll().execute()).toEqual([]);
    expect(await read.selectFrom('api_keys').selectAll().execute()).toEqual([]);
    expect(await read.selectFrom('tenants').select('id').execute()).toEqual([{ id: OPERATOR }]);
  });

  test('a mailbox has one account, however it is written; the page says so', async () => {
    const { http, signup, status } = await start();
    await signup({ name: 'Anna', email: 'an.na@gmail.com' });
    await http.request(await mailedPath(http), { method: 'POST' });
    const [first] = await letters(http);
    const second = (await signup({ name: 'Anna', email: 'Anna+2@googlemail.com' })).json();
    const letter = (await letters(http)).find((mail) => mail.letter.to !== first?.letter.to);
    const path = /(\/confirm\/\S+)/.exec(letter?.letter.text ?? '')?.[1] ?? '';
    for (const method of ['GET', 'POST']) {
      expect((await http.request(path, { method })).text).toContain('You already have an account');
    }
    expect((await status(second['key'])).status).toBe(403);
  });

  test('who refused mail of this server is mailed no link, and whoever asks does not learn it', async () => {
    const { http, signup } = await start();
    const first = await signup(ANNA);
    const path = await mailedPath(http);
    expect((await http.request(`${path}?answer=never`)).text).toContain('Confirm the account');
    const refused = await http.request(`${path}?answer=never`, { method: 'POST' });
    expect(refused.text).toContain('This server no longer sends mail to');
    expect((await http.request(path, { method: 'POST' })).text).toContain('This server no longer sends mail to');
    const before = (await letters(http)).length;
    const again = await signup({ ...ANNA, email: 'anna+again@inbox.test' });
    expect([again.status, Object.keys(again.json())]).toEqual([200, Object.keys(first.json())]);
    expect(await letters(http)).toHaveLength(before);
  });

  test('the sweep leaves confirmed accounts alone', async () => {
    const { clock, http, signup, status } = await start();
    const made = (await signup(ANNA)).json();
    await http.request(await mailedPath(http), { method: 'POST' });
    clock.advance(30 * DAY);
    await sweepTokens({ store: http.store, clock });
    expect((await status(made['key'])).status).toBe(200);
  });

  test('a link that never was is told what to do', async () => {
    const { http } = await start();
    const answer = await http.request('/confirm/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA');
    expect([answer.status, answer.text]).toEqual([404, expect.stringContaining('This link does not work')]);
    expect((await http.request('/confirm/x', { method: 'DELETE' })).headers['allow']).toBe('HEAD, GET, POST');
  });

  test('one client, one mailbox: each has its cap', async () => {
    const { clock, http, signup } = await start();
    const statuses = async (emails: string[]) => {
      const answers = [];
      for (const email of emails) answers.push((await signup({ name: 'X', email })).status);
      return answers;
    };
    // However it is tagged or written, it is one person's.
    expect(
      await statuses(['v@inbox.test', 'v+a@inbox.test', 'V+b@INBOX.test', 'v+c@inbox.test', 'w@inbox.test']),
    ).toEqual([200, 200, 200, 429, 200]);
    expect(await letters(http)).toHaveLength(4);
    const refused = await signup({ name: 'X', email: 'x@inbox.test' });
    expect(outcome(refused)).toEqual([429, 'RATE_LIMITED']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect([refused.headers['x-ratelimit-limit'], refused.headers['x-ratelimit-remaining']]).toEqual(['5', '0']);
    // The operator is not counted.
    expect((await signup({ name: 'X', email: 'v@inbox.test' }, { local: true })).status).toBe(200);
    clock.advance(2 * DAY);
    expect(await statuses(['v@inbox.test'])).toEqual([200]);
  });

  const invalid: [body: object, path: string][] = [
    [{ email: 'a@inbox.test' }, 'name'],
    [{ name: 'A' }, 'email'],
    [{ name: 'A', email: 'a@inbox.test\r\nBcc: b@inbox.test' }, 'email'],
    [{ name: 'A', email: 'a@inbox.test,b@inbox.test' }, 'email'],
    [{ name: 'A', email: 'a@inbox.test', plan: 'enterprise' }, 'plan'],
  ];
  test.each(invalid)('%j is refused at %s', async (body, path) => {
    const { http, signup } = await start();
    expect((await signup(body)).json()).toMatchObject({ code: 'VALIDATION_FAILED', details: [{ path }] });
    expect(await letters(http)).toEqual([]);
  });
});
