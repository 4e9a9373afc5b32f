import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliWorld, person } from './cli-world.ts';

const FLAGS = ['--domain', 'shop.test', '--email', 'owner@inbox.test'];
const WRITTEN = ['postern.yml', 'postern.schema.json', 'templates/contact.html'];

describe('init', () => {
  test('asks, says what an answer must be, and takes what it proposes', async () => {
    const { say, read } = await person();
    const answers = ['shop', 'Shop.Test', 'nobody', 'owner@inbox.test', 'Müller & Söhne', '', ''];
    const { code, out, err } = await say(['init'], { answers, width: 80 });
    expect(code).toBe(0);
    expect(err).toContain('expected a domain name such as example.com\n');
    expect(err).toContain('expected an email address such as you@example.com\n');
    expect(err).toContain('Short name for URLs and commands [muller-sohne]: ');
    expect(out).toContain('Created postern.yml\nCreated postern.schema.json\nCreated templates/contact.html\n');
    expect(out).toContain('postern domains setup shop.test');
    expect(await read('postern.yml')).toContain('  shop.test:\n');
  });

  test('writes what is valid and pushes as it is', async () => {
    const { say, read } = await cliWorld();
    expect((await say(['init', ...FLAGS])).code).toBe(0);
    expect(await say(['test', 'config'])).toEqual({ code: 0, out: 'postern.yml: 0 errors, 0 warnings\n', err: '' });
    expect(await say(['push', '--yes'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('Deployed shop-test as rev_'),
    });
    const [first = ''] = (await read('postern.yml')).split('\n');
    const schema = JSON.parse(await read(first.replace(/^.*\$schema=/, ''))) as object;
    expect(schema).toMatchObject({ type: 'object', required: ['project'] });
  });

  test.each([
    ['--name', 'My: "Shop" # 1'],
    ['--name', '- [x]'],
    ['--name', 'two\nlines'],
    ['--email', "o'neil@inbox.test"],
    ['--form', '2026'],
    ['--slug', '1'],
    ['--domain', 'bücher.example'],
  ])('writes YAML that means %s %s', async (flag, value) => {
    const { say } = await person();
    expect((await say(['init', ...FLAGS, flag, value])).code).toBe(0);
    expect(await say(['test', 'config'])).toMatchObject({ code: 0, out: 'postern.yml: 0 errors, 0 warnings\n' });
  });

  test('proposes the name of a domain as people write it, and a slug that no other domain has', async () => {
    const { say, read } = await person();
    await say(['init', '--domain', 'bücher.example', '--email', 'owner@inbox.test', '--yes']);
    expect(await read('postern.yml')).toContain('  name: bücher.example\n  slug: xn-bcher-kva-example\n');
  });

  test('makes the folder, and says as JSON what it wrote', async () => {
    const { say, folder } = await person();
    const { out } = await say(['init', 'sites/shop', ...FLAGS, '--json']);
    expect(JSON.parse(out)).toEqual({ folder: join(folder, 'sites/shop'), project: 'shop-test', files: WRITTEN });
    expect((await say(['test', 'config', 'sites/shop'])).out).toBe('sites/shop/postern.yml: 0 errors, 0 warnings\n');
  });

  test('overwrites nothing without --force', async () => {
    const { say, write, read } = await person();
    await write('templates/contact.html', 'mine');
    const there = 'templates/contact.html already exists. Nothing was written. To overwrite, add --force.\n';
    expect(await say(['init', ...FLAGS])).toEqual({ code: 1, out: '', err: there });
    await write('postern.yml', 'mine');
    expect(await say(['init'], { answers: [] })).toMatchObject({
      code: 1,
      err: expect.stringContaining('postern.yml'),
    });
    expect(await read('postern.yml')).toBe('mine');
    expect((await say(['init', ...FLAGS, '--force'])).code).toBe(0);
    expect(await read('postern.yml')).toContain('shop.test');
  });

  test.each([
    [[], '--domain is required'],
    [['--domain', 'x'], 'Must be a domain name such as example.com'],
    [['--domain', 'shop.test', '--email', 'x'], 'Must be an email address such as you@example.com'],
    [[...FLAGS, '--slug', 'My Shop'], '--slug My Shop: expected at most 63 lower-case letters, digits and -'],
    [[...FLAGS, '--form', '../x'], '--form ../x: expected at most 64 letters'],
    [['a', 'b'], 'too many arguments'],
  ])('%j is wrong usage: %s', async (args, words) => {
    const { say } = await person();
    expect(await say(['init', ...args])).toMatchObject({ code: 2, out: '', err: expect.stringContaining(words) });
  });

  test('says why it cannot write', async () => {
    const { say, write } = await person();
    await write('shop', 'a file');
    const { code, err } = await say(['init', 'shop', ...FLAGS]);
    expect([code, err]).toEqual([1, expect.stringMatching(/^postern: Cannot write .*shop.*: /)]);
  });
});
