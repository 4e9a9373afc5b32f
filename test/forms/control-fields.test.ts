import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { controlFieldNames, sortEntries } from '../../src/forms/fields.ts';
import { formOf } from './world.ts';

const names = controlFieldNames();

test('the documentation names the same control fields as the code', async () => {
  const page = await readFile('docs/moving.md', 'utf8');
  const tables = page.split('\n').filter((line) => line.startsWith('| ') && line.includes('`'));
  const documented = tables.flatMap((line) => {
    const cells = line.split('|').map((cell) => cell.trim());
    const [, first = '', second = ''] = cells;
    // The second table has the service's key before the fields.
    const fields = cells.length > 4 ? second : first;
    return Array.from(fields.matchAll(/`([^`]+)`/g), ([, name = '']) => name);
  });
  expect(new Set(documented)).toEqual(new Set(names));
});

test('whatever is sent, nothing is lost: it is data, or a control field', () => {
  const { config } = formOf();
  const name = fc.oneof(fc.constantFrom(...names), fc.string({ minLength: 1 }));
  fc.assert(
    fc.property(fc.array(fc.tuple(name, fc.string())), (entries) => {
      const { fields } = sortEntries(entries, config);
      const known = new Set(names.concat(config.spam_protection.honeypot));
      for (const [sent] of entries) {
        const plain = sent.length > 2 && sent.endsWith('[]') ? sent.slice(0, -2) : sent;
        expect(fields.has(plain) || known.has(plain)).toBe(true);
      }
    }),
  );
});

test.each([
  ['redirect', 'https://example.com/'],
  ['subject', 'Sofa'],
  ['from_name', 'Ada'],
  ['replyto', 'ada@example.org'],
  ['redirectTo', '/'],
  ['replyTo', '@'],
])('%s alone is data', (name, value) => {
  const { fields, control } = sortEntries([[name, value]], formOf().config);
  expect([...fields]).toEqual([[name, value]]);
  expect(control).toEqual({ trapped: [] });
});
