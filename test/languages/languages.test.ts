import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { acceptedLanguage, LANGUAGES, MESSAGE_NAMES, translationOf } from '../../src/languages/languages.ts';

const messagesOf = (language: string) =>
  z.record(z.string(), z.string()).parse(JSON.parse(readFileSync(`src/languages/${language}.json`, 'utf8')));

const english = messagesOf('en');

/** The variables that a message names, at whatever depth; what follows a plural form is text. */
function variablesOf(message: string): string[] {
  const found = message.matchAll(/(?<!(?:zero|one|two|few|many|other) )\{(\w+)(?=[,}])/g);
  return [...new Set(Array.from(found, ([, name = '']) => name))].sort();
}

/** Messages that are the same as in English, because these words are. */
const SAME = new Set([
  'de label.name',
  'de label.website',
  'nl label.website',
  'fr label.message',
  'cs form.reference',
  'da form.reference',
  'da form.send',
  'da mail.sender',
  'da pending.type',
  'de pending.name',
  'es heading.error',
  'es mail.no',
  'fr mail.page',
  'fr mail.sender',
  'fr pending.ok',
  'fr pending.type',
  'it mail.no',
  'nl mail.sender',
  'pt mail.sender',
  'sv mail.sender',
]);

/** Whether there are words in the message, beside its variables. */
function hasWords(message: string): boolean {
  return /\p{L}/u.test(message.replaceAll(/\{\w+\}/g, ''));
}

describe.each(LANGUAGES)('the messages in %s', (language) => {
  const messages = messagesOf(language);

  test('are those of English, with the same variables', () => {
    expect(Object.keys(messages).sort()).toEqual(Object.keys(english).sort());
    const variables = (of: Record<string, string>) =>
      Object.fromEntries(Object.entries(of).map(([name, message]) => [name, variablesOf(message)]));
    expect(variables(messages)).toEqual(variables(english));
  });

  test('have every plural form of the language', () => {
    const forms = new Intl.PluralRules(language).resolvedOptions().pluralCategories;
    // Of these languages it has no whole number, and no message needs it.
    const needed = forms.filter((form) => !(form === 'many' && ['es', 'fr', 'it', 'pt'].includes(language)));
    for (const [name, text] of Object.entries(messages)) {
      if (!text.includes(', plural,')) continue;
      for (const form of needed) expect(text, name).toMatch(new RegExp(`\\b${form} \\{`));
    }
  });

  test('can be said with every number', () => {
    const { say } = translationOf(language);
    for (const name of MESSAGE_NAMES) {
      for (const number of [0, 1, 2, 3, 5, 11, 21, 1000]) {
        const values = Object.fromEntries(variablesOf(messages[name] ?? '').map((variable) => [variable, number]));
        const said = say(name, values);
        expect(said.trim(), name).not.toBe('');
        expect(said, name).not.toMatch(/[{}#]/);
      }
    }
  });
});

test.each(LANGUAGES.filter((language) => language !== 'en'))('the messages in %s are translated', (language) => {
  const left = Object.entries(messagesOf(language)).filter(([name, text]) => text === english[name] && hasWords(text));
  expect(left.map(([name]) => `${language} ${name}`).filter((name) => !SAME.has(name))).toEqual([]);
});

test('what a visitor wrote is said as it is', () => {
  const { say } = translationOf('en');
  expect(say('field.email', { field: "<b>{x}</b> 'quoted' #" })).toBe(
    "“<b>{x}</b> 'quoted' #” must be an email address, such as name@example.com.",
  );
});

test.each([
  ['fr-CH, fr;q=0.9, en;q=0.8', 'fr'],
  ['xx, de-AT;q=0.5', 'de'],
  ['en;q=0.1, ja;q=0.9', 'ja'],
  ['pt-BR', 'pt'],
  ['zh-Hant-TW', 'zh'],
  ['de;q=0, it', 'it'],
  ['*', 'en'],
  ['toString', 'en'],
  ['de;q=x, nl;q=0.1', 'nl'],
  ['', 'en'],
  [undefined, 'en'],
  [`${'xx,'.repeat(100_000)}de`, 'en'],
])('Accept-Language %j is served in %s', (header, language) => {
  expect(acceptedLanguage(header)).toBe(language);
});

test('Arabic and Hebrew run from right to left', () => {
  expect(LANGUAGES.filter((language) => translationOf(language).direction === 'rtl')).toEqual(['ar', 'he']);
});
