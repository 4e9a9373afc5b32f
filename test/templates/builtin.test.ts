import { describe, expect, test } from 'vitest';
import { compileTemplates } from '../../src/templates/engine.ts';
import { htmlToText } from '../../src/templates/plain-text.ts';

const set = compileTemplates({}, 'Europe/Berlin');
const VARIABLES = {
  form: { name: 'Ada <b>', message: 'one\ntwo' },
  fields: [
    { name: 'name', label: 'Your name', value: 'Ada <b>' },
    { name: 'topics', label: 'Topics', value: ['Bridges', 'Engines'] },
    { name: 'company', label: 'Company', value: '' },
    { name: 'message', label: 'Message', value: 'one\r\ntwo\n\n----\nexample.org' },
  ],
  files: [
    { filename: 'plan <1>.pdf', size: 482_133, content_type: 'application/pdf' },
    { filename: 'a\nb.txt', size: 12, content_type: 'text/plain' },
  ],
  form_name: 'Contact',
  domain: 'example.com',
  timestamp: Date.UTC(2026, 0, 5, 14, 3),
  ip: '192.0.2.17',
  referer: 'https://example.com/contact',
};

describe('in the language of the form', () => {
  test('the notification has its words, its dates and its sizes', () => {
    const { text, html } = set.render('default', { ...VARIABLES, language: 'de' });
    expect(text).toContain('Neue Einsendung: Contact');
    expect(text).toContain('example.com, 5. Januar 2026 um 15:03 MEZ\nIP-Adresse 192.0.2.17\nSeite https://');
    expect(text).toContain('a b.txt (12 Byte)');
    expect(html).toContain('<html lang="de" dir="ltr">');
  });

  test('the acknowledgment runs from right to left in Arabic', () => {
    const { subject, text, html } = set.render('acknowledgment', { ...VARIABLES, language: 'ar' });
    expect(subject).toBe('لقد تلقّينا رسالتكم');
    expect(text).toContain('تم استلام رسالتكم إلى \u2068example.com\u2069.');
    expect(html).toContain('<html lang="ar" dir="rtl">');
    expect(html).toContain('<table class="card" lang="ar" dir="rtl"');
  });

  test('a template that has a subject alone gets the built-in bodies in it', () => {
    const own = compileTemplates({ own: { type: 'form', subject: 'Hallo', variables: {} } }, 'Europe/Berlin');
    expect(own.render('own', { ...VARIABLES, language: 'sv' }).text).toContain('Nytt formulärsvar: Contact');
    expect(own.render('own', { ...VARIABLES, language: 'xx' }).text).toContain('New submission: Contact');
  });
});

describe('the notification', () => {
  const { subject, text, html = '' } = set.render('default', VARIABLES);

  test('leaves the subject to the form', () => {
    expect(subject).toBeUndefined();
  });

  test('as text has every field under its label, so that no value can pose as another field', () => {
    expect(text).toBe(
      `New submission: Contact

Your name
  Ada <b>

Topics
  Bridges, Engines

Message
  one
  two

  ----
  example.org

Files
  plan <1>.pdf (471 kB)
  a b.txt (12 bytes)

----
Contact on example.com, 5 January 2026 at 15:03 CET
IP address 192.0.2.17
Page https://example.com/contact
`,
    );
  });

  test('as HTML says the same', () => {
    const page = htmlToText(html);
    const expected = ['New submission\nContact', 'Your name\nAda <b>', 'Topics\nBridges, Engines', 'Message\none\ntwo'];
    for (const words of [
      ...expected,
      'plan <1>.pdf (471 kB)',
      'IP address 192.0.2.17',
      '5 January 2026 at 15:03 CET',
    ]) {
      expect(page).toContain(words);
    }
    expect(html).not.toContain('<b>');
  });

  test('loads nothing from anywhere', () => {
    expect(html).not.toMatch(/<(?:img|link|script|iframe)|url\(|src=|@import/);
  });

  test('without files, address and page says nothing of them', () => {
    const bare = set.render('default', { fields: [], form_name: 'Contact', domain: 'example.com', timestamp: 0 });
    expect(bare.text).toBe('New submission: Contact\n\n----\nContact on example.com, 1 January 1970 at 01:00 CET\n');
    expect(bare.html).not.toMatch(/Files|IP address|Page/);
  });

  test('shows fields with the names of properties of every object', () => {
    const fields = ['__proto__', 'constructor', 'toString'].map((name) => ({ name, label: name, value: `v ${name}` }));
    const rendered = set.render('default', { ...VARIABLES, fields });
    for (const { name, value } of fields) expect(rendered.text).toContain(`${name}\n  ${value}\n`);
  });
});

describe('the acknowledgment', () => {
  const { subject, text, html = '' } = set.render('acknowledgment', VARIABLES);

  test('thanks and explains itself', () => {
    expect(subject).toBe('We have received your message');
    expect(text).toMatch(/^Thank you\n\nYour message to example\.com has been received\./);
    expect(htmlToText(html)).toContain('Your message to example.com has been received.');
  });

  test('holds nothing that a visitor can write', () => {
    const visitor = 'BUY-NOW-https://evil.example';
    const hostile = {
      ...VARIABLES,
      form: { name: visitor, email: visitor, message: visitor },
      fields: [{ name: visitor, label: visitor, value: visitor }],
      files: [{ filename: visitor, size: 1, content_type: visitor }],
      referer: visitor,
      ip: visitor,
    };
    expect(set.render('acknowledgment', hostile)).toEqual({ subject, text, html });
  });
});
