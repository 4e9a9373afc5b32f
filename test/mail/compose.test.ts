import * as fc from 'fast-check';
import { simpleParser, type ParsedMail } from 'mailparser';
import { describe, expect, test } from 'vitest';
import { composeMail, type Mail } from '../../src/mail/compose.ts';

const MAIL: Mail = {
  from: { name: 'Contact', address: 'forms@example.com' },
  to: [{ address: 'owner@example.net' }],
  subject: 'Hello',
  text: 'Hi\n',
  date: Date.UTC(2023, 10, 14, 22, 13, 20),
  messageId: '<abc@example.com>',
};

async function compose(changes: Partial<Mail> = {}): Promise<string> {
  return (await composeMail({ ...MAIL, ...changes })).toString();
}

/** What an independent reader finds. */
function read(mail: string): Promise<ParsedMail> {
  return simpleParser(mail, {
    skipHtmlToText: true,
    skipTextToHtml: true,
    skipImageLinks: true,
    skipTextLinks: true,
  });
}

function headerNames(mail: string): string[] {
  const block = mail.slice(0, mail.indexOf('\r\n\r\n'));
  return block
    .replaceAll(/\r\n[ \t]/g, ' ')
    .split('\r\n')
    .map((line) => line.slice(0, line.indexOf(':')));
}

/** Every promise about lines and bytes. */
function expectCanonical(mail: string): void {
  expect(mail.replaceAll('\r\n', '')).toMatch(/^[\t\x20-\x7e]*$/);
  expect(mail.endsWith('\r\n')).toBe(true);
  expect(Math.max(...mail.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(998);
}

describe('a message', () => {
  test('of text alone is one part', async () => {
    expect(await compose({ headers: [['Auto-Submitted', 'auto-generated']] })).toBe(
      [
        'Date: Tue, 14 Nov 2023 22:13:20 +0000',
        'Message-ID: <abc@example.com>',
        'From: "Contact" <forms@example.com>',
        'To: owner@example.net',
        'Subject: Hello',
        'Auto-Submitted: auto-generated',
        'MIME-Version: 1.0',
        'Content-Type: text/plain; charset=utf-8',
        'Content-Transfer-Encoding: quoted-printable',
        '',
        'Hi',
        '',
      ].join('\r\n'),
    );
  });

  test('has the same bytes each time', async () => {
    const changes = {
      html: '<p>x</p>',
      attachments: [{ filename: 'a', contentType: 'a/b', content: Buffer.from('x') }],
    };
    expect(await compose(changes)).toBe(await compose(changes));
  });

  test('of text and HTML offers both, text first', async () => {
    const mail = await compose({ html: '<p>Hi</p>' });
    expect(mail).toMatch(/Content-Type: multipart\/alternative;\r\n boundary="=_/);
    expect(mail.indexOf('text/plain')).toBeLessThan(mail.indexOf('text/html'));
    expect(await read(mail)).toMatchObject({ text: 'Hi\n', html: '<p>Hi</p>' });
  });

  test('of HTML alone, and of nothing', async () => {
    expect(await compose({ text: undefined, html: '<p>Hi</p>' })).toContain(
      '\r\nContent-Type: text/html; charset=utf-8\r\n',
    );
    expect(await compose({ text: undefined })).toMatch(/Encoding: quoted-printable\r\n\r\n$/);
  });

  test('with files wraps the texts and gives the files back', async () => {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const large = Buffer.alloc(3_000_001, 'abc');
    const attachments = [
      { filename: 'all.bin', contentType: 'application/octet-stream', content: all },
      { filename: '報告書 2024.pdf', contentType: 'application/pdf', content: large },
      { filename: 'empty.txt', contentType: 'text/plain', content: Buffer.alloc(0) },
    ];
    const mail = await compose({ html: '<p>Hi</p>', attachments });
    expectCanonical(mail);
    const parsed = await read(mail);
    expect(parsed.html).toBe('<p>Hi</p>');
    expect(parsed.attachments.map((file) => [file.filename, file.contentType, file.contentDisposition])).toEqual(
      attachments.map((file) => [file.filename, file.contentType, 'attachment']),
    );
    for (const [i, file] of parsed.attachments.entries())
      expect(file.content.equals(attachments[i]?.content ?? all)).toBe(true);
  });

  test('names every mailbox, in folded lines', async () => {
    const to = Array.from({ length: 50 }, (_, i) => ({ name: `Person, number ${i}`, address: `p${i}@example.net` }));
    const mail = await compose({
      to,
      cc: [{ address: 'c@example.net' }],
      replyTo: [{ name: 'Ada', address: 'a@example.org' }],
    });
    expect(Math.max(...mail.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(76);
    const parsed = await read(mail);
    expect([parsed.to].flat().flatMap((list) => list?.value ?? [])).toEqual(to);
    expect(parsed.replyTo?.value).toEqual([{ name: 'Ada', address: 'a@example.org' }]);
    expect([parsed.cc].flat()[0]?.text).toBe('c@example.net');
  });

  test('writes internationalised domains as A-labels', async () => {
    expect(await compose({ to: [{ address: 'post@bücher.example' }] })).toContain(
      '\r\nTo: post@xn--bcher-kva.example\r\n',
    );
  });

  test('for nobody visible says so', async () => {
    expect(await compose({ to: [] })).toContain('\r\nTo: undisclosed-recipients:;\r\n');
  });

  test('keeps the address of one who needs SMTPUTF8 (RFC 6532)', async () => {
    expect(await compose({ to: [{ address: 'jürgen@example.net' }] })).toContain('\r\nTo: jürgen@example.net\r\n');
  });

  test('protects lines that servers and mailboxes change: dots, From, blanks at the end', async () => {
    const text = '.\n..x\nFrom here\nend \nend\t\n=20\n';
    const mail = await compose({ text });
    expect(mail).toMatch(/\r\n\r\n=2E\r\n=2E\.x\r\n=46rom here\r\nend=20\r\nend=09\r\n=3D20\r\n$/);
    expect((await read(mail)).text).toBe(text);
  });

  test('leaves a long URL in a header whole', async () => {
    const url = `<https://example.com/unsubscribe/${'x'.repeat(300)}>`;
    const mail = await compose({ headers: [['List-Unsubscribe', `${url}, <mailto:u@example.com>`]] });
    expect(mail).toContain(`\r\nList-Unsubscribe: ${url},\r\n <mailto:u@example.com>\r\n`);
  });

  test('folds no header line to blanks alone', async () => {
    const mail = await compose({ subject: `a${' '.repeat(300)}b` });
    expect(mail).not.toMatch(/\r\n[ \t]*\r\n[ \t]/);
    expect((await read(mail)).subject).toBe(`a${' '.repeat(300)}b`);
  });
});

describe('any Unicode comes back', () => {
  const unicode = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 120 }),
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.string({ unit: 'grapheme-ascii', maxLength: 120 }),
    fc.stringMatching(/^[=?_ "\\<>@,;:.()\r\n\0\tA-z]{0,80}$/),
  );
  /** What a header can show of a text: the control characters are blanks. */
  function shown(text: string): string {
    return text.replaceAll(/[\p{Cc}\u2028\u2029]/gu, ' ').trim();
  }

  test('in subjects, names and file names', async () => {
    await fc.assert(
      fc.asyncProperty(unicode, unicode, unicode, async (subject, name, filename) => {
        const mail = await compose({
          subject,
          from: { name, address: 'forms@example.com' },
          attachments: [{ filename, contentType: 'image/png', content: Buffer.from('x') }],
        });
        expectCanonical(mail);
        const parsed = await read(mail);
        expect(parsed.subject ?? '').toBe(shown(subject));
        expect(parsed.from?.value).toEqual([{ address: 'forms@example.com', name: shown(name) }]);
        expect(parsed.attachments[0]?.filename).toBe(shown(filename).split(/[/\\]/).at(-1)?.trim() || 'attachment');
      }),
      { numRuns: 400 },
    );
  });

  test('in text and HTML', async () => {
    await fc.assert(
      fc.asyncProperty(unicode, unicode, async (first, second) => {
        // The reader itself makes a line of a part without any.
        const [text, html] = [`.${first}`, `<${second}`];
        const mail = await compose({ text, html });
        expectCanonical(mail);
        const parsed = await read(mail);
        const lines = (value: string): string => value.replaceAll(/\r\n?/g, '\n');
        expect(parsed.text ?? '').toBe(lines(text));
        expect(parsed.html || '').toBe(lines(html));
      }),
      { numRuns: 400 },
    );
  });
});

describe('hostile values add nothing', () => {
  const hostile = [
    'x\r\nBcc: victim@example.org',
    'x\nBcc: victim@example.org\n\nbody',
    'x\r\n\r\n<script>',
    'x\0\rBcc: victim@example.org',
    'x\u2028Bcc: victim@example.org\u0085Bcc: victim@example.org',
    '"x" <victim@example.org>, "y',
    'x" <victim@example.org>',
    'x\\',
    '=?utf-8?Q?x=0D=0ABcc:_victim@example.org?=',
    '=?utf-8?B?IiA8dmljdGltQGV4YW1wbGUub3JnPiwgIng=?=',
    'group: victim@example.org;',
    'a.txt"; x="y',
    "utf-8''a%0D%0AContent-Type:%20text/html",
    '\r\n--=_mixed_0ddc2a4e1c4f7b1a--\r\n',
  ];

  test.each(hostile)('%j', async (value) => {
    const plain = await compose({
      html: 'x',
      attachments: [{ filename: 'x', contentType: 'a/b', content: Buffer.from('x') }],
    });
    const boundary = /boundary="([^"]+)"/.exec(plain)?.[1] ?? '';
    const text = `${value}\r\n--${boundary}\r\nContent-Type: text/html\r\n\r\n--${boundary}--\r\n`;
    const mail = await compose({
      from: { name: value, address: 'forms@example.com' },
      replyTo: [{ name: value, address: 'visitor@example.org' }],
      subject: value,
      text,
      html: text,
      headers: [['X-Form', value]],
      attachments: [{ filename: value, contentType: value, content: Buffer.from(text) }],
    });
    expectCanonical(mail);
    expect(headerNames(mail)).toEqual([
      'Date',
      'Message-ID',
      'From',
      'To',
      'Reply-To',
      'Subject',
      'X-Form',
      'MIME-Version',
      'Content-Type',
    ]);
    const parsed = await read(mail);
    expect(parsed.from?.value.map(({ address }) => address)).toEqual(['forms@example.com']);
    expect(parsed.replyTo?.value.map(({ address }) => address)).toEqual(['visitor@example.org']);
    expect([parsed.to].flat().flatMap((list) => list?.value.map(({ address }) => address))).toEqual([
      'owner@example.net',
    ]);
    expect(parsed.bcc).toBeUndefined();
    expect(parsed.attachments).toHaveLength(1);
    expect(mail).toContain('\r\nContent-Type: application/octet-stream\r\n');
    expect(parsed.attachments[0]?.content.toString()).toBe(text);
    expect(parsed.text).toContain(`--${boundary}--`);
  });

  test.each([
    'a@example.net, b@example.net',
    'a@example.net\r\nBcc: b@example.net',
    '"v@evil x"@example.net',
    'Name <a@example.net>',
    'a@[127.0.0.1]',
    '',
  ])('an address that is not exactly one throws: %j', async (address) => {
    await expect(compose({ to: [{ address }] })).rejects.toThrow(/not one email address/);
  });

  test.each(['Bcc', 'From', 'Subject', 'Content-Type', 'DKIM-Signature', 'X-A: b\r\nBcc', 'X-', '', 'Received'])(
    'the header %j throws',
    async (name) => {
      await expect(compose({ headers: [[name, 'x']] })).rejects.toThrow(/cannot be set/);
    },
  );

  test.each(['abc@example.com', '<a b@example.com>', '<a@b>\r\nBcc: x@example.com', '<>', '<a@b@c>'])(
    'the message id %j throws',
    async (messageId) => {
      await expect(compose({ messageId })).rejects.toThrow(/message id/);
    },
  );

  test.each(['message/rfc822', 'multipart/mixed; boundary=x', 'text/html; charset=utf-7', 'text', 'text/x y'])(
    'content of type %s is handed on as bytes',
    async (contentType) => {
      const attachments = [{ filename: 'x', contentType, content: Buffer.from('Subject: x\r\n\r\nhi') }];
      expect(await compose({ attachments })).toContain('\r\nContent-Type: application/octet-stream\r\n');
    },
  );

  test('values are capped', async () => {
    const mail = await compose({
      subject: 'ü'.repeat(100_000),
      from: { name: 'ü'.repeat(100_000), address: 'forms@example.com' },
      attachments: [
        { filename: `${'ü'.repeat(100_000)}.pdf`, contentType: 'application/pdf', content: Buffer.from('x') },
      ],
    });
    expect(mail.length).toBeLessThan(10_000);
    expect((await read(mail)).attachments[0]?.filename).toMatch(/^ü{180}\.pdf$/);
  });
});
