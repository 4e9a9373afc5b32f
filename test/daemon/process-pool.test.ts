import { afterAll, expect, onTestFinished, test } from 'vitest';
import { BusyError } from '../../src/lib/errors.ts';
import { silentLog } from '../../src/lib/log.ts';
import { createProcessPool, type ProcessPoolOptions } from '../../src/daemon/process-pool.ts';
import type { RenderPart } from '../../src/templates/render.ts';

const HEAD = 'project: { name: Shop, slug: shop }\n';
const shop = { tenant: 'ten_shop' };

const shared = createProcessPool({ log: silentLog });
afterAll(() => shared.close());

function ownPool(options: Partial<ProcessPoolOptions> = {}) {
  const made = createProcessPool({ log: silentLog, ...options });
  onTestFinished(() => made.close());
  return made;
}

/** A configuration with one large template. */
function large(template = '{{ form.a }}\n'.repeat(8000)) {
  return { yaml: `${HEAD}templates: { t: { html_file: t.html } }\n`, files: { 't.html': template } };
}

function part(text: string, variables: Readonly<Record<string, unknown>> = {}): RenderPart {
  const templates = { t: { type: 'form', text, variables: {} } } as const;
  return {
    kind: 'template',
    project: { revision: text.slice(0, 100), templates, timezone: 'UTC' },
    name: 't',
    variables,
  };
}

/** Filters look at no clock: only killing ends them. */
const STUBBORN = part(
  "{% assign a = data | split: '' | sort | join: ',' | split: ',' | sort | join: '' | split: '' | sort %}x",
  {
    data: 'qwertyuiopasdfghjklzxcvbnm'.repeat(100_000),
  },
);

test('a configuration is read beside everything else, and is frozen', async () => {
  const { reader } = shared;
  let turns = 0;
  const counting = setInterval(() => turns++, 1);
  const { result, named } = await reader.read(large(), shop);
  clearInterval(counting);
  expect(turns).toBeGreaterThan(10);
  expect(named).toMatchObject({ files: ['t.html'], domains: [] });
  if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
  expect(result.ok.project).toEqual({ name: 'Shop', slug: 'shop', digest: 'daily' });
  expect(Object.isFrozen(result.ok.templates['t'])).toBe(true);
  expect(result.ok.templates['constructor']).toBeUndefined();
});

test('five megabytes of templates come back whole', async () => {
  const text = 'x '.repeat(450_000);
  const files = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`t${i}.html`, text + i]));
  const yaml = `${HEAD}templates: { ${Object.keys(files)
    .map((name) => `${name.slice(0, 2)}: { html_file: ${name} }`)
    .join(', ')} }\n`;
  const { result } = await shared.reader.read({ yaml, files }, shop);
  if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
  expect(result.ok.templates['t4']?.html === `${text}4`).toBe(true);
});

test('what is wrong is told with its place', async () => {
  const { reader } = shared;
  const { result } = await reader.read(large(`${'x\n'.repeat(10_000)}{{ form.a`), shop);
  expect(result).toMatchObject({ errors: [{ file: 'postern.yml', path: 'templates.t.html_file' }] });
  const yaml = `${HEAD}${'# a comment\n'.repeat(2000)}domains: { a.test: {} }\n`;
  const findings = [{ path: ['domains', 'a.test'], message: 'taken', key: true }];
  expect(await reader.locate(yaml, findings, shop)).toMatchObject([
    { line: 2002, column: 12, path: 'domains.a.test', message: 'taken' },
  ]);
});

test('templates that loop share one budget, and the first of them is named', async () => {
  const loop = '{% for a in (1..99999) %}{% for b in (1..99999) %}{% endfor %}{% endfor %}';
  const names = Array.from({ length: 40 }, (_, i) => `t${i}`);
  const yaml = `${HEAD}templates:\n${names.map((name) => `  ${name}: { text: '${loop}' }\n`).join('')}`;
  const { result } = await shared.reader.read({ yaml, files: {} }, shop);
  if ('ok' in result) throw new Error('it was taken');
  expect(result.errors.length).toBeLessThan(10);
  expect(result.errors[0]).toMatchObject({ path: 'templates.t0.text' });
  expect(result.errors.at(-1)?.message).toContain('limit exceeded');
});

test('what was accepted before is read without trying its templates', async () => {
  const yaml = `${HEAD}templates: { t: { text: '{% for a in (1..99999) %}{% for b in (1..99999) %}{% endfor %}{% endfor %}' } }\n`;
  const { reader } = shared;
  expect((await reader.read({ yaml, files: {} }, { ...shop, accepted: true })).result).toHaveProperty('ok');
  expect((await reader.read({ yaml, files: {} }, shop)).result).toHaveProperty('errors');
});

test('a project with more than 100 templates is refused with their number', async () => {
  const templates = Array.from({ length: 101 }, (_, i) => `  t${i}: { text: x }\n`).join('');
  const { result } = await shared.reader.read({ yaml: `${HEAD}templates:\n${templates}`, files: {} }, shop);
  const message = 'a project can have at most 100 templates, found 101';
  expect(result).toMatchObject({ errors: [{ path: 'templates', line: 2, message }] });
});

test('a rendering that ends itself never is killed, and holds up no other tenant', async () => {
  const { renderer } = ownPool();
  const hogs = Array.from({ length: 3 }, () => renderer.render('ten_hog', [STUBBORN, part('{{ 1 }}')]));
  // Those that still wait at the end are ended with the pool.
  for (const hog of hogs) hog.catch(() => undefined);
  const order: string[] = [];
  const hog = hogs[0]?.then(() => order.push('hog'));
  const honest = Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      expect(await renderer.render(`ten_${i}`, [part('Hello {{ n }}', { n: i })])).toEqual([
        { ok: { text: `Hello ${i}` } },
      ]);
    }),
  ).then(() => order.push('honest'));
  await Promise.all([honest, hog]);
  expect(order).toEqual(['honest', 'hog']);
  const message = 'it takes too much time or memory';
  expect(await hogs[0]).toMatchObject([{ fault: { template: 't', message } }, { fault: { message } }]);
});

test.each([
  [
    'grows without end',
    "{% assign a = 'x,' %}{% for i in (1..40) %}{% assign a = a | append: a %}{% endfor %}{{ a | size }}",
  ],
  [
    'makes one large list',
    '{% assign a = (1..16000000) %}{% assign b = a | concat: a | concat: a | concat: a | sort %}{{ b | size }}',
  ],
])('a template that %s ends at most its own process', async (_, text) => {
  const { renderer } = shared;
  expect(await renderer.render('ten_hog', [part(text)])).toMatchObject([{ fault: { template: 't' } }]);
  expect(await renderer.render('ten_a', [part('{{ 1 }}')])).toEqual([{ ok: { text: '1' } }]);
});

test('of one tenant so many may wait, of others still as many', async () => {
  const { renderer } = ownPool({ maxWaiting: 2 });
  const own = Array.from({ length: 4 }, () => renderer.render('ten_a', [part('{{ 1 }}')]));
  const results = await Promise.allSettled([...own, renderer.render('ten_b', [part('{{ 1 }}')])]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
  expect(results[3]).toMatchObject({ reason: expect.any(BusyError) });
});

test('its processes know nothing of the environment', async () => {
  process.env['POSTERN_TEST_SECRET'] = 'very secret';
  onTestFinished(() => void delete process.env['POSTERN_TEST_SECRET']);
  const { reader } = ownPool();
  const yaml = 'project: { name: "${POSTERN_TEST_SECRET}", slug: shop }\n';
  expect(JSON.stringify(await reader.read({ yaml, files: {} }, shop))).not.toContain('very secret');
});
