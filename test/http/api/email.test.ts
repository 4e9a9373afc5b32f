import { describe, expect, test } from 'vitest';
import type { TestAnswer } from '../../harness/http.ts';
import { enqueue } from '../../../src/queue/enqueue.ts';
import { loseConfirmations } from '../../harness/lost-commit.ts';
import { testKey } from '../../harness/keys.ts';
import { hello, startEmailWorld } from './email-world.ts';

/** What a client reads first of a refusal. */
const outcome = (answer: TestAnswer) => [answer.status, answer.json()['code'], answer.json()['error']];

describe('POST /email/send', () => {
  test('accepts a mail from a template, at once in the queue, once per recipient', async () => {
    const { ask, http } = await startEmailWorld({ settings: { from: 'The Shop <shop@shop.example>' } });
    const answer = await ask('/v1/email/send', {
      body: {
        to: ['Ana <ana@Example.org>', 'bob@example.org'],
        cc: 'bob@example.org',
        bcc: ['carol@example.net'],
        template: 'welcome',
        data: { name: 'Ana <b>' },
        tags: [{ name: 'kind', value: 'welcome' }],
      },
    });
    expect([answer.status, answer.json()]).toEqual([
      200,
      {
        id: expect.stringMatching(/^msg_[0-9a-z]{26}$/),
        status: 'queued',
        to: ['ana@example.org', 'bob@example.org'],
        message_id: expect.stringMatching(/^<[0-9a-z]{26}@shop\.example>$/),
      },
    ]);
    expect(http.wakes()).toBe(1);
    expect((await http.queue()).map(({ recipient }) => recipient).toSorted()).toEqual([
      'ana@example.org',
      'bob@example.org',
      'carol@example.net',
    ]);
    const shown = await ask(`/email/${String(answer.json()['id'])}`);
    expect(shown.json()).toMatchObject({
      status: 'queued',
      environment: 'live',
      from: 'The Shop <shop@shop.example>',
      to: ['Ana <ana@example.org>', 'bob@example.org'],
      cc: ['bob@example.org'],
      bcc: ['carol@example.net'],
      subject: 'Welcome, Ana <b>',
      html: '<p>Hello Ana &lt;b&gt;, Ana &lt;b&gt;</p>',
      text: 'Hello Ana <b>, Ana <b>',
      tags: [{ name: 'kind', value: 'welcome' }],
      created_at: '2026-01-01T00:00:00.000Z',
      send_at: null,
      recipients: expect.arrayContaining([
        { address: 'ana@example.org', state: 'queued', next_attempt_at: expect.any(String), reply: null, attempts: [] },
      ]),
    });
  });

  test('the sender is noreply@ the first verified domain where nothing names another', async () => {
    const { ask } = await startEmailWorld({ domains: { 'b.example': 'pending', 'c.example': 'degraded' } });
    const answer = await ask('/email/send', { body: { ...hello, from: undefined } });
    expect((await ask(`/email/${String(answer.json()['id'])}`)).json()['from']).toBe('noreply@c.example');
    const nowhere = await startEmailWorld({ domains: { 'b.example': 'pending' } });
    const refused = await nowhere.ask('/email/send', { body: { ...hello, from: undefined } });
    expect(outcome(refused)).toEqual([403, 'DOMAIN_NOT_VERIFIED', 'There is no verified domain to send from.']);
  });

  const refused: [name: string, body: object, expected: unknown[]][] = [
    ['no recipient', { to: [] }, [400, 'VALIDATION_FAILED', expect.stringMatching(/^to /)]],
    [
      'two in one',
      { to: 'a@x.example, b@x.example' },
      [400, 'VALIDATION_FAILED', expect.stringContaining('one email address')],
    ],
    [
      'one of a list that is none',
      { to: ['a@x.example', 'b'] },
      [400, 'VALIDATION_FAILED', expect.stringMatching(/^to\.1 must be one/)],
    ],
    [
      'a line break in a name',
      { from: 'A\r\nBcc: x@y.example <hello@shop.example>' },
      [400, 'VALIDATION_FAILED', expect.stringMatching(/^from /)],
    ],
    [
      'a domain that is not known',
      { from: 'a@elsewhere.example' },
      [403, 'DOMAIN_NOT_VERIFIED', expect.stringContaining('is not a domain of this account')],
    ],
    ['a subdomain', { from: 'a@mail.shop.example' }, [403, 'DOMAIN_NOT_VERIFIED', expect.anything()]],
    ['another tenant’s domain', { from: 'a@example.com' }, [403, 'DOMAIN_NOT_VERIFIED', expect.anything()]],
    ['nothing to say', { text: undefined }, [400, 'VALIDATION_FAILED', expect.stringMatching(/^template is missing/)]],
    ['no subject', { subject: undefined }, [400, 'VALIDATION_FAILED', expect.stringMatching(/^subject is missing/)]],
    [
      'template and text',
      { template: 'welcome' },
      [400, 'VALIDATION_FAILED', 'template cannot be combined with text or html.'],
    ],
    [
      'no such template',
      { text: undefined, template: 'nope' },
      [404, 'TEMPLATE_NOT_FOUND', expect.stringContaining('"nope"')],
    ],
    [
      'another tenant’s template',
      { text: undefined, template: 'secret' },
      [404, 'TEMPLATE_NOT_FOUND', expect.anything()],
    ],
    [
      'another tenant’s project',
      { text: undefined, template: 'foreign/secret' },
      [404, 'NOT_FOUND', expect.anything()],
    ],
    [
      'a template in two projects',
      { text: undefined, template: 'both' },
      [400, 'VALIDATION_FAILED', 'template is in several projects; choose one: one/both, two/both.'],
    ],
    [
      'a template that fails',
      { text: undefined, template: 'one/loop' },
      [400, 'VALIDATION_FAILED', expect.stringMatching(/^template cannot be rendered: template "loop", text/)],
    ],
    [
      'a header of ours',
      { headers: { 'DKIM-Signature': 'x' } },
      [400, 'VALIDATION_FAILED', expect.stringMatching(/^headers\.DKIM-Signature cannot be set/)],
    ],
    ['a second From', { headers: { from: 'x@y.example' } }, [400, 'VALIDATION_FAILED', expect.anything()]],
    [
      'two lines in a header',
      { headers: { 'X-A': 'a\r\nBcc: x@y.example' } },
      [400, 'VALIDATION_FAILED', 'headers.X-A must be one line.'],
    ],
    [
      'a header twice',
      { headers: { 'X-A': 'a', 'x-a': 'b' } },
      [400, 'VALIDATION_FAILED', 'headers.x-a is given twice.'],
    ],
    [
      'no base64',
      { attachments: [{ filename: 'a', content: 'ä' }] },
      [400, 'VALIDATION_FAILED', 'attachments.0.content must be base64.'],
    ],
    [
      'a time far away',
      { send_at: '2026-03-01T00:00:00Z' },
      [400, 'VALIDATION_FAILED', 'send_at must be within 30 days.'],
    ],
    ['no time', { send_at: 'tomorrow' }, [400, 'VALIDATION_FAILED', expect.stringMatching(/^send_at must be a time/)]],
    [
      'a sandbox address',
      { to: 'bounce@sandbox.invalid' },
      [400, 'VALIDATION_FAILED', expect.stringContaining('test keys')],
    ],
    [
      'too many',
      { to: Array.from({ length: 51 }, (_, i) => `a${i}@x.example`) },
      [400, 'VALIDATION_FAILED', 'to must be at most 50 recipients, including cc and bcc.'],
    ],
    [
      'unsubscribe for several',
      { unsubscribe: true, to: ['a@x.example', 'b@x.example'] },
      [400, 'VALIDATION_FAILED', expect.stringMatching(/^unsubscribe /)],
    ],
    [
      'a word that is not known',
      { cci: 'a@x.example' },
      [400, 'VALIDATION_FAILED', expect.stringContaining('cci is not known')],
    ],
  ];

  test('refuses what cannot be sent, in words, and sends nothing', async () => {
    const { ask, http } = await startEmailWorld({
      projects: {
        one: { both: { text: 'x' }, loop: { text: '{% for i in (1..100000000) %}{{ i }}{% endfor %}' } },
        two: { both: { text: 'x' } },
      },
    });
    for (const [name, body, expected] of refused) {
      const answer = await ask('/email/send', { body: { ...hello, ...body } });
      expect([name, ...outcome(answer)]).toEqual([name, ...expected]);
    }
    expect(await http.queue()).toEqual([]);
  });

  test('503 where the disk is full', async () => {
    const { ask } = await startEmailWorld({ diskIsFull: true });
    expect((await ask('/email/send', { body: hello })).status).toBe(503);
  });

  test('503 with the id to look up where nobody knows whether the database has it', async () => {
    const { ask, http } = await startEmailWorld();
    loseConfirmations(http.store);
    const answer = await ask('/email/send', { body: hello });
    const [delivery] = await http.queue();
    expect(answer.status).toBe(503);
    expect(answer.json()).toMatchObject({ code: 'OUTCOME_UNKNOWN', id: delivery?.message });
    expect(answer.text).not.toMatch(/nothing was sent/i);
  });

  test('413 where the mail would be too big', async () => {
    const { ask } = await startEmailWorld({ limits: { message: '100KiB', body: '1MiB' } });
    const attached = (size: number) => ({
      body: { ...hello, attachments: [{ filename: 'a.bin', content: Buffer.alloc(size).toString('base64') }] },
    });
    expect(outcome(await ask('/email/send', attached(70_000)))[1]).toBe('BODY_TOO_LARGE');
    expect((await ask('/email/send', attached(50_000))).status).toBe(200);
    expect((await ask('/email/send', attached(900_000))).status).toBe(413);
  });

  test('a key with domain_restrictions sends from those alone, and sees no other mail', async () => {
    const { ask, http, key } = await startEmailWorld({
      domains: { 'shop.example': 'verified', 'two.example': 'verified' },
    });
    const other = await testKey(http.store, {
      tenant: key.tenant,
      restrictions: { domain_restrictions: ['two.example'] },
    });
    const { id } = (await ask('/email/send', { body: hello })).json();
    const narrow = { headers: other.headers };
    expect(outcome(await http.request('/email/send', { ...narrow, body: hello }))).toEqual([
      403,
      'AUTH_DOMAIN_NOT_ALLOWED',
      'The API key may not send as shop.example.',
    ]);
    const sent = await http.request('/email/send', { ...narrow, body: { ...hello, from: undefined } });
    expect(sent.status).toBe(200);
    expect((await http.request(`/email/${String(id)}`, narrow)).status).toBe(404);
    const list = (await http.request('/email', narrow)).json();
    expect(list).toMatchObject({ count: 1, emails: [{ from: 'noreply@two.example' }] });
    expect((await http.request('/suppressions', narrow)).status).toBe(403);
  });

  test('another tenant, and a key without the permission, see nothing', async () => {
    const { ask, http } = await startEmailWorld();
    const id = String((await ask('/email/send', { body: hello })).json()['id']);
    const stranger = await testKey(http.store);
    for (const [method, path] of [
      ['GET', `/email/${id}`],
      ['GET', `/email/${id}/source`],
      ['POST', `/email/${id}/cancel`],
      ['GET', `/emails/${id}`],
      ['POST', `/emails/${id}/cancel`],
    ] as const) {
      expect((await http.request(path, { method, headers: stranger.headers })).status).toBe(404);
    }
    expect((await http.request('/email', { headers: stranger.headers })).json()['count']).toBe(0);
    const reader = await testKey(http.store, { permissions: ['forms.read'] });
    expect((await http.request('/email/send', { headers: reader.headers, body: hello })).status).toBe(403);
  });

  test('the same Idempotency-Key sends once', async () => {
    const { ask, http } = await startEmailWorld();
    const request = { body: hello, headers: { 'Idempotency-Key': 'order-1' } };
    const [first, second] = [await ask('/email/send', request), await ask('/email/send', request)];
    expect([second.status, second.headers['idempotent-replayed'], second.text]).toEqual([200, 'true', first.text]);
    const changed = await ask('/email/send', { ...request, body: { ...hello, text: 'Other' } });
    expect(outcome(changed).slice(0, 2)).toEqual([409, 'IDEMPOTENCY_CONFLICT']);
    expect(await http.queue()).toHaveLength(1);
  });
});

test('a template knows the domain that it is sent as, and no visitor', async () => {
  const templates = { facts: { subject: '{{ domain }}', text: 'from {{ domain }} at "{{ ip }}"' } };
  const { ask } = await startEmailWorld({ templates });
  const sent = await ask('/email/send', { body: { to: 'ana@example.org', template: 'facts' } });
  const shown = await ask(`/email/${String(sent.json()['id'])}`);
  expect(shown.json()).toMatchObject({ subject: 'shop.example', text: 'from shop.example at ""' });
});

test('a template’s project is whom its mail is from: by its settings, else by its domain', async () => {
  const { ask } = await startEmailWorld({
    domains: { 'shop.example': 'verified', 'other.example': 'verified' },
    projects: { other: { note: { subject: 'Note', text: 'Note' } } },
    projectDomains: { other: { 'other.example': {} } },
  });
  const sent = await ask('/email/send', { body: { to: 'ana@example.org', template: 'note' } });
  expect(sent.status).toBe(200);
  const shown = await ask(`/email/${String(sent.json()['id'])}`);
  expect(shown.json()['from']).toContain('noreply@other.example');
});

test('email.send alone shows no notification, and nobody sees mail of the system', async () => {
  const { ask, store, http, key, clock } = await startEmailWorld({ permissions: ['email.send'] });
  const reader = await testKey(store, {
    tenant: key.tenant,
    now: clock.now(),
    permissions: ['email.send', 'forms.read'],
  });
  const about = { tenant: key.tenant, submission: null, domain: 'shop.example', recipients: ['a@example.org'], ttl: 1 };
  for (const kind of ['notification', 'acknowledgment', 'forward', 'system'] as const) {
    const { id, unit } = enqueue({ ...about, kind, source: {} }, clock.now());
    await store.write(unit);
    const path = `/email/${id}/source`;
    const alone = (await ask(path)).json();
    expect([kind, alone['code']]).toEqual([kind, kind === 'system' ? 'NOT_FOUND' : 'AUTH_FORBIDDEN']);
    if (kind !== 'system') expect(alone['error']).toContain('forms.read');
    const both = (await http.request(path, { headers: reader.headers })).json();
    expect([kind, both['error']]).toEqual([
      kind,
      kind === 'system' ? `There is no message ${id}.` : 'The finished message is not kept.',
    ]);
    expect((await ask(`/email/${id}/cancel`, { method: 'POST', body: {} })).status).not.toBe(200);
  }
  expect((await ask('/email')).json()).toMatchObject({ emails: [], count: 0 });
});

describe('POST /email/batch', () => {
  test('sends all, in order, in either spelling', async () => {
    const { ask } = await startEmailWorld();
    const emails = ['one', 'two'].map((subject) => ({ ...hello, subject }));
    for (const body of [emails, { emails }]) {
      const answer = (await ask('/email/batch', { body })).json() as { count: number; emails: { id: string }[] };
      expect(answer.count).toBe(2);
      const shown = await ask(`/email/${answer.emails[1]?.id}`);
      expect(shown.json()['subject']).toBe('two');
    }
  });

  test('or none, and names the one that is wrong', async () => {
    const { ask, http } = await startEmailWorld();
    const emails = [hello, { ...hello, from: 'a@elsewhere.example' }];
    expect((await ask('/email/batch', { body: emails })).status).toBe(403);
    const unfit = await ask('/email/batch', { body: { emails: [hello, { ...hello, headers: { To: 'x' } }] } });
    expect(unfit.json()['details']).toMatchObject([{ path: 'emails.1.headers.To' }]);
    expect((await ask('/email/batch', { body: Array.from({ length: 101 }, () => hello) })).status).toBe(400);
    expect(await http.queue()).toEqual([]);
  });
});

test('mail for later is scheduled, and can be cancelled', async () => {
  const { ask, http } = await startEmailWorld();
  const id = String(
    (await ask('/email/send', { body: { ...hello, send_at: '2026-01-02T09:00:00+01:00' } })).json()['id'],
  );
  expect((await ask(`/email/${id}`)).json()).toMatchObject({
    status: 'scheduled',
    send_at: '2026-01-02T08:00:00.000Z',
  });
  expect(await http.queue()).toMatchObject([{ next_attempt_at: '2026-01-02T08:00:00.000Z' }]);
  expect((await ask(`/email/${id}/cancel`, { method: 'POST' })).json()).toMatchObject({
    status: 'cancelled',
    recipients: [{ state: 'cancelled', reply: 'cancelled by the sender' }],
  });
  expect(outcome(await ask(`/email/${id}/cancel`, { method: 'POST' }))).toEqual([
    409,
    'CONFLICT',
    'Nothing is waiting for delivery: cancelled.',
  ]);
});

test('GET /email lists newest first, in pages', async () => {
  const { ask, clock } = await startEmailWorld();
  for (const subject of ['one', 'two', 'three']) {
    await ask('/email/send', { body: { ...hello, subject } });
    clock.advance(1);
  }
  const first = (await ask('/email?limit=2')).json();
  expect(first).toMatchObject({ count: 3, emails: [{ subject: 'three', status: 'queued' }, { subject: 'two' }] });
  const rest = (await ask(`/email?limit=2&cursor=${String(first['next_cursor'])}`)).json();
  expect(rest).toMatchObject({ count: 3, emails: [{ subject: 'one' }], next_cursor: null });
});
