import { describe, expect, test } from 'vitest';
import { authenticate } from '../../src/mail/authenticate.ts';
import { fieldsOf, readAuthor } from '../../src/mail/header.ts';
import { testClock } from '../harness/clock.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';
import { ACCEPTED, REFUSED, REFUSED_HEADERS } from './author-forms.ts';
import { stubDns } from './stub-dns.ts';

/** By our reading and mailauth's. */
async function judged(header: string) {
  return authenticate([Buffer.from(`${header}\r\nx\r\n`)], {
    ip: '192.0.2.1',
    helo: 'client.example.com',
    sender: 'a@evil.test',
    mta: 'mail.example.net',
    ask: stubDns({ 'TXT _dmarc.victim.test': 'v=DMARC1; p=reject' }).ask,
    clock: testClock(),
    timeoutMs: 10_000,
    trusted: [],
  });
}

test('the table has at least a hundred forms of From', () => {
  expect(ACCEPTED.length + REFUSED.length + REFUSED_HEADERS.length).toBeGreaterThan(150);
});

describe('one author', () => {
  test.each(ACCEPTED)('%j', async (form, address) => {
    const { author, verdicts } = await judged(`Subject: x\r\nFrom: ${form}\r\nTo: b@c.test\r\n`);
    expect(author).toMatchObject({ kind: 'one', address });
    expect(verdicts.from).toBe(address);
    // The policy that counts is that of the address which was read.
    expect(verdicts.dmarc.result).toBe(address.endsWith('victim.test') ? 'fail' : 'none');
  });
});

describe('no author', () => {
  test.each(REFUSED)('%j', async (form) => {
    const { author, verdicts } = await judged(`Subject: x\r\nFrom: ${form}\r\nTo: b@c.test\r\n`);
    expect(author.kind).not.toBe('one');
    expect(verdicts.from).toBe('');
    if (author.kind === 'unclear') expect(verdicts.dmarc.result).toBe('permerror');
    else expect(verdicts.dmarc.result).not.toBe('pass');
  });

  test.each(REFUSED_HEADERS)('%j', async (header) => {
    expect((await judged(header)).author.kind).not.toBe('one');
  });
});

test.each([
  ['Ceo <ceo@victim.test>', 'Ceo'],
  ['"Doe, John" <ceo@victim.test>', 'Doe, John'],
  ['ceo@victim.test (John Doe)', 'John Doe'],
  ['=?utf-8?Q?J=C3=B6rg?= <ceo@victim.test>', 'Jörg'],
  ['Ana (via Docs) <ceo@victim.test>', 'Ana'],
  ['ceo@victim.test', undefined],
])('the name in %j', (form, name) => {
  expect(readAuthor(fieldsOf(`From: ${form}\r\n`))).toMatchObject({ kind: 'one', name });
});

test('an address of bytes that are no UTF-8 is none; a name of them is one', () => {
  expect(readAuthor(fieldsOf('From: J\xf6rg <ceo@victim.test>\r\n'))).toMatchObject({ kind: 'one', name: 'Jörg' });
  expect(readAuthor(fieldsOf('From: <j\xf6rg@victim.test>\r\n')).kind).toBe('unclear');
});

test('reading takes linear time', () => {
  const forms = [
    '('.repeat(16_000),
    '"'.repeat(16_000),
    '<a@b.c>,'.repeat(2000),
    'a@b.c,'.repeat(2600),
    '[('.repeat(8000),
  ];
  expect(leastCpuSeconds(() => forms.forEach((form) => readAuthor(fieldsOf(`From: ${form}\r\n`))), 0.5)).toBeLessThan(
    0.5,
  );
});
