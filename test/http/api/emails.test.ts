/** The published SDK of Resend against this server, pointed at it by `baseUrl` alone. */
import { Resend } from 'resend';
import { describe, expect, test } from 'vitest';
import { startEmailWorld, type EmailWorldSettings } from './email-world.ts';

async function startResend(given: EmailWorldSettings = {}) {
  const world = await startEmailWorld(given);
  return { ...world, resend: new Resend(world.key.value, { baseUrl: world.http.base }) };
}

const mail = { from: 'Shop <hello@shop.example>', to: 'ana@example.org', subject: 'Hi', html: '<b>Hello</b>' };
const LATER = '2026-01-02T08:00:00.000Z';

test('send and get', async () => {
  const { resend } = await startResend();
  const { data, error, headers } = await resend.emails.send({
    ...mail,
    to: ['ana@example.org'],
    cc: 'bob@example.org',
    replyTo: ['help@shop.example'],
    headers: { 'X-Order': '1' },
    tags: [{ name: 'kind', value: 'order' }],
    attachments: [{ filename: 'a.pdf', content: Buffer.from('%PDF') }],
  });
  expect([error, data]).toEqual([null, { id: expect.stringMatching(/^msg_/) }]);
  expect(headers?.['x-request-id']).toMatch(/^req_/);
  const got = await resend.emails.get(data?.id ?? '');
  expect(got.data).toEqual({
    object: 'email',
    id: data?.id,
    message_id: expect.stringMatching(/@shop\.example>$/),
    from: 'Shop <hello@shop.example>',
    to: ['ana@example.org'],
    cc: ['bob@example.org'],
    bcc: null,
    reply_to: ['help@shop.example'],
    subject: 'Hi',
    html: '<b>Hello</b>',
    text: 'Hello',
    tags: [{ name: 'kind', value: 'order' }],
    last_event: 'queued',
    created_at: '2026-01-01T00:00:00.000Z',
    scheduled_at: null,
  });
});

test('a template with its variables', async () => {
  const { resend } = await startResend({ settings: { from: 'shop@shop.example' } });
  const sent = await resend.emails.send({ to: mail.to, template: { id: 'welcome', variables: { name: 'Ana' } } });
  const got = await resend.emails.get(sent.data?.id ?? '');
  expect(got.data).toMatchObject({ from: 'shop@shop.example', subject: 'Welcome, Ana' });
});

test('idempotencyKey: once, whatever is repeated', async () => {
  const { resend, store } = await startResend();
  const first = await resend.emails.send(mail, { idempotencyKey: 'order/1' });
  const again = await resend.emails.send(mail, { idempotencyKey: 'order/1' });
  expect(again.data).toEqual(first.data);
  const changed = await resend.emails.send({ ...mail, subject: 'Ho' }, { idempotencyKey: 'order/1' });
  expect(changed.error).toMatchObject({ statusCode: 409, name: 'invalid_idempotent_request' });
  expect(await store.read.selectFrom('messages').select('id').execute()).toHaveLength(1);
});

describe('batch', () => {
  test('all in order, each with its id', async () => {
    const { resend } = await startResend();
    const { data } = await resend.batch.send([mail, { ...mail, subject: 'Second' }]);
    expect(data?.data).toHaveLength(2);
    expect((await resend.emails.get(data?.data[1]?.id ?? '')).data?.subject).toBe('Second');
  });

  test('strict: none where one is wrong; permissive: the others', async () => {
    const { resend, store } = await startResend();
    const emails = [{ ...mail, from: 'x@elsewhere.example' }, mail];
    const strict = await resend.batch.send(emails);
    expect(strict.error).toMatchObject({ statusCode: 403, name: 'invalid_from_address' });
    expect(await store.read.selectFrom('messages').select('id').execute()).toEqual([]);
    const permissive = await resend.batch.send(emails, { batchValidation: 'permissive' });
    expect(permissive.data).toEqual({
      data: [{ id: expect.stringMatching(/^msg_/) }],
      errors: [{ index: 0, message: expect.stringContaining('elsewhere.example') }],
    });
  });
});

test('scheduledAt: moved, and cancelled', async () => {
  const { resend, store } = await startResend();
  const id = (await resend.emails.send({ ...mail, scheduledAt: LATER })).data?.id ?? '';
  expect((await resend.emails.get(id)).data).toMatchObject({ last_event: 'scheduled', scheduled_at: LATER });
  const moved = '2026-01-03T08:00:00.000Z';
  expect((await resend.emails.update({ id, scheduledAt: moved })).data).toEqual({ object: 'email', id });
  expect((await resend.emails.get(id)).data).toMatchObject({ last_event: 'scheduled', scheduled_at: moved });
  const row = await store.read.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow();
  expect([row.next_attempt_at, row.expires_at - (row.next_attempt_at ?? 0)]).toEqual([
    Date.parse(moved),
    5 * 86_400_000,
  ]);
  const destination = await store.read.selectFrom('destinations').select('next_due_at').executeTakeFirstOrThrow();
  expect(destination.next_due_at).toBe(Date.parse(moved));
  expect((await resend.emails.cancel(id)).data).toEqual({ object: 'email', id });
  expect((await resend.emails.get(id)).data?.last_event).toBe('canceled');
  expect((await resend.emails.update({ id, scheduledAt: LATER })).error).toMatchObject({ statusCode: 409 });
});

test('list, with after and before', async () => {
  const { resend, clock } = await startResend();
  const ids: string[] = [];
  for (const subject of ['one', 'two', 'three']) {
    ids.push((await resend.emails.send({ ...mail, subject })).data?.id ?? '');
    clock.advance(1);
  }
  const subjects = async (options: Parameters<typeof resend.emails.list>[0]) => {
    const { data } = await resend.emails.list(options);
    return [data?.has_more, ...(data?.data.map(({ subject }) => subject) ?? [])];
  };
  expect(await subjects({ limit: 2 })).toEqual([true, 'three', 'two']);
  expect(await subjects({ limit: 2, after: ids[1] ?? '' })).toEqual([false, 'one']);
  expect(await subjects({ limit: 1, before: ids[0] ?? '' })).toEqual([true, 'two']);
});

test('errors have the names that its clients know, and ours beside them', async () => {
  const { resend, http, ask } = await startResend();
  const stranger = new Resend('svc_sk_live_nonsense', { baseUrl: http.base });
  const errors = [
    (await stranger.emails.send(mail)).error,
    (await resend.emails.send({ ...mail, to: 'nobody' })).error,
    (await resend.emails.send({ ...mail, from: 'x@elsewhere.example' })).error,
    (await resend.emails.get('msg_nope')).error,
  ];
  expect(errors.map((error) => [error?.statusCode, error?.name])).toEqual([
    [401, 'invalid_api_key'],
    [400, 'validation_error'],
    [403, 'invalid_from_address'],
    [404, 'not_found'],
  ]);
  const raw = (await ask('/v1/emails', { body: { ...mail, from: undefined } })).json();
  expect(raw).toMatchObject({
    statusCode: 400,
    name: 'validation_error',
    message: 'from is missing.',
    error: 'from is missing.',
    code: 'VALIDATION_FAILED',
    request_id: expect.stringMatching(/^req_/),
  });
});
