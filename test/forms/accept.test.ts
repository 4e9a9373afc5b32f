import { createSecretKey } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Idempotency } from '../../src/accounts/idempotency.ts';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import type { Form } from '../../src/config/snapshot.ts';
import { checkSubmission, createMatching, type SubmittedBody } from '../../src/forms/fields.ts';
import { createAccept, sweepAcknowledged, type Admitted } from '../../src/forms/accept.ts';
import { createFileStore } from '../../src/forms/files.ts';
import { checkForSpam } from './spam-check.ts';
import { silentLog } from '../../src/lib/log.ts';
import { filesOf, readFile, findSubmission, submissionsOf } from '../../src/store/submissions.ts';
import { UnmetError, StoreError } from '../../src/store/store.ts';
import { suppress } from '../../src/store/suppressions.ts';
import { testClock } from '../harness/clock.ts';
import { testConsent } from '../harness/consent.ts';
import { openTestStore } from '../harness/store.ts';
import { formOf, serverOf } from './world.ts';

const HOUR = 3_600_000;
const thanks = { acknowledgment: { enabled: true } };

async function openWorld() {
  const store = await openTestStore();
  const clock = testClock();
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  const wake = vi.fn<() => void>();
  const config = () => serverOf();
  const consent = testConsent({ store, clock, limits, config });
  const clientKey = createSecretKey(Buffer.alloc(32, 3));
  const parts = { store, clock, limits, consent, config, clientKey, wake };
  const accept = createAccept(parts);

  function admitted(form: Form, body: Partial<SubmittedBody>, more: Partial<Admitted> = {}): Admitted {
    const submission = checkSubmission(form, { entries: [], files: [], ...body }, createMatching());
    expect(submission.errors).toEqual([]);
    const ip = more.ip ?? '192.0.2.7';
    const spamVerdict = checkForSpam(form, { ...submission, ip });
    return { form, ...submission, spamVerdict, ip, userAgent: 'curl', referer: 'https://example.com/', ...more };
  }

  async function rows() {
    const messages = await store.read.selectFrom('messages').selectAll().orderBy('kind').execute();
    const deliveries = await store.read.selectFrom('deliveries').selectAll().orderBy('recipient').execute();
    const events = await store.read
      .selectFrom('events')
      .select(['type', 'submission', 'data'])
      .where('type', 'like', 'submission.%')
      .execute();
    return { messages, deliveries, events };
  }

  async function acknowledgedTo(): Promise<string[]> {
    const { messages, deliveries } = await rows();
    const ids = new Set(messages.filter(({ kind }) => kind === 'acknowledgment').map(({ id }) => id));
    return deliveries.filter(({ message }) => ids.has(message)).map(({ recipient }) => recipient);
  }

  return { store, clock, wake, accept, admitted, rows, acknowledgedTo };
}

const ana = {
  entries: [
    ['name', 'Ana'],
    ['email', 'ana@example.org'],
    ['topic', 'a'],
    ['topic', 'b'],
  ],
} as const;

test('one submission is one unit: itself, its files, its mail, its event and its count', async () => {
  const { store, clock, wake, accept, admitted, rows } = await openWorld();
  const form = formOf({ form: { to: ['one@example.org', 'two@example.net'], uploads: {}, ...thanks } });
  const writer = createFileStore({ store, clock }).begin({
    field: 'cv',
    filename: 'cv.pdf',
    contentType: 'application/pdf',
  });
  await writer.write(Buffer.from('%PDF'));
  const write = vi.spyOn(store, 'write');
  const { id, status } = await accept(admitted(form, { ...ana, files: [writer.end()] }));
  expect(write.mock.calls.filter(([unit]) => unit.length > 3)).toHaveLength(1);
  expect(status).toBe('accepted');
  expect(wake).toHaveBeenCalledTimes(1);

  expect(await findSubmission(store, id)).toMatchObject({
    tenant: 'ten_operator',
    form: 'example.com/contact',
    domain: 'example.com',
    revision: 'rev_1',
    fields: JSON.stringify([
      ['name', 'Ana'],
      ['email', 'ana@example.org'],
      ['topic', ['a', 'b']],
    ]),
    ip: '192.0.2.7',
    status: 'accepted',
    created_at: clock.now(),
  });
  const [file] = await filesOf(store, id);
  expect((await readFile(store, file?.id ?? '')).toString()).toBe('%PDF');
  const { messages, deliveries, events } = await rows();
  expect(messages.map(({ kind, submission, expires_at }) => [kind, submission, expires_at - clock.now()])).toEqual([
    ['acknowledgment', id, 24 * HOUR],
    // One for each recipient.
    ['notification', id, 120 * HOUR],
    ['notification', id, 120 * HOUR],
  ]);
  expect(deliveries.map(({ recipient, destination, state }) => [recipient, destination, state])).toEqual([
    ['ana@example.org', 'example.org', 'queued'],
    ['one@example.org', 'example.org', 'queued'],
    ['two@example.net', 'example.net', 'queued'],
  ]);
  expect(events).toMatchObject([
    { type: 'submission.accepted', submission: id, data: '{"form":"example.com/contact"}' },
  ]);
  expect(await submissionsOf(store, form.id)).toBe(1);
});

test('spam is kept with its reasons and mails nobody', async () => {
  const { store, wake, accept, admitted, rows } = await openWorld();
  const { id, status } = await accept(
    admitted(formOf({ form: thanks }), { entries: [...ana.entries, ['_gotcha', 'x']] }),
  );
  expect(status).toBe('spam');
  expect(await findSubmission(store, id)).toMatchObject({ status: 'spam', spam_score: 100 });
  expect(JSON.parse((await findSubmission(store, id))?.spam_reasons ?? '')).toMatchObject([{ name: 'honeypot' }]);
  const { messages, deliveries, events } = await rows();
  expect([messages, deliveries]).toEqual([[], []]);
  expect(events).toMatchObject([{ type: 'submission.spam', submission: id }]);
  expect(await submissionsOf(store, 'example.com/contact')).toBe(0);
  expect(wake).not.toHaveBeenCalled();
});

test('nothing of a submission is there when its unit fails, and nobody is told to deliver', async () => {
  const { store, wake, accept, admitted, rows } = await openWorld();
  vi.spyOn(store, 'write').mockRejectedValueOnce(new StoreError('disk full', 'SQLITE_FULL'));
  await expect(accept(admitted(formOf(), ana))).rejects.toThrow(StoreError);
  expect(wake).not.toHaveBeenCalled();
  expect(await rows()).toEqual({ messages: [], deliveries: [], events: [] });
});

test('an address is thanked once a day by all forms of the tenant, tags and case aside; each submission counts', async () => {
  const { store, clock, accept, admitted, acknowledgedTo } = await openWorld();
  const form = formOf({ form: thanks });
  const emails = ['ana@example.org', 'ANA@example.org', 'ana+2@example.org'];
  await Promise.all(emails.map((email) => accept(admitted(form, { entries: [['email', email]] }))));
  await accept(admitted(form, { entries: [['email', 'ana@example.org']] }));
  expect(await acknowledgedTo()).toHaveLength(1);
  expect(await submissionsOf(store, form.id)).toBe(4);
  await sweepAcknowledged({ store, clock });
  await accept(admitted(form, { entries: [['email', 'ana@example.org']] }));
  expect(await acknowledgedTo()).toHaveLength(1);
  clock.advance(24 * HOUR);
  await accept(admitted(form, { entries: [['email', 'ana@example.org']] }));
  expect(await acknowledgedTo()).toHaveLength(2);
  clock.advance(24 * HOUR + 1);
  await sweepAcknowledged({ store, clock });
  expect(await store.read.selectFrom('acknowledged').selectAll().execute()).toEqual([]);
});

test('no acknowledgment goes to roles, lists, ourselves and addresses that are suppressed', async () => {
  const { store, accept, admitted, acknowledgedTo } = await openWorld();
  await store.write([
    suppress({ tenant: 'ten_operator', address: 'gone@example.org', reason: 'bounce', created_at: 1 }),
  ]);
  const form = formOf({ form: thanks, domain: { forwarding: { 'info@example.com': 'x@example.org' } } });
  const refused = [
    'postmaster@example.org',
    'No-Reply+x@example.org',
    'dev-request@example.org',
    // The recipient, our sender, and what we forward.
    'Owner@example.org',
    'forms@example.com',
    'info+tag@example.com',
    'Gone@example.org',
  ];
  for (const email of refused) await accept(admitted(form, { entries: [['email', email]] }));
  expect(await acknowledgedTo()).toEqual([]);
  expect(await submissionsOf(store, form.id)).toBe(refused.length);
  // People of small firms are visitors like any other.
  await accept(admitted(form, { entries: [['email', 'info@example.org']] }));
  expect(await acknowledgedTo()).toEqual(['info@example.org']);
});

test('an acknowledgment needs a form that asks for it and an address, be it in _replyto', async () => {
  const { accept, admitted, acknowledgedTo } = await openWorld();
  await accept(admitted(formOf(), { entries: [['email', 'a@example.org']] }));
  await accept(
    admitted(formOf({ form: { acknowledgment: { enabled: false } } }), { entries: [['email', 'b@example.org']] }),
  );
  await accept(admitted(formOf({ form: thanks }), { entries: [['name', 'Ana']] }));
  expect(await acknowledgedTo()).toEqual([]);
  await accept(
    admitted(formOf({ form: thanks }), {
      entries: [
        ['name', 'Ana'],
        ['_replyto', 'ana@example.org'],
      ],
    }),
  );
  expect(await acknowledgedTo()).toEqual(['ana@example.org']);
});

test('one client is no cannon: after twenty addresses in an hour it sends acknowledgments to no more', async () => {
  const { accept, admitted, acknowledgedTo } = await openWorld();
  const form = formOf({ form: thanks });
  for (let i = 0; i < 25; i++) {
    const ip = `2001:db8::${i.toString(16)}`;
    await accept(admitted(form, { entries: [['email', `victim${i}@example.org`]] }, { ip }));
  }
  expect(await acknowledgedTo()).toHaveLength(20);
  await accept(admitted(form, { entries: [['email', 'other@example.org']] }, { ip: '2001:db8:0:1::1' }));
  expect(await acknowledgedTo()).toHaveLength(21);
});

test('the answer under an idempotency key is in the unit, also where the acknowledgment falls away', async () => {
  const { store, clock, accept, admitted, rows } = await openWorld();
  const keys = new Idempotency({ store, clock });
  const form = formOf({ form: thanks });
  await accept(admitted(form, ana));
  const begun = await keys.begin(form.id, 'k', 'h');
  if (begun.kind !== 'new') throw new Error('expected a new request');
  const answer = { status: 200, response: 'done' };
  const also: Admitted['also'] = ({ id }) => [keys.answer(begun.claim, { ...answer, response: id })];
  const { id } = await accept(admitted(form, ana, { also }));
  expect(await keys.begin(form.id, 'k', 'h')).toEqual({ kind: 'replay', status: 200, response: id });

  // The claim was answered meanwhile: this request must leave nothing.
  await expect(accept(admitted(form, ana, { also }))).rejects.toThrow(UnmetError);
  expect((await rows()).events).toHaveLength(2);
});

test('what a client says of itself is kept as one line, cut off', async () => {
  const { store, accept, admitted } = await openWorld();
  const { id } = await accept(
    admitted(formOf(), ana, { userAgent: `a\0b\r\nc${'x'.repeat(5000)}`, referer: '\u0007' }),
  );
  const row = await findSubmission(store, id);
  expect(row?.user_agent.slice(0, 6)).toBe('a b  c');
  expect([row?.user_agent.length, row?.referer]).toEqual([1000, '']);
});
