import { expect, test } from 'vitest';
import { formSchema } from '../../src/config/schema.ts';
import { digestMail, entryOf, lastDue } from '../../src/forms/digest.ts';
import { ownerFields } from '../../src/forms/form-mail.ts';
import { translationOf } from '../../src/languages/languages.ts';
import { isoTime } from '../../src/lib/clock.ts';
import type { SubmissionRow } from '../../src/store/tables.ts';

test.each([
  ['daily', 'UTC', '2026-03-04T06:59:00Z', '2026-03-03T07:00:00Z'],
  ['daily', 'UTC', '2026-03-04T07:00:00Z', '2026-03-04T07:00:00Z'],
  ['daily', 'Europe/Berlin', '2026-03-04T07:00:00Z', '2026-03-04T06:00:00Z'],
  // Summer time begins on 29 March and ends on 25 October.
  ['daily', 'Europe/Berlin', '2026-03-29T05:30:00Z', '2026-03-29T05:00:00Z'],
  ['daily', 'Europe/Berlin', '2026-10-25T05:30:00Z', '2026-10-24T05:00:00Z'],
  ['daily', 'Asia/Kolkata', '2026-03-04T01:29:00Z', '2026-03-03T01:30:00Z'],
  ['daily', 'Pacific/Auckland', '2026-03-04T18:00:00Z', '2026-03-04T18:00:00Z'],
  ['weekly', 'UTC', '2026-03-04T12:00:00Z', '2026-03-02T07:00:00Z'],
  ['weekly', 'America/New_York', '2026-03-02T11:00:00Z', '2026-02-23T12:00:00Z'],
] as const)('a %s digest in %s was due last before %s at %s', (digest, timezone, now, due) => {
  expect(isoTime(lastDue(Date.parse(now), { digest, timezone }))).toBe(isoTime(Date.parse(due)));
});

const ROW: SubmissionRow = {
  id: 'sub_01kdvdna00dygrdbn7kp1hvk3p',
  tenant: 'ten_operator',
  form: 'example.com/contact',
  domain: 'example.com',
  revision: '',
  fields: '[]',
  control: '{}',
  ip: '192.0.2.7',
  user_agent: '',
  referer: '',
  status: 'spam',
  spam_score: 10,
  spam_reasons: '[]',
  environment: 'live',
  stored: null,
  learned: null,
  accepted_at: null,
  unread: 1,
  has_files: 0,
  created_at: 1_767_225_600_000,
};

test('what visitors wrote is short, and no mail program makes a link of it', () => {
  const fields = [
    ['name', 'Kevin'],
    ['email', 'kevin@evil.example'],
    ['message', `<b>Buy</b>\r\nhttps://evil.example/x or www.evil.example ${'x'.repeat(5000)}`],
  ];
  const reasons = [{ name: 'links', score: 10, detail: `a link to evil.example ${'y'.repeat(500)}` }];
  const row = { ...ROW, fields: JSON.stringify(fields), spam_reasons: JSON.stringify(reasons) };
  const entry = entryOf(row, formSchema.parse({ name: 'Contact' }));
  expect(entry).toMatchObject({ form: 'Contact', sender: 'Kevin <kevin@evil.example>' });
  expect(entry.words).toMatch(/^<b>Buy<\/b> https: \/\/evil\[\.\]example\/x or www\[\.\]evil\[\.\]example x+…$/);
  expect([entry.words.length < 250, entry.reasons[0]?.length]).toEqual([true, 122]);
  const { text, html } = digestMail({
    project: '<i>Shop</i>',
    weekly: true,
    timezone: 'UTC',
    translation: translationOf('en'),
    entries: [
      { ...entry, view: 'https://m.example/s/v', release: 'https://m.example/s/r', confirm: 'https://m.example/s/c' },
    ],
    count: 3,
    releaseAll: 'https://m.example/s/R',
    confirmAll: 'https://m.example/s/C',
    failed: [
      { form: 'example.com/contact', recipient: 'a@example.com', count: 2, reply: '550 5.1.1 <no>\r\nsuch user' },
    ],
  });
  expect(text).toContain('2 more are not listed here.');
  expect(text).toContain('example.com/contact, a@example.com: 2 emails were not delivered. 550 5.1.1 <no> such user');
  expect(text).toContain('at most once a week');
  expect(html).not.toMatch(/<b>|<i>|<no>/);
  expect([...html.matchAll(/href="([^"]*)"/g)].map(([, url]) => url)).toEqual(
    ['r', 'c', 'v', 'R', 'C'].map((name) => `https://m.example/s/${name}`),
  );
});

test('owners see their own labels, answers in words, and links to write or call back', () => {
  const config = formSchema.parse({
    fields: { budget: { label: 'What can you spend?', owner_label: 'Budget' }, call: { type: 'tel' } },
  });
  const fields = ownerFields(
    [
      ['budget', '100'],
      ['call', '+44 (0)20 7946-0000'],
      ['phone', 'ask my assistant'],
      ['Phone number', '030/123 456'],
      ['email', 'Zoë@example.org'],
      ['company', ' '],
      ['days', ['Monday', 'Friday']],
    ],
    config,
    translationOf('en'),
  );
  expect(fields.map(({ label, value, link }) => [label, value, link])).toEqual([
    ['Budget', '100', undefined],
    ['Call', '+44 (0)20 7946-0000', 'tel:+442079460000'],
    ['Phone', 'ask my assistant', undefined],
    ['Phone', '030/123 456', 'tel:030123456'],
    ['Email', 'Zoë@example.org', 'mailto:Zo%C3%AB@example.org'],
    ['Days', 'Monday, Friday', undefined],
  ]);
});
