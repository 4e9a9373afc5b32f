import { createSecretKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { notification } from '../../src/forms/form-mail.ts';
import { openReturnPath } from '../../src/mail/own-addresses.ts';
import { addressing, ana, formMailOf, openMailWorld, secret, type Entries } from './mail-world.ts';
import type { WorldConfig } from './world.ts';

test('a submission becomes a signed mail to the owner that the visitor can be answered from', async () => {
  const world = await openMailWorld({ form: { name: 'Contact us', to: ['a@example.org', 'b@example.net'] } });
  const id = await world.post([...ana, ['topic', 'x'], ['topic', 'y']]);
  const got = await world.read(id);
  expect(addressing(got)).toEqual({
    from: '"Ana García 田中 via Contact us" <forms@example.com>',
    to: 'a@example.org, b@example.net',
    cc: '',
    bcc: '',
    replyTo: '"Ana García 田中" <ana@example.org>',
  });
  expect(got.mail.subject).toBe('Contact us: Ana García 田中');
  expect(got.mail.date?.getTime()).toBe(world.clock.now());
  expect(got.mail.messageId).toBe(`<${got.message.id.slice(4)}@example.com>`);
  expect(got.mail.headers.get('auto-submitted')).toBe('auto-generated');
  for (const text of ['Ana García 田中', 'ana@example.org', 'Hello', 'x, y', '192.0.2.7'])
    expect(got.mail.text).toContain(text);
  expect(got.mail.html).toContain('there &lt;b&gt;');
  expect(openReturnPath(got.sender, createSecretKey(secret))).toBe(got.message.id);
  expect(got.sender).toMatch(/@mail\.example\.net$/);
  expect(got.smtpUtf8).toBe(false);
  expect(got.raw).not.toMatch(/[^\r]\n|\r[^\n]/);
});

describe('who a notification comes from and what it is about', () => {
  const template = { templates: { t: { subject: 'T {{ form.name }}', text: 'x' } } };
  test.each<[string, WorldConfig, Entries, object]>([
    [
      'the form’s subject goes first',
      { form: { template: 't', subject: 'F {{ form.name }}' }, ...template },
      [['_subject', 'S']],
      { subject: 'F Ana' },
    ],
    ['then the template’s', { form: { template: 't' }, ...template }, [['_subject', 'S']], { subject: 'T Ana' }],
    ['then _subject, which is no template', {}, [['_subject', 'S {{ form.name }}']], { subject: 'S {{ form.name }}' }],
    ['then the form’s name and the visitor’s', { form: { name: 'N' } }, [], { subject: 'N: Ana' }],
    [
      'a subject that comes out empty is none',
      { form: { subject: '{{ form.nothing }}' } },
      [['_subject', 'S']],
      { subject: 'S' },
    ],
    [
      'from and from_name',
      { form: { from: 'hi@example.com', from_name: '{{ form.name }} via us' } },
      [],
      { from: 'Ana via us <hi@example.com>' },
    ],
    [
      '_replyto goes before email',
      {},
      [
        ['_replyto', 'r@example.org'],
        ['email', 'e@example.org'],
      ],
      { replyTo: 'r@example.org' },
    ],
    ['no email: replyTo', { form: { replyTo: 'team@example.org' } }, [], { replyTo: 'team@example.org' }],
    [
      'no replies: replyTo',
      { form: { replies: false, replyTo: 'team@example.org' } },
      [['email', 'e@example.org']],
      { replyTo: 'team@example.org' },
    ],
    ['no replies and no replyTo', { form: { replies: false } }, [['email', 'e@example.org']], { replyTo: undefined }],
    [
      'an address that few servers take is left to the text',
      {},
      [['email', 'jürgen@example.org']],
      { replyTo: undefined },
    ],
  ])('%s', async (_, config, entries, expected) => {
    const { from, replyTo, subject } = await notification(formMailOf(config, [['name', 'Ana'], ...entries]), {
      to: ['a@example.org'],
      smtpUtf8: false,
    });
    const shown = {
      from: `${from.name} <${from.address}>`,
      replyTo: replyTo?.map(({ address }) => address).join(),
      subject,
    };
    expect(shown).toMatchObject(expected);
  });

  test('an address beyond ASCII is where answers go for servers that take it', async () => {
    const way = { to: ['a@example.org'], smtpUtf8: true };
    const mail = await notification(formMailOf({}, [['email', 'jürgen@example.org']]), way);
    expect(mail.replyTo).toEqual([{ address: 'jürgen@example.org', name: '' }]);
  });

  test('a _replyto that no header can hold is shown: the visitor can be reached', async () => {
    const entries: Entries = [
      ['name', 'Ana'],
      ['_replyto', 'ana@example.org'],
    ];
    const way = { to: ['a@example.org'], smtpUtf8: false };
    const text = async (form: object) => (await notification(formMailOf({ form }, entries), way)).text;
    expect(await text({ replies: false })).toContain('ana@example.org');
    expect(await text({})).not.toContain('ana@example.org');
  });
});

describe('nothing that is submitted adds a header, a recipient or a part', () => {
  const evil = 'x\r\nBcc: v@evil.example\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>\r\n.\r\n';
  test('in any field, subject, name or file', async () => {
    const world = await openMailWorld({
      form: { name: 'N', subject: '{{ form.subject }}', from_name: '{{ form.name }}', uploads: {} },
    });
    const id = await world.post(
      [
        ['name', evil],
        ['subject', evil],
        ['_subject', evil],
        ['message', evil],
        [evil, evil],
        ['__proto__', evil],
        ['toString', evil],
      ],
      [
        [evil, evil, Buffer.from('content')],
        ['../../etc/passwd', 'message/rfc822', Buffer.from('Bcc: x@y\r\n\r\n')],
      ],
    );
    const got = await world.read(id);
    expect(addressing(got)).toMatchObject({ to: 'owner@example.org', cc: '', bcc: '', replyTo: undefined });
    const names = got.raw
      .slice(0, got.raw.indexOf('\r\n\r\n'))
      .split('\r\n')
      .filter((line) => !/^\s/.test(line))
      .map((line) => line.split(':')[0]);
    expect(names).toEqual([
      'DKIM-Signature',
      'Date',
      'Message-ID',
      'From',
      'To',
      'Subject',
      'Auto-Submitted',
      'X-Entity-Ref-ID',
      'MIME-Version',
      'Content-Type',
    ]);
    expect(got.mail.subject).toMatch(/^x Bcc: v@evil\.example/);
    expect(got.mail.html).not.toContain('<script>alert');
    expect(
      got.mail.attachments.map(({ filename, contentType, content }) => [filename, contentType, content.toString()]),
    ).toEqual([
      [expect.stringContaining('script>'), 'application/octet-stream', 'content'],
      ['passwd', 'application/octet-stream', 'Bcc: x@y\r\n\r\n'],
    ]);
    expect(got.mail.text).toContain('__proto__\n');
    expect(got.mail.text).toContain('To String\n');
  });

  test('five thousand values and names that objects inherit come through', async () => {
    const template = { text: '{{ form.__proto__ }}|{{ form.toString }}|{{ form.x.size }}|{{ form.constructor }}' };
    const world = await openMailWorld({ form: { template: 't' }, templates: { t: template } });
    const many = Array.from({ length: 5000 }, (_, i) => ['x[]', String(i)] as const);
    const got = await world.read(await world.post([...many, ['__proto__', 'p'], ['toString', 's']]));
    expect(got.mail.text?.trim()).toBe('p|s|5000|');
  });
});

describe('files', () => {
  test('arrive byte by byte, small and large, in the order sent', async () => {
    const world = await openMailWorld({ form: { uploads: {} } });
    const large = Buffer.alloc(700_000, 'abc\r\n\0');
    const id = await world.post(ana, [
      ['a.txt', 'text/plain', Buffer.from('a')],
      ['写真.png', 'image/png', large],
      ['empty', '', Buffer.alloc(0)],
    ]);
    const { mail } = await world.read(id);
    expect(mail.attachments.map(({ filename, contentType }) => [filename, contentType])).toEqual([
      ['a.txt', 'text/plain'],
      ['写真.png', 'image/png'],
      ['empty', 'application/octet-stream'],
    ]);
    expect(mail.attachments[1]?.content.equals(large)).toBe(true);
  });

  test('that are too big for one mail are named, and the lead arrives', async () => {
    const world = await openMailWorld({ form: { uploads: {} }, server: { limits: { message: '64KiB' } } });
    const id = await world.post(ana, [['<plan>.pdf', 'application/pdf', Buffer.alloc(100_000)]]);
    const { mail, bytes } = await world.read(id);
    expect(bytes.length).toBeLessThan(65_536);
    expect(mail.attachments).toEqual([]);
    expect(mail.text).toContain(`kept on the server (${id}): <plan>.pdf (98 kB).`);
    expect(mail.html).toContain('plan&gt;.pdf');
    expect(mail.text).toContain('Ana García');
    expect(world.warn).toHaveBeenCalledWith('notification.too_big', expect.objectContaining({ submission: id }));
  });

  test('and fields that are too big for one mail are cut off', async () => {
    const world = await openMailWorld({ form: {}, server: { limits: { message: '64KiB' } } });
    const id = await world.post([...ana, ['essay', '日本語'.repeat(20_000)]]);
    const { mail, bytes } = await world.read(id);
    expect(bytes.length).toBeLessThan(65_536);
    expect(mail.text).toContain(id);
    expect(mail.text).toContain('Ana García');
  });
});
