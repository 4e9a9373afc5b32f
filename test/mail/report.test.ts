import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { deliveryReport } from '../../src/mail/dsn.ts';
import { MAX_REPORT_BYTES, readReport } from '../../src/mail/report.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';
import type { Report } from '../../src/mail/report-parts.ts';
import { isFailure } from '../../src/smtp/bounces.ts';
import {
  BOUNCES,
  complaint,
  DELAYED,
  EXCHANGE,
  EXIM,
  EXIM_IN_WORDS,
  GLOBAL,
  GMAIL,
  OTHERS,
  PERSON,
  POLICY,
  POSTFIX,
  QMAIL,
  RECEIPT,
  VACATION,
} from './report-fixtures.ts';

function read(text: string): Report {
  return readReport(Buffer.from(text));
}

/** `address action status` of each recipient. */
function summary(text: string): string[] {
  const report = read(text);
  if (report.kind !== 'bounce') return [report.kind];
  return report.recipients.map(({ address, action, status }) => `${address} ${action} ${status}`);
}

describe('what a bounce says', () => {
  const cases: readonly (readonly [string, string, ...string[]])[] = [
    ['Postfix', POSTFIX, 'ana@example.org failed 5.1.1'],
    ['Exim', EXIM, 'ana@example.org failed 5.1.1', 'ben@example.org failed 5.0.0'],
    ['Exim, in words', EXIM_IN_WORDS, 'ana@example.org failed 5.2.1'],
    ['qmail', QMAIL, 'ana@example.org failed 5.1.1', 'ben@example.org failed 5.0.0'],
    ['Exchange', EXCHANGE, 'ana@example.org failed 5.1.10'],
    ['Gmail', GMAIL, 'ana@example.org failed 5.2.2'],
    ['a policy', POLICY, 'ana@example.org failed 5.7.1'],
    ['a delay', DELAYED, 'ana@example.org delayed 4.4.1'],
    ['an address beyond ASCII', GLOBAL, 'jörg@example.org failed 5.1.1'],
  ];
  test.each(cases)('%s', (_, text, ...recipients) => expect(summary(text)).toEqual(recipients));

  test('all that is told of a recipient', () => {
    expect(read(POSTFIX)).toEqual({
      kind: 'bounce',
      recipients: [
        {
          address: 'ana@example.org',
          original: 'Ana@example.org',
          action: 'failed',
          status: '5.1.1',
          diagnostic: '550 5.1.1 <ana@example.org>: Recipient address rejected: User unknown in local recipient table',
          remote: 'store.example.org',
          meaning: { class: 'no_mailbox', suppress: true },
        },
      ],
    });
  });

  test('a report of our own is read again', () => {
    const date = Date.UTC(2026, 0, 1);
    const bytes = deliveryReport({
      hostname: 'mail.postern.test',
      to: 'shop@example.com',
      failed: [{ address: 'jörg@example.org', reply: '550 5.1.1 no such user', remote: 'mx.example.org', at: date }],
      arrived: date,
      headers: 'Subject: Hello\r\n',
      date,
      messageId: '<1@mail.postern.test>',
    });
    const report = readReport(bytes);
    expect(report.kind === 'bounce' && report.recipients[0]).toMatchObject({
      address: 'jörg@example.org',
      status: '5.1.1',
      diagnostic: '550 5.1.1 no such user',
    });
  });

  test.each(['base64', 'quoted-printable'])('fields in %s', (encoding) => {
    const fields =
      'Reporting-MTA: dns; x\r\n\r\nFinal-Recipient: rfc822; ana@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n';
    const body =
      encoding === 'base64' ? Buffer.from(fields).toString('base64') : fields.replaceAll('5.1', '5=2E=\r\n1');
    const head = `Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\nContent-Type: message/delivery-status`;
    const text = `${head}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}\r\n--b--\r\n`;
    expect(summary(text)).toEqual(['ana@example.org failed 5.1.1']);
  });

  test('one within another multipart, as lists and scanners wrap it, with a boundary that begins alike', () => {
    const inner = POSTFIX.replaceAll('0F1.2A/mx.example.org', 'part-inner');
    const text = `Content-Type: multipart/mixed; boundary="part"\r\n\r\n--part\r\n${inner}\r\n--part--\r\n`;
    expect(summary(text)).toEqual(['ana@example.org failed 5.1.1']);
  });

  test('one that breaks off behind its fields', () => {
    const end = POSTFIX.indexOf('Content-Type: text/rfc822-headers');
    expect(summary(POSTFIX.slice(0, end))).toEqual(['ana@example.org failed 5.1.1']);
  });

  test('the message that it is about tells nothing', () => {
    const text = `Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: message/rfc822\r\n\r\n${POSTFIX}\r\n--a--`;
    expect(summary(text)).toEqual(['unknown']);
  });
});

describe('who failed, and why', () => {
  test.each(BOUNCES)('%s', (_, text, ...recipients) => {
    const report = readReport(Buffer.from(text));
    const found = report.kind === 'bounce' ? report.recipients : [];
    expect(
      found.map(
        ({ address, action, meaning }) => `${address} ${action} ${meaning.class}${meaning.suppress ? '!' : ''}`,
      ),
    ).toEqual(recipients);
  });
});

describe('what is no bounce', () => {
  test.each(OTHERS)('%s', (_, text, kind, feedback, ...recipients) => {
    expect(read(text)).toEqual(feedback === undefined ? { kind } : { kind, feedback, recipients });
  });

  test('what has been delivered, relayed or is late has not failed', () => {
    for (const action of ['delivered', 'relayed', 'expanded', 'delayed']) {
      const report = read(POSTFIX.replace('Action: failed', `Action: ${action}`));
      expect(report.kind === 'bounce' && report.recipients.map(isFailure)).toEqual([false]);
    }
    expect(read(POSTFIX)).toMatchObject({ recipients: [{ action: 'failed' }] });
  });

  test('complaints', () => {
    expect(read(complaint('Abuse', 'ana@example.org', 'ben@example.org'))).toEqual({
      kind: 'complaint',
      feedback: 'abuse',
      recipients: ['ana@example.org', 'ben@example.org'],
    });
    expect(read(complaint('not-spam'))).toEqual({ kind: 'complaint', feedback: 'not-spam', recipients: [] });
  });

  test.each([
    ['somebody is out', VACATION, 'automatic'],
    ['somebody has read it', RECEIPT, 'automatic'],
    ['a person writes', PERSON, 'unknown'],
    ['nothing', '', 'unknown'],
    ['no header at all', '\r\nHello', 'unknown'],
    ['a mail system without a status', 'From: postmaster@example.org\r\n\r\nHello ana@example.org', 'unknown'],
  ])('%s', (_, text, kind) => expect(read(text).kind).toBe(kind));
});

test('whatever is changed in a report, it is read as one of the kinds, in words that fit a line', () => {
  const pieces = [
    '\r\n',
    '\r\n\r\n',
    '--',
    '\0',
    '\n',
    ';',
    ': ',
    '"',
    '=\r\n',
    '550 5.7.1 ',
    '\xff',
    'ana@example.org',
  ];
  const edit = fc.record({
    at: fc.nat(3000),
    drop: fc.nat(400),
    put: fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'binary', maxLength: 20 })),
  });
  const original = fc.constantFrom(
    POSTFIX,
    EXIM,
    EXIM_IN_WORDS,
    QMAIL,
    GLOBAL,
    VACATION,
    complaint('abuse', 'a@b.test'),
  );
  fc.assert(
    fc.property(original, fc.array(edit, { maxLength: 8 }), (text, edits) => {
      const changed = edits.reduce((all, { at, drop, put }) => all.slice(0, at) + put + all.slice(at + drop), text);
      const report = read(changed);
      expect(['bounce', 'complaint', 'automatic', 'unknown']).toContain(report.kind);
      if (report.kind !== 'bounce') return;
      for (const { address, original: named, action, status, diagnostic, remote } of report.recipients) {
        expect(action).toMatch(/^[a-z]*$/);
        expect(status).toMatch(/^(?:[245]\.\d{1,3}\.\d{1,3})?$/);
        for (const words of [address, named, diagnostic, remote]) expect(words).toMatch(/^\P{Cc}{0,500}$/u);
      }
    }),
    { numRuns: 2000 },
  );
});

describe('hostile input takes linear time', () => {
  const size = MAX_REPORT_BYTES;
  const head = 'From: mailer-daemon@x.test\r\nContent-Type: multipart/report; boundary="b"\r\n\r\n';
  const status = `${head}--b\r\nContent-Type: message/delivery-status\r\n\r\n`;
  const cases: Record<string, string> = {
    blanks: ' '.repeat(size),
    newlines: '\r\n'.repeat(size / 2),
    'folds of one field': `Subject: x\r\n${' x\r\n'.repeat(size / 4)}`,
    'one long field': `Subject: ${'; boundary='.repeat(size / 11)}`,
    'quotes in a content type': `Content-Type: multipart/x${'; boundary="'.repeat(size / 12)}`,
    'boundaries that end nothing': head + '--bb\r\n'.repeat(size / 6),
    boundaries: head + '--b\r\n'.repeat(size / 5),
    'messages within messages': 'From: mailer-daemon@x.test\r\nContent-Type: message/rfc822\r\n\r\n'.repeat(size / 60),
    'reports within reports': `${head}--b\r\nContent-Type: message/rfc822\r\n\r\n`.repeat(size / 120),
    'mbox lines': `From: postmaster@x.test\r\n\r\n${'From x y\r\n'.repeat(size / 10)}`,
    'a transcript': `From: postmaster@x.test\r\n\r\n${'<<< 550 x\r\n550 <a@b.test> x\r\n'.repeat(size / 30)}`,
    'nested multiparts': 'Content-Type: multipart/x; boundary="b"\r\n\r\n--b\r\n'.repeat(size / 50),
    'a boundary like its text': `Content-Type: multipart/x; boundary="${'a'.repeat(180)}"\r\n\r\n--${'a'.repeat(size)}`,
    'empty groups': status + '\r\n \r\n'.repeat(size / 5),
    recipients: status + 'Action: failed\r\n\r\n'.repeat(size / 18),
    'digits and dots': `From: mailer-daemon@x.test\r\n\r\n${'5.1.'.repeat(size / 4)}`,
    'reply codes': `From: mailer-daemon@x.test\r\n\r\n${'550 '.repeat(size / 4)}`,
    'at signs': `X-Failed-Recipients: ${'a@'.repeat(size / 2)}\r\n\r\n${'@ '.repeat(size / 2)}`,
    'equals signs': `From: postmaster@x.test\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n${'='.repeat(size)}`,
    dashes: `From: postmaster@x.test\r\n\r\n${'-'.repeat(size)}`,
  };
  test.each(Object.entries(cases))('%s', (_, text) => {
    const bytes = Buffer.from(text);
    const report = readReport(bytes);
    if (report.kind === 'bounce') expect(report.recipients.length).toBeLessThanOrEqual(100);
    expect(leastCpuSeconds(() => readReport(bytes), 0.4)).toBeLessThan(0.4);
  });
});
