import { expect, test } from 'vitest';
import { createBundleReader } from '../src/bundle-reader.ts';
import { systemClock } from '../src/lib/clock.ts';
import { testClock } from './harness/clock.ts';

const HEAD = 'project: { name: Shop, slug: shop }\n';

/** A configuration with one large template. */
function large(template = '{{ form.a }}\n'.repeat(8000)) {
  return { yaml: `${HEAD}templates: { t: { html_file: t.html } }\n`, files: { 't.html': template } };
}

test('a large configuration is read beside everything else, once, and is as frozen as a small one', async () => {
  const reader = createBundleReader(systemClock);
  let turns = 0;
  const reading = reader.read(large());
  const counting = setInterval(() => turns++, 1);
  const { result, named } = await reading;
  clearInterval(counting);
  expect(turns).toBeGreaterThan(10);
  expect(named).toEqual({ files: ['t.html'], domains: [] });
  if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
  expect(result.ok.project).toEqual({ name: 'Shop', slug: 'shop' });
  expect(Object.isFrozen(result.ok.templates['t'])).toBe(true);
  expect(result.ok.templates['constructor']).toBeUndefined();
  expect((await reader.read(large())).result).toBe(result);
});

test('what is larger than a pipe holds comes back whole', async () => {
  const text = 'x '.repeat(450_000);
  const { result } = await createBundleReader(systemClock).read(large(text));
  expect(result).toMatchObject({ ok: { templates: { t: { html: text } } } });
});

test('what is wrong in a large one is told with its place', async () => {
  const reader = createBundleReader(systemClock);
  const { result } = await reader.read(large(`${'x\n'.repeat(10_000)}{{ form.a`));
  expect(result).toMatchObject({ errors: [{ file: 'postern.yml', path: 'templates.t.html_file' }] });
  const yaml = `${HEAD}${'# a comment\n'.repeat(2000)}domains: { a.test: {} }\n`;
  expect(await reader.locate(yaml, [{ path: ['domains', 'a.test'], message: 'taken', key: true }])).toMatchObject([
    { line: 2002, column: 12, path: 'domains.a.test', message: 'taken' },
  ]);
});

test('one that takes too long is refused, and the next is read', async () => {
  const clock = testClock();
  const reader = createBundleReader(clock);
  const endless = reader.read(large('{{ form.b }}\n'.repeat(60_000)));
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(30_000);
  expect((await endless).result).toMatchObject({ errors: [{ message: expect.stringContaining('more time') }] });
  expect((await reader.read(large())).result).toHaveProperty('ok');
});
