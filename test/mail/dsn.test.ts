import * as fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { describe, expect, test } from 'vitest';
import { deliveryReport, statusOf, type DeliveryReport } from '../../src/mail/dsn.ts';

const HEADERS = 'From: Ana <ana@example.org>\r\nSubject: Hello\r\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\n';
const REPORT: DeliveryReport = {
  hostname: 'mail.example.net',
  to: 'ana@example.org',
  failed: [
    {
      address: 'sales@example.com',
      reply: '550 5.1.1 no such user',
      remote: 'mx.example.org',
      at: Date.UTC(2023, 10, 14, 22, 14),
    },
  ],
  arrived: Date.UTC(2023, 10, 14, 22, 13, 20),
  headers: HEADERS,
  date: Date.UTC(2023, 10, 14, 22, 14, 1),
  messageId: '<abc@mail.example.net>',
};

function report(changes: Partial<DeliveryReport> = {}): string {
  return deliveryReport({ ...REPORT, ...changes }).toString('latin1');
}

interface Part {
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** A header block and what follows it, to the letter of RFC 5322 §2.2. */
function readPart(text: string): Part {
  const end = text.indexOf('\r\n\r\n');
  const lines = text.slice(0, end).replaceAll(/\r\n(?=[ \t])/g, '');
  const headers = new Map<string, string>();
  for (const line of lines.split('\r\n')) {
    const [, name, value] = /^([!-9;-~]+): (\S(?:.*\S)?)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) throw new Error(`not a header: ${line}`);
    if (headers.has(name.toLowerCase())) throw new Error(`twice: ${name}`);
    headers.set(name.toLowerCase(), value);
  }
  return { headers, body: text.slice(end + 4) };
}

/** The three parts of a multipart/report, to the letter of RFC 2046 §5.1.1 and RFC 6522 §3. */
function readReport(mail: string): { readonly head: Part; readonly parts: readonly [Part, Part, Part] } {
  expect(mail.replaceAll('\r\n', '')).toMatch(/^[\t\x20-\x7e]*$/);
  expect(mail.endsWith('\r\n')).toBe(true);
  expect(Math.max(...mail.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(998);
  const head = readPart(mail);
  const type = /^multipart\/report; report-type=delivery-status; boundary="([^"]{1,70})"$/;
  const [, boundary = ''] = type.exec(head.headers.get('content-type') ?? '') ?? [];
  const pieces = `\r\n${head.body}`.split(`\r\n--${boundary}`);
  expect(pieces).toHaveLength(5);
  expect([pieces[0]?.trim(), pieces[4]]).toEqual(['', '--\r\n']);
  const parts = pieces.slice(1, 4).map((piece) => {
    expect(piece.startsWith('\r\n')).toBe(true);
    return readPart(piece.slice(2));
  });
  return { head, parts: parts as [Part, Part, Part] };
}

/** The groups of fields of a message/delivery-status (RFC 3464 §2.1). */
function fieldsOf({ body }: Part): Record<string, string>[] {
  return body
    .replace(/\r\n$/, '')
    .split('\r\n\r\n')
    .map((group) => Object.fromEntries(readPart(`${group.replace(/\r\n$/, '')}\r\n\r\n`).headers));
}

describe('a report', () => {
  test('is for people, for programs and for whoever wonders which mail it was', () => {
    const { head, parts } = readReport(report());
    expect(Object.fromEntries(head.headers)).toMatchObject({
      from: '"Mail Delivery System" <MAILER-DAEMON@mail.example.net>',
      to: 'ana@example.org',
      'auto-submitted': 'auto-replied',
      'message-id': '<abc@mail.example.net>',
      'mime-version': '1.0',
      date: 'Tue, 14 Nov 2023 22:14:01 +0000',
    });
    expect(parts.map(({ headers }) => headers.get('content-type'))).toEqual([
      'text/plain; charset=utf-8',
      'message/delivery-status',
      'text/rfc822-headers',
    ]);
    expect(parts[0].body).toContain('sales@example.com\r\n    mx.example.org said: 550 5.1.1 no such user\r\n');
    expect(fieldsOf(parts[1])).toEqual([
      { 'reporting-mta': 'dns; mail.example.net', 'arrival-date': 'Tue, 14 Nov 2023 22:13:20 +0000' },
      {
        'final-recipient': 'rfc822; sales@example.com',
        action: 'failed',
        status: '5.1.1',
        'remote-mta': 'dns; mx.example.org',
        'diagnostic-code': 'smtp; 550 5.1.1 no such user',
        'last-attempt-date': 'Tue, 14 Nov 2023 22:14:00 +0000',
      },
    ]);
    expect(parts[2].body).toBe(HEADERS);
  });

  test('is read by a parser that is not ours', async () => {
    const mail = await simpleParser(report(), { keepDeliveryStatus: true });
    expect(mail).toMatchObject({ subject: 'Your message could not be delivered', messageId: REPORT.messageId });
    expect(mail.from?.value).toEqual([{ name: 'Mail Delivery System', address: 'MAILER-DAEMON@mail.example.net' }]);
    expect(mail.text).toContain('sales@example.com');
    expect(mail.attachments.map(({ contentType }) => contentType)).toEqual([
      'message/delivery-status',
      'text/rfc822-headers',
    ]);
    expect(mail.attachments[1]?.content.toString()).toContain('Subject: Hello');
  });

  test('tells of several recipients, and of words that were our own', () => {
    const [first] = REPORT.failed;
    if (first === undefined) throw new Error('none');
    const own = { ...first, address: 'info@example.com', reply: '550 4.4.7 given up after 20 attempts', remote: null };
    const { parts } = readReport(report({ failed: [first, own] }));
    const [, , second] = fieldsOf(parts[1]);
    expect(second).toMatchObject({
      'final-recipient': 'rfc822; info@example.com',
      status: '4.4.7',
      'diagnostic-code': 'X-Postern; 550 4.4.7 given up after 20 attempts',
    });
    expect(second).not.toHaveProperty('remote-mta');
  });

  test('keeps an address beyond ASCII readable for programs', () => {
    const [first] = REPORT.failed;
    if (first === undefined) throw new Error('none');
    const { parts } = readReport(report({ failed: [{ ...first, address: 'größe+a@example.com' }] }));
    const [, recipient] = fieldsOf(parts[1]);
    expect(recipient?.['final-recipient']).toBe('utf-8; gr\\x{F6}\\x{DF}e\\x{2B}a@example.com');
    expect(parts[0].body).toContain('gr=C3=B6=C3=9Fe+a@example.com');
  });

  test.each([
    ['beyond ASCII', Buffer.from('Subject: Größe\r\n').toString('latin1')],
    ['of one long line', `Subject: ${'x'.repeat(5000)}\r\n`],
    ['with a NUL', 'Subject: a\0b\r\n'],
  ])('keeps header lines %s', async (_, headers) => {
    const { parts } = readReport(report({ headers }));
    expect(parts[2].headers.get('content-transfer-encoding')).toBe('quoted-printable');
    const mail = await simpleParser(report({ headers }), { keepDeliveryStatus: true });
    expect(mail.attachments[1]?.content.toString('latin1')).toBe(headers);
  });

  test('is whole whatever the servers and the headers say', () => {
    const line = fc.string({ unit: 'grapheme', maxLength: 1200 });
    const headers = fc
      .array(fc.string({ unit: 'binary-ascii', maxLength: 300 }))
      .map((lines) => lines.map((text) => `X: ${text.replaceAll(/[\r\n]/g, '')}\r\n`).join(''));
    fc.assert(
      fc.property(line, line, headers, (reply, remote, block) => {
        const [first] = REPORT.failed;
        if (first === undefined) throw new Error('none');
        const { parts } = readReport(report({ failed: [{ ...first, reply: `550 ${reply}`, remote }], headers: block }));
        expect(fieldsOf(parts[1])).toHaveLength(2);
      }),
      { numRuns: 300 },
    );
  });
});

test.each([
  ['550 5.1.1 no such user', '5.1.1'],
  ['550-5.7.26 unauthenticated', '5.7.26'],
  ['554 no', '5.0.0'],
  ['451 4.7.1 later', '4.7.1'],
  ['421', '4.0.0'],
  ['550 5.1.1234 odd', '5.0.0'],
  ['', '5.0.0'],
])('the status of %j is %s', (reply, status) => {
  expect(statusOf(reply)).toBe(status);
});
