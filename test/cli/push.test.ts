import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testKey } from '../harness/keys.ts';
import { runCommand, testTerminal } from '../harness/terminal.ts';
import { cliWorld, HTML, person, YAML, type CliWorld } from './cli-world.ts';

async function shop(world: CliWorld): Promise<void> {
  await world.write('postern.yml', YAML);
  await world.write('templates/mine.html', HTML);
}

const NEW = `  + new project Shop
  + new domain shop.test; forms and mail start once its DNS records are verified
  + new form shop.test/contact: POST /shop.test/contact, notifies owner@inbox.test
  + new template mine
`;

describe('push', () => {
  test('shows what changes, asks, deploys it, and says what is next', async () => {
    const world = await cliWorld();
    await shop(world);
    const { code, out, err } = await world.say(['push'], { answers: ['y'] });
    expect([code, err]).toEqual([0, 'Deploy these changes? [y/N] ']);
    expect(out).toBe(`shop at ${world.url}: 4 changes
${NEW}Deployed shop as ${world.daemon.snapshot().domains.get('shop.test')?.project.revision}.
shop.test is pending. To see the DNS records to add, run: postern domains setup shop.test
`);
    const again = `shop at ${world.url} is up to date.\n`;
    expect(await world.say(['push'])).toEqual({ code: 0, out: again, err: '' });

    await world.write('postern.yml', YAML.replace('template: mine', 'template: mine, rateLimit: 5'));
    await world.write('templates/mine.html', '<p>Good day {{ form.name }}</p>');
    const second = await world.say(['push', '--yes']);
    expect(second.out).toContain('2 changes\n  ~ form shop.test/contact: rate limit 60 → 5 submissions per hour');
    expect(second.out).toContain('~ template mine: changed HTML');
  });

  test('of a verified domain has nothing more to say', async () => {
    const world = await cliWorld();
    await shop(world);
    await world.say(['push', '--yes']);
    await world.publish('shop.test');
    await world.say(['domains', 'verify', 'shop.test']);
    await world.write('postern.yml', `${YAML}# a comment\n`);
    const { code, out } = await world.say(['push', '--yes']);
    expect(code).toBe(0);
    expect(out).toMatch(
      /0 changes\n {2}No settings change.*\nDeployed shop as rev_\w+\. To undo this, run: postern rollback\n$/,
    );
  });

  test('changes nothing unless somebody agrees', async () => {
    const world = await cliWorld();
    await shop(world);
    const no = await world.say(['push'], { answers: ['n'] });
    expect([no.code, no.out]).toEqual([1, `shop at ${world.url}: 4 changes\n${NEW}`]);
    expect(no.err).toMatch(/Nothing was changed\.\n$/);
    const dry = await world.say(['push', '--dry-run']);
    expect([dry.code, dry.out]).toEqual([0, `shop at ${world.url}: 4 changes\n${NEW}Dry run: nothing was changed.\n`]);
    const nobody = await world.say(['push']);
    expect([nobody.code, nobody.err]).toEqual([
      2,
      'postern: Deploy these changes? Standard input is not a terminal: add --yes to confirm.\n',
    ]);
    expect((await world.say(['projects', 'show', 'shop'])).code).toBe(1);
  });

  test('deploys what was shown, and nothing when another was faster', async () => {
    const world = await cliWorld();
    await shop(world);
    const rival = await person(world.env);
    await rival.write('postern.yml', YAML.replace('name: Contact', 'name: Rival'));
    await rival.write('templates/mine.html', HTML);
    const terminal = {
      ...testTerminal(world),
      async ask() {
        await rival.say(['push', '--yes']);
        return 'y';
      },
    };
    expect(await runCommand(terminal, ['push'])).toBe(1);
    expect(terminal.err()).toBe(
      'Another revision of the project has been deployed in the meantime: check the changes again.\n',
    );
    expect(world.daemon.snapshot().domains.get('shop.test')?.forms.get('contact')?.name).toBe('Rival');
  });

  test('of a large bundle shows how far it has gone out', async () => {
    const world = await cliWorld();
    await shop(world);
    await world.write('templates/mine.html', `<p>${'x'.repeat(500_000)}</p>`);
    const shown: string[] = [];
    const terminal = { ...testTerminal(world), progress: (line: string) => void shown.push(line) };
    expect([await runCommand(terminal, ['push', '--yes']), terminal.err()]).toEqual([0, '']);
    expect(shown).toContainEqual(expect.stringMatching(/^Comparing █+░+ {2}[1-9]\d % of 4\d\d KiB$/));
    expect(shown.findLast((line) => line.startsWith('Deploying'))).toBe('Deploying …');
    expect(shown.at(-1)).toBe('');
    expect(
      world.daemon.snapshot().projects.find(({ slug }) => slug === 'shop')?.config.templates['mine']?.html,
    ).toHaveLength(500_007);
  });

  test('finds its project in this folder, above it, or where it is told', async () => {
    const world = await cliWorld();
    await shop(world);
    await world.write('deep/down/x', '');
    const below = await world.say(['push', '--dry-run'], { folder: join(world.folder, 'deep/down') });
    expect(below.out).toContain('4 changes');
    const elsewhere = { folder: join(world.folder, 'deep') };
    expect((await world.say(['push', '--dry-run', '..'], elsewhere)).out).toContain('4 changes');
    expect((await world.say(['push', '--dry-run', '../postern.yml'], elsewhere)).out).toContain('4 changes');
    expect(await world.say(['push', 'down'], elsewhere)).toMatchObject({
      code: 78,
      err: expect.stringMatching(
        /^postern: there is no file .*down\/postern\.yml\. To create a project, run: postern init\n$/,
      ),
    });
  });

  test.each([
    [
      'unknown keys',
      YAML.replace('to: owner', 'too: owner'),
      /^postern\.yml:5:33: .*contact\.too: unknown key "too" \(did you mean "to"\?\)/,
    ],
    [
      'a value of the wrong type',
      YAML.replace('template: mine', 'rateLimit: many'),
      /^postern\.yml:5:\d+: .*rateLimit/,
    ],
    ['YAML that is none', 'project: {', /^postern\.yml:1:/],
    [
      'a template that does not parse',
      YAML.replace('{{ form.name }}', '{{ form.name'),
      /^postern\.yml:7:\d+: templates\.mine\.subject: .*not closed/,
    ],
    [
      'a file that is missing',
      YAML.replace('mine.html', 'none.html'),
      /^postern\.yml:7:\d+: templates\.mine\.html_file: there is no file templates\/none\.html/,
    ],
    [
      'a file outside',
      YAML.replace('templates/mine.html', '/etc/passwd'),
      /html_file: \/etc\/passwd is outside the project's folder/,
    ],
    [
      'a file by a way round',
      YAML.replace('templates/mine.html', 'templates/../templates/mine.html'),
      /without "\.\."/,
    ],
    [
      'a link that leads out',
      YAML.replace('mine.html', 'link.html'),
      /html_file: templates\/link\.html is outside the project's folder/,
    ],
    [
      'a reference to a secret',
      YAML.replace('"Shop: {{ form.name }}"', '"${HOME}"'),
      /subject: references to secrets are not resolved/,
    ],
  ])('reports %s with file, line and column, and does not ask the server', async (_, yaml, error) => {
    const { say, write, folder } = await person({ POSTERN_URL: 'http://127.0.0.1:1', POSTERN_API_KEY: 'x' });
    await write('postern.yml', yaml);
    await write('templates/mine.html', HTML);
    await symlink('/etc/hostname', join(folder, 'templates/link.html'));
    const { code, out, err } = await say(['push', '--yes']);
    expect([code, out]).toEqual([78, '']);
    expect(err).toMatch(error);
    expect(err).toMatch(/postern\.yml is not valid\. Nothing was changed\.\n$/);
  });

  test('of an error in a file of HTML names its line', async () => {
    const { say, write } = await person({ POSTERN_URL: 'http://127.0.0.1:1', POSTERN_API_KEY: 'x' });
    await write('postern.yml', YAML);
    await write('templates/mine.html', '<p>\n  {{ form.name | shout }}\n');
    expect(await say(['push'])).toMatchObject({
      code: 78,
      err: expect.stringMatching(
        /^postern\.yml:7:\d+: templates\.mine\.html_file: templates\/mine\.html:2:\d+: .*shout/,
      ),
    });
  });

  test('shows where the server finds something wrong', async () => {
    const world = await cliWorld();
    await shop(world);
    await world.say(['push', '--yes']);
    await world.write('postern.yml', YAML.replace('slug: shop', 'slug: second'));
    expect(await world.say(['push', '--yes'])).toEqual({
      code: 1,
      out: '',
      err: 'postern.yml:3:3: domains.shop.test: the domain belongs to the project shop\nThe project names a domain or a collection that is not available to it.\n',
    });
  });

  test('of a project that a file manages is refused with the reason', async () => {
    const world = await cliWorld({ tenant: OPERATOR });
    await world.write('postern.yml', YAML.replaceAll('shop', 'site'));
    await world.write('templates/mine.html', HTML);
    const { code, err } = await world.say(['push', '--yes']);
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^The file \/.*site\.yml on .+ manages this project: change/),
    ]);
  });

  test('with a key that may not is refused with what to do', async () => {
    const world = await cliWorld({ permissions: ['projects.read'] });
    await shop(world);
    const { code, err } = await world.say(['push', '--yes']);
    expect(code).toBe(1);
    expect(err).toContain('The API key does not have the permission projects.write.');
    expect(err).toContain('postern auth status');
  });

  test('by a key that may push and no more leaves the domains to another', async () => {
    const world = await cliWorld({ permissions: ['projects.read', 'projects.write'] });
    await shop(world);
    const { code, out } = await world.say(['push', '--yes']);
    expect(code).toBe(0);
    expect(out).toContain('This API key cannot read domains');
    const checked = await world.say(['test', 'config', '--check-api']);
    expect(checked).toMatchObject({
      code: 0,
      out: expect.stringContaining('note    this API key cannot read domains\n'),
    });
    expect(checked.out).toContain('note    this API key cannot read forms\n');
  });

  test('without a daemon ends with 3', async () => {
    const { say, write } = await person({ POSTERN_URL: 'http://127.0.0.1:1', POSTERN_API_KEY: 'x' });
    await write('postern.yml', YAML);
    await write('templates/mine.html', HTML);
    expect(await say(['push', '--yes'])).toMatchObject({ code: 3, err: expect.stringContaining('127.0.0.1:1') });
  });

  test('without a project says how to make one', async () => {
    const { say } = await person({ POSTERN_URL: 'http://127.0.0.1:1', POSTERN_API_KEY: 'x' });
    expect(await say(['push'])).toMatchObject({ code: 78, err: expect.stringContaining('run: postern init') });
  });

  test('--json is the answer of the server alone', async () => {
    const world = await cliWorld();
    await shop(world);
    const dry = JSON.parse((await world.say(['push', '--json', '--dry-run'])).out) as object;
    expect(dry).toMatchObject({ revision: null, warnings: [], changes: expect.any(Array) });
    const done = await world.say(['push', '--json', '--yes']);
    expect(JSON.parse(done.out)).toMatchObject({ revision: expect.stringMatching(/^rev_/) });
    expect(done.err).toBe('');
    expect(JSON.parse((await world.say(['push', '--json'])).out)).toMatchObject({ changes: [] });
    await world.write('postern.yml', YAML.replace('name: Contact', 'name: Write'));
    const asked = await world.say(['push', '--json'], { answers: ['n'] });
    expect([asked.code, asked.out]).toEqual([1, '']);
    expect(asked.err).toContain('name Contact → Write');
  });
});

describe('rollback', () => {
  async function pushed(): Promise<CliWorld> {
    const world = await cliWorld();
    await shop(world);
    await world.say(['push', '--yes']);
    for (const name of ['Second', 'Third']) {
      await world.write('postern.yml', YAML.replace('name: Contact', `name: ${name}`));
      await world.say(['push', '--yes']);
    }
    return world;
  }

  function nameNow({ daemon }: CliWorld): string | undefined {
    return daemon.snapshot().domains.get('shop.test')?.forms.get('contact')?.name;
  }

  test('goes back to the revision before, or as far as is told, once somebody agrees', async () => {
    const world = await pushed();
    const list = (await world.say(['projects', 'revisions'], { width: 100 })).out.split('\n');
    expect(list).toEqual([
      expect.stringMatching(/^BACK +REVISION +DEPLOYED$/),
      expect.stringMatching(/^current +rev_/),
      expect.stringMatching(/^1 +rev_/),
      expect.stringMatching(/^2 +rev_/),
      '',
    ]);
    expect(await world.say(['rollback'])).toMatchObject({ code: 2, err: expect.stringContaining('add --yes') });
    expect((await world.say(['rollback', '--dry-run'])).out).toContain('name Third → Second');
    expect(nameNow(world)).toBe('Third');
    const done = await world.say(['rollback'], { answers: ['yes'] });
    expect(done.out).toContain('name Third → Second\nDeployed shop as rev_');
    expect(nameNow(world)).toBe('Second');
    expect((await world.say(['rollback', '--revision', '2', '--project', 'shop', '--yes'])).code).toBe(0);
    expect(nameNow(world)).toBe('Contact');
  });

  test('names a revision by its id, and tells where it is active already or is none', async () => {
    const world = await pushed();
    const { revisions } = JSON.parse((await world.say(['projects', 'revisions', 'shop', '--json'])).out) as {
      revisions: { id: string }[];
    };
    const [current, , first] = revisions.map(({ id }) => id);
    expect((await world.say(['rollback', '--revision', `${current}`, '--yes'])).out).toBe(
      `${current} is already deployed.\n`,
    );
    const { out } = await world.say(['rollback', '--revision', `${first}`, '--yes', '--json']);
    expect(JSON.parse(out)).toMatchObject({ revision: first });
    expect(nameNow(world)).toBe('Contact');
    expect(await world.say(['rollback', '--revision', 'rev_1', '--yes'])).toMatchObject({
      code: 1,
      err: 'The project has no revision rev_1.\n',
    });
    expect(await world.say(['rollback', '--revision', '7', '--yes'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('shop has only 2 earlier revisions'),
    });
    expect(await world.say(['rollback'], { folder: '/' })).toMatchObject({
      code: 2,
      err: expect.stringContaining('Specify a project'),
    });
  });
});

describe('projects', () => {
  test('are listed, shown and ended', async () => {
    const world = await cliWorld();
    expect((await world.say(['projects', 'list'])).err).toContain('No projects found');
    await shop(world);
    await world.say(['push', '--yes']);
    expect((await world.say(['projects', 'list'])).out).toMatch(/^shop\tpushed\trev_\w+\t\S+Z\tShop\n$/);
    const { out } = await world.say(['projects', 'show', 'shop']);
    expect(out).toContain('domains      shop.test\n');
    expect(await world.say(['projects', 'delete', 'shop'])).toMatchObject({ code: 2 });
    expect((await world.say(['projects', 'delete', 'shop'], { answers: ['no'] })).code).toBe(1);
    expect((await world.say(['projects', 'delete', 'shop', '--yes'])).out).toBe('Removed shop\n');
    expect(await world.say(['projects', 'delete', 'shop', '--yes'])).toMatchObject({
      code: 1,
      err: 'There is no project shop.\n',
    });
  });
});

describe('test config', () => {
  test('reports all that is wrong, and needs no server for that', async () => {
    const { say, write } = await person();
    await write('postern.yml', YAML.replace('to: owner@inbox.test', 'to: nobody, rateLimit: 0'));
    const { code, out } = await say(['test', 'config']);
    expect(code).toBe(78);
    expect(out).toMatch(
      /^postern\.yml:5:\d+: .*\.to: .*\npostern\.yml:5:\d+: .*rateLimit: .*\npostern\.yml:7:\d+: .*html_file: .*\npostern\.yml: 3 errors, 0 warnings\n$/,
    );
    const json = JSON.parse((await say(['test', 'config', '--json'])).out) as object;
    expect(json).toMatchObject({ valid: false, errors: [{ line: 5 }, { line: 5 }, { line: 7 }], checks: [] });
  });

  test('--check-api says what is left to do, before and after the push', async () => {
    const world = await cliWorld();
    await shop(world);
    const before = await world.say(['test', 'config', '--check-api']);
    expect([before.code, before.out.split('\n').slice(1)]).toEqual([
      0,
      [
        expect.stringMatching(
          /^ok +connected to http:\/\/127\.0\.0\.1:\d+ with the API key Test \(…\w{4}\) of Tenant$/,
        ),
        'ok      postern push would deploy 4 changes',
        'note    shop.test does not exist yet; to add it, run: postern push',
        'note    form shop.test/contact does not exist yet; to add it, run: postern push',
        '',
      ],
    ]);
    await world.say(['push', '--yes']);
    const pushed = (await world.say(['test', 'config', '--check-api'])).out;
    expect(pushed).toContain('ok      shop is deployed and up to date\n');
    expect(pushed).toContain(
      'note    shop.test is pending; to see the DNS records to add, run: postern domains setup shop.test',
    );
    expect(pushed).toContain('ok      form shop.test/contact is active\n');
    await world.publish('shop.test');
    await world.say(['domains', 'verify', 'shop.test']);
    expect((await world.say(['test', 'config', '--check-api'])).out).toContain('ok      shop.test is verified\n');
    world.dns.set([...world.publicZone]);
    await world.say(['domains', 'verify', 'shop.test']);
    expect(await world.say(['test', 'config', '--check-api'])).toMatchObject({
      code: 1,
      out: expect.stringContaining('failed  shop.test is degraded'),
    });
  });

  test('--check-api says what a form waits for whose domain another account has', async () => {
    const world = await cliWorld();
    await shop(world);
    await world.say(['push', '--yes']);
    await world.publish('shop.test');
    await world.say(['domains', 'verify', 'shop.test']);
    const { value } = await testKey(world.daemon.store);
    const other = { env: { ...world.env, POSTERN_API_KEY: value } };
    await world.say(['push', '--yes'], other);
    const { code, out } = await world.say(['test', 'config', '--check-api'], other);
    expect([code, out]).toEqual([
      0,
      expect.stringContaining('note    form shop.test/contact is inactive until shop.test is verified\n'),
    ]);
  });

  test('--check-api tells what is wrong with the key, or that nobody answers', async () => {
    const world = await cliWorld({ permissions: ['forms.read'], environment: 'test' });
    await shop(world);
    const weak = await world.say(['test', 'config', '--check-api']);
    expect(weak.code).toBe(1);
    expect(weak.out).toContain('failed  the API key lacks the permission projects.write');
    expect(weak.out).toContain('note    this is a test key: its mail is captured, not delivered\n');
    const wrong = { env: { ...world.env, POSTERN_API_KEY: 'svc_sk_live_wrong' } };
    const unknown = await world.say(['test', 'config', '--check-api', '--json'], wrong);
    expect(unknown.code).toBe(1);
    expect(JSON.parse(unknown.out)).toMatchObject({ valid: true, checks: [{ check: 'key', state: 'failed' }] });
    const away = { env: { ...world.env, POSTERN_URL: 'http://127.0.0.1:1' } };
    expect((await world.say(['test', 'config', '--check-api'], away)).code).toBe(3);
    expect((await world.say(['test', 'config', '--url', 'http://127.0.0.1:1'])).code).toBe(3);
  });
});
