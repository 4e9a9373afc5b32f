import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { machineSecrets, maskPasswords, resolveSecrets } from '../../src/config/secrets.ts';
import { configFolder } from './folder.ts';

const env = machineSecrets({ KEY: 'value', EMPTY: '', lower: 'no' });

function resolve(data: unknown, within: 'text' | 'whole values' = 'text') {
  return resolveSecrets(data, env, within);
}

describe('references', () => {
  test('are replaced wherever text stands', () => {
    const { value, references } = resolve({ a: ['${KEY}', { b: 'x-${KEY}-${EMPTY}y' }], n: 5, z: null });
    expect(value).toEqual({ a: ['value', { b: 'x-value-y' }], n: 5, z: null });
    expect(references).toEqual([
      { path: ['a', 0], reference: '${KEY}' },
      { path: ['a', 1, 'b'], reference: 'x-${KEY}-${EMPTY}y' },
    ]);
  });

  test.each(['$KEY', '${lower}', '{{ KEY }}', '${KEY', '${ KEY }', 'file:relative', 'sqlite:/var/lib/x.db'])(
    '%s is none',
    (text) => {
      expect(resolve(text)).toEqual({ value: text, references: [], findings: [] });
    },
  );

  test('are not looked for in what they stood for', () => {
    const nested = { variable: () => '${KEY}', file: () => undefined };
    expect(resolveSecrets('${OUTER}', nested, 'text').value).toBe('${KEY}');
  });

  test('that lead nowhere are said, and the value is kept from being read', () => {
    const { findings } = resolve({ a: '${NONE}', b: 'file:/nothing/here' });
    expect(findings).toEqual([
      { path: ['a'], message: 'the environment variable NONE is not set' },
      { path: ['b'], message: 'cannot read the file /nothing/here' },
    ]);
  });

  test('to files give their text without the last line break', async () => {
    const folder = await configFolder({ secret: 'two\nlines\n' });
    expect(resolve(`file:${folder.path('secret')}`).value).toBe('two\nlines');
  });

  test('to a file that never ends are refused', async () => {
    const folder = await configFolder();
    await writeFile(folder.path('big'), 'x'.repeat(70_000));
    expect(resolve(`file:${folder.path('big')}`).findings).toHaveLength(1);
    expect(resolve('file:/dev/zero').findings).toHaveLength(1);
  });
});

test.each([
  ['smtp://user:secret@host:587', 'smtp://user:***@host:587'],
  ['postgres://u:p@ss@host/db', 'postgres://u:***@host/db'],
  ['postgres://u:p/q@host/db', 'postgres://u:***@host/db'],
  ['postgres//u:secret@host/db', 'postgres//u:***@host/db'],
  ['u:secret@host/db', 'u:***@host/db'],
  ['postgres://host/db?user=u&password=secret&x=1', 'postgres://host/db?user=u&password=***&x=1'],
  ['smtp://user:${PASSWORD}@host', 'smtp://user:${PASSWORD}@host'],
  ['https://example.com/a@b', 'https://example.com/a@b'],
])('%s is shown as %s', (written, shown) => {
  expect(maskPasswords(written)).toBe(shown);
});
