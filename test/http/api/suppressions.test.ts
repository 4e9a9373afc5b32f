import { createSecretKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { unsubscribeToken } from '../../../src/transactional/unsubscribe.ts';
import { hello, startEmailWorld } from './email-world.ts';

test('the list: added to, shown in pages, taken off; addresses are compared without case', async () => {
  const { ask } = await startEmailWorld();
  const added = await ask('/suppressions', { body: { address: 'Bob@Example.org' } });
  expect([added.status, added.json()]).toEqual([
    200,
    { address: 'bob@example.org', form: null, reason: 'manual', created_at: '2026-01-01T00:00:00.000Z' },
  ]);
  const again = await ask('/suppressions', { body: { address: 'bob@example.org', reason: 'complaint' } });
  expect(again.json()['reason']).toBe('manual');
  await ask('/suppressions', { body: { address: 'ana@example.org', reason: 'bounce' } });
  const first = (await ask('/v1/suppressions?limit=1')).json();
  expect(first).toMatchObject({ count: 2, suppressions: [{ address: 'ana@example.org', reason: 'bounce' }] });
  const next = encodeURIComponent(String(first['next_cursor']));
  expect((await ask(`/suppressions?limit=1&cursor=${next}`)).json()).toMatchObject({
    suppressions: [{ address: 'bob@example.org' }],
    next_cursor: null,
  });
  const removed = await ask('/suppressions/BOB%40example.org', { method: 'DELETE' });
  expect([removed.status, removed.json()['address']]).toEqual([200, 'bob@example.org']);
  expect((await ask('/suppressions/bob@example.org', { method: 'DELETE' })).status).toBe(404);
  expect((await ask('/suppressions', { body: { address: 'nobody' } })).status).toBe(400);
});

test('an entry for one form stands beside that for all other mail', async () => {
  const { ask } = await startEmailWorld();
  const address = 'bob@example.org';
  await ask('/suppressions', { body: { address, form: 'shop.example/contact', reason: 'unsubscribe' } });
  await ask('/suppressions', { body: { address } });
  const first = (await ask('/suppressions?limit=1')).json();
  expect(first).toMatchObject({ count: 2, suppressions: [{ address, form: null, reason: 'manual' }] });
  const next = encodeURIComponent(String(first['next_cursor']));
  expect((await ask(`/suppressions?limit=1&cursor=${next}`)).json()).toMatchObject({
    suppressions: [{ address, form: 'shop.example/contact', reason: 'unsubscribe' }],
    next_cursor: null,
  });
  const other = await ask(`/suppressions/${address}?form=shop.example/other`, { method: 'DELETE' });
  expect([other.status, other.json()['error']]).toEqual([
    404,
    `${address} is not on the suppression list for the form shop.example/other.`,
  ]);
  const removed = await ask(`/suppressions/${address}?form=shop.example/contact`, { method: 'DELETE' });
  expect([removed.status, removed.json()['form']]).toEqual([200, 'shop.example/contact']);
  expect((await ask('/suppressions')).json()).toMatchObject({ count: 1, suppressions: [{ form: null }] });
});

test('each tenant has its own', async () => {
  const { ask, http } = await startEmailWorld();
  await ask('/suppressions', { body: { address: 'ana@example.org' } });
  const { ask: other } = await startEmailWorld({ tenant: 'ten_two' });
  expect((await other('/suppressions')).json()['count']).toBe(0);
  expect((await http.request('/suppressions', { local: true })).json()['count']).toBe(0);
});

describe('unsubscribe', () => {
  const link = /^<https:\/\/mail\.example\.net(\/unsubscribe\/[A-Za-z0-9_.-]+)>$/;

  test('the header pair; the page asks, a POST is enough, and needs no key', async () => {
    const { ask, http } = await startEmailWorld();
    const { id } = (await ask('/email/send', { body: { ...hello, unsubscribe: true } })).json();
    const headers = (await ask(`/email/${String(id)}`)).json()['headers'] as Record<string, string>;
    expect(headers).toEqual({
      'List-Unsubscribe': expect.stringMatching(link),
      'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
    });
    const path = link.exec(headers['List-Unsubscribe'] ?? '')?.[1] ?? '';
    const page = await http.request(path);
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('ana@example.org')]);
    expect((await ask('/suppressions')).json()['count']).toBe(0);
    const done = await http.request(path, { body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) });
    expect([done.status, done.headers['set-cookie'], done.headers.location]).toEqual([200, undefined, undefined]);
    expect((await ask('/suppressions')).json()).toMatchObject({
      suppressions: [{ address: 'ana@example.org', reason: 'unsubscribe' }],
    });
    const forged = await http.request(`${path.slice(0, -1)}${path.endsWith('A') ? 'B' : 'A'}`, { method: 'POST' });
    expect(forged.status).toBe(404);
  });

  test('a link alone where one-click would not be over https; headers of one’s own are kept', async () => {
    const { ask } = await startEmailWorld({ baseUrl: 'http://mail.example.net' });
    const show = async (body: object) => {
      const { id } = (await ask('/email/send', { body: { ...hello, ...body } })).json();
      return (await ask(`/email/${String(id)}`)).json()['headers'];
    };
    expect(Object.keys((await show({ unsubscribe: true })) as object)).toEqual(['List-Unsubscribe']);
    const own = {
      'List-Unsubscribe': '<mailto:off@shop.example>',
      'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
    };
    expect(await show({ headers: own })).toEqual(own);
  });

  test('a token of another key is none', async () => {
    const { http } = await startEmailWorld();
    const key = createSecretKey(Buffer.alloc(32, 8));
    const token = unsubscribeToken({ tenant: 'ten_shop', address: 'ana@example.org' }, key);
    for (const wrong of [token, 'x', 'x.y', `${token}x`, '']) {
      expect((await http.request(`/unsubscribe/${wrong}`, { method: 'POST' })).status).toBe(404);
    }
  });
});
