import fc from 'fast-check';
import { expect, test } from 'vitest';
import { translationOf } from '../../src/languages/languages.ts';
import { builtinSender, builtinSubject, visitorName, visitorSubject } from '../../src/templates/builtin.ts';

test.each<[fields: [string, string | string[]][], name: string | undefined]>([
  [[['name', 'Zoë Müller']], 'Zoë Müller'],
  [[['Your-Name', ' Zoë\r\n Müller ']], 'Zoë Müller'],
  [[['full_name', 'Zoë Müller']], 'Zoë Müller'],
  [
    [
      ['first_name', 'Zoë'],
      ['lastName', 'Müller'],
    ],
    'Zoë Müller',
  ],
  [[['Vorname', 'Zoë']], 'Zoë'],
  [
    [
      ['name', ' '],
      ['first-name', 'Zoë'],
    ],
    'Zoë',
  ],
  [[['お名前', '山田 太郎']], '山田 太郎'],
  [[['name[]', ['Zoë', 'Müller']]], 'Zoë Müller'],
  [[['company', 'Roofs']], undefined],
  // Nothing that could be taken for the sender's address, also in characters that look like it.
  [[['name', 'boss@bank.example']], undefined],
  [[['name', 'boss＠bank.example']], undefined],
  [[['name', 'Bank <boss>']], undefined],
  [[['name', 'https://evil.example']], undefined],
  [[['name', 'www.evil.example']], undefined],
  [[['name', '12345']], undefined],
  // What turns or hides text is a blank.
  [[['name', 'Ann\u202Egnp.exe']], 'Ann gnp.exe'],
  [[['name', 'A\0n\u200Bn']], 'A n n'],
  [[['name', 'x'.repeat(100)]], `${'x'.repeat(59)}…`],
])('%j is %s', (fields, name) => {
  expect(visitorName(fields)).toBe(name);
});

test('whatever is sent, a name is one bounded line without an address', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 3000 }), (text) => {
      const name = visitorName([['name', text]]) ?? 'x';
      expect(Array.from(name).length).toBeLessThanOrEqual(60);
      expect(name).not.toMatch(/[@\p{Cc}\u2028\u2029\u202a-\u202e]/u);
      const subject = visitorSubject([['subject', text]]) ?? 'x';
      expect(subject).not.toMatch(/[\p{Cc}\u2028\u2029\u202a-\u202e]/u);
    }),
  );
});

test('the subject names the visitor and what it is about, as far as they are known', () => {
  const english = translationOf('en');
  const form = 'Contact';
  const [visitor, about] = ['Zoë', 'Roof'];
  expect(builtinSubject({ form, visitor, about }, english)).toBe('Contact: Zoë – Roof');
  expect(builtinSubject({ form, visitor, about: undefined }, english)).toBe('Contact: Zoë');
  expect(builtinSubject({ form, visitor: undefined, about }, english)).toBe('Contact: Roof');
  expect(builtinSubject({ form, visitor: undefined, about: undefined }, english)).toBe('New submission: Contact');
  expect(builtinSender(form, visitor, english)).toBe('Zoë via Contact');
  expect(builtinSender(form, undefined, english)).toBe('Contact');
});
