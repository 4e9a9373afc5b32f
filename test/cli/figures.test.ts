/** `analytics …`, `suppressions …`, `tenants …`, `usage` and `billing`. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { recordEvent } from '../../src/store/events.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';
import { person, type Person } from './cli-world.ts';

async function owner(): Promise<Person & { http: TestHttp; key: string }> {
  const http = await startHttp();
  const { value, id } = await testKey(http.store, { tenant: OPERATOR });
  return { ...(await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value })), http, key: id };
}

async function operator(http: TestHttp): Promise<Person> {
  return person({ POSTERN_URL: `unix:${http.socket}` });
}

describe('analytics', () => {
  test('counts, by day if no interval is given', async () => {
    const ana = await owner();
    await ana.http.request('/example.com/contact', { body: { email: 'bo@inbox.test', message: 'Hi' } });
    const { code, out } = await ana.say(['analytics'], { width: 80 });
    expect(code).toBe(0);
    expect(out).toMatch(/^DAY +SUBMISSIONS +QUEUED +DELIVERED\n2\d{3}-\d\d-\d\d +1 +\d +0\ntotal +1 +\d +0\n/);
    expect(out).toMatch(/\nFORM +SUBMISSIONS +SPAM\nexample\.com\/contact +1 +0\n/);
    const lines = (await ana.say(['analytics', '--interval', 'month', '--form', 'example.com/contact'])).out.split(
      '\n',
    );
    expect(lines).toEqual([
      expect.stringMatching(/^2\d{3}-\d\d\t1\t0\t\d(?:\t0){5}$/),
      expect.stringMatching(/^total\t1\t/),
      '',
    ]);
    const json = await ana.say(['analytics', '--from', '2026-01-01', '--to', '2026-01-02', '--json']);
    expect(JSON.parse(json.out)).toMatchObject({ interval: 'day', to: '2026-01-03T00:00:00.000Z', series: [{}, {}] });
    const said = [
      await ana.say(['analytics', '--interval', 'week']),
      await ana.say(['analytics', '--from', '2026-02-30']),
      await ana.say(['analytics', '--from', '2020-01-01', '--interval', 'hour']),
      await ana.say(['analytics', 'api-usgae']),
    ];
    expect(said.map(({ code, err }) => [code, err])).toEqual([
      [2, expect.stringContaining('Allowed choices are hour, day, month')],
      [2, expect.stringContaining('a date such as')],
      [1, expect.stringContaining('buckets')],
      [2, expect.stringContaining('api-usgae')],
    ]);
  });

  test('api-usage shows what keys asked for, of 7 or 30 days, of one key, and exports it', async () => {
    const ana = await owner();
    await ana.say(['forms', 'list']);
    const row = new RegExp(`^2\\d{3}-\\d\\d-\\d\\d\\t${ana.key}\\t\\d+\\t0\\t0\\n$`);
    for (const flags of [[], ['--last-30d'], ['--last-7d'], ['--last-7d', '--key', ana.key]]) {
      expect((await ana.say(['analytics', 'api-usage', ...flags])).out).toMatch(row);
    }
    expect(await ana.say(['analytics', 'api-usage', '--key', 'key_x'])).toMatchObject({
      code: 1,
      err: 'There is no key key_x.\n',
    });
    expect(await ana.say(['analytics', 'api-usage', '--last-7d', '--last-30d'])).toMatchObject({ code: 2 });
    const exported = ['analytics', 'export', '--type', 'api-usage', '--format', 'csv'];
    const csv = /^day,key,requests,errors,rate_limited\r\n2\d{3}-\d\d-\d\d,key_\w+,\d+,1,0\r\n$/;
    expect((await ana.say(exported)).out).toMatch(csv);
    expect(await ana.say([...exported, '--last-7d', '--output', 'usage.csv'])).toMatchObject({ code: 0, out: '' });
    expect(await ana.read('usage.csv')).toMatch(csv);
    expect(JSON.parse((await ana.say(['analytics', 'export', '--type', 'api-usage', '--json'])).out)).toMatchObject({
      usage: [{ key: ana.key }],
    });
    const shown = await ana.say(['analytics', 'export', '--type', 'api-usage', '--json'], { width: 80 });
    expect(shown.out).toMatch(/}\n$/);
    expect(await ana.say([...exported, '--output', 'nowhere/usage.csv'])).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/^Cannot write nowhere\/usage\.csv: ENOENT[^\n]*\n$/),
    });
    expect(await ana.say(['analytics', 'export'])).toMatchObject({
      code: 2,
      err: expect.stringContaining("'--type <type>' not specified"),
    });
  });

  test('a download that breaks off is told from one that is whole', async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, { 'Content-Length': 1000 }).write('day,key');
      setTimeout(() => response.destroy(), 50);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const ana = await person({
      POSTERN_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      POSTERN_API_KEY: 'x',
    });
    expect(await ana.say(['analytics', 'export', '--type', 'api-usage'])).toMatchObject({
      code: 3,
      err: expect.stringContaining('The download is incomplete'),
    });
  });
});

test('events are listed, by type', async () => {
  const ana = await owner();
  expect(await ana.say(['events', 'list', '--type', 'email.bounced'])).toMatchObject({
    code: 0,
    out: '',
    err: 'No matching events.\n',
  });
  const data = { recipient: 'bo@gone.test', reply: '550 5.1.1 no such user', dsn: 'not_vouched' };
  const about = { tenant: OPERATOR, at: Date.now(), domain: 'example.com' };
  await ana.http.store.write([recordEvent({ type: 'email.bounced', ...about, data })]);
  const listed = async (...flags: string[]) => (await ana.say(['events', 'list', ...flags], { width: 200 })).out;
  await expect
    .poll(() => listed('--type', 'email.bounced', '--domain', 'example.com'))
    .toMatch(/email\.bounced +example\.com +bo@gone\.test +550 5\.1\.1 no such user \(no DSN sent: not_vouched\)\n/);
  expect(await listed('--type', 'email.delivered')).toBe('No matching events.\n');
});

test('suppressions are added, listed and removed', async () => {
  const ana = await owner();
  expect(await ana.say(['suppressions', 'list'])).toMatchObject({
    code: 0,
    out: '',
    err: 'The suppression list is empty.\n',
  });
  await ana.say(['suppressions', 'add', 'Bo@Inbox.test', '--reason', 'unsubscribe']);
  expect(await ana.say(['suppressions', 'add', 'al@inbox.test'])).toMatchObject({
    code: 0,
    out: 'Suppressed al@inbox.test (manual). No mail is sent to this address.\n',
  });
  expect(await ana.say(['suppressions', 'add', 'al@inbox.test', '--form', 'shop.test/contact'])).toMatchObject({
    code: 0,
    out: 'Suppressed al@inbox.test (manual). It gets no notifications from the form shop.test/contact.\n',
  });
  const { out } = await ana.say(['suppressions', 'list'], { width: 100 });
  expect(out).toMatch(
    /^ADDRESS +FORM +REASON +SINCE\nal@inbox\.test +manual +2\S+Z\nal@inbox\.test +shop\.test\/contact +manual +2\S+Z\nbo@inbox\.test +unsubscribe +2\S+Z\n3 of 3\n$/,
  );
  expect(await ana.say(['suppressions', 'remove', 'al@inbox.test', '--form', 'shop.test/contact'])).toMatchObject({
    code: 0,
    out: 'Removed al@inbox.test from the suppression list.\n',
  });
  expect(await ana.say(['suppressions', 'remove', 'bo@inbox.test'])).toMatchObject({
    code: 0,
    out: 'Removed bo@inbox.test from the suppression list.\n',
  });
  expect(await ana.say(['suppressions', 'remove', 'bo@inbox.test'])).toMatchObject({
    code: 1,
    err: 'bo@inbox.test is not on the suppression list.\n',
  });
  expect(await ana.say(['suppressions', 'add', 'bo'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('an email address such as'),
  });
});

describe('whoever runs the server', () => {
  test('makes accounts, puts them on plans, suspends and resumes them', async () => {
    const http = await startHttp();
    const root = await operator(http);
    const made = await root.say(['tenants', 'create', '--name', 'Bo', '--email', 'bo@inbox.test', '--plan', 'pro']);
    expect(made).toMatchObject({ code: 0, err: 'Save the key now. It is not shown again.\n' });
    const [, id = ''] = /^account +(ten_\w+)$/m.exec(made.out) ?? [];
    const [, key = ''] = /^key +(svc_sk_live_\w+)$/m.exec(made.out) ?? [];
    const bo = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: key });
    expect(await bo.say(['auth', 'status'])).toMatchObject({ code: 0, out: expect.stringContaining('plan pro') });
    expect(await root.say(['tenants', 'suspend', id])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^state +suspended$/m),
    });
    expect(await bo.say(['auth', 'status'])).toMatchObject({ code: 1, err: expect.stringContaining('suspended') });
    expect(await root.say(['tenants', 'resume', id])).toMatchObject({ code: 0 });
    const set = await root.say(['tenants', 'set-plan', id, 'free', '--requests-per-hour', '42']);
    expect(set.out).toMatch(/^plan +free, with 42 requests per hour$/m);
    expect((await root.say(['tenants', 'set-plan', id, 'free'])).out).toMatch(/^plan +free$/m);
    expect((await root.say(['tenants', 'list'])).out.split('\n').map((line) => line.split('\t').slice(0, 4))).toEqual([
      [OPERATOR, 'active', 'yes', 'enterprise'],
      [id, 'active', 'yes', 'free'],
      [''],
    ]);
    expect(await root.say(['tenants', 'set-plan', id, 'gold'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('must be one of'),
    });
    expect(await bo.say(['tenants', 'list'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('connect as the operator'),
    });
  });

  test('sees what was used and what is owed', async () => {
    const http = await startHttp();
    const root = await operator(http);
    expect(await root.say(['billing'])).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^No amounts due for 2\d{3}-\d\d\.$/m),
    });
    const { value, tenant } = await testKey(http.store);
    await (await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value })).say(['forms', 'list']);
    const { out } = await root.say(['usage'], { width: 120 });
    expect(out).toMatch(/^ACCOUNT +REQUESTS +SUBMISSIONS/);
    expect(out).toMatch(new RegExp(`^${tenant} +1 `, 'm'));
    expect(out).toMatch(/^total +1 /m);
    expect((await root.say(['billing'])).out).toBe(`${[tenant, 'free', '1', '0', '0', '0 EUR'].join('\t')}\n`);
    expect(await root.say(['billing', '--month', '2026-13'])).toMatchObject({ code: 2 });
    expect(JSON.parse((await root.say(['billing', '--month', '2020-01', '--json'])).out)).toMatchObject({
      month: '2020-01',
      lines: [],
    });
    expect(
      JSON.parse((await root.say(['usage', '--from', '2026-01-01', '--to', '2026-01-31', '--json'])).out),
    ).toMatchObject({ to: '2026-02-01T00:00:00.000Z' });
  });
});
