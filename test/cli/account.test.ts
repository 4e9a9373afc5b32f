/** `signup` and `auth …`, against the HTTP server and its Unix socket. */
import { once } from 'node:events';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';
import { person, type Person } from './cli-world.ts';

const FULL =
  'forms.read forms.write forms.submit domains.read domains.write collections.read collections.write analytics.read projects.read projects.write email.send keys.read keys.write';

interface Kept {
  readonly url: string;
  readonly key: string;
}

async function credentials({ read }: Person): Promise<Kept> {
  return JSON.parse(await read('.config/postern/credentials.json')) as Kept;
}

/** Somebody with a key of a new account. */
async function member(settings: Parameters<typeof testKey>[1] = {}): Promise<Person & { http: TestHttp; key: string }> {
  const http = await startHttp();
  const { value, id } = await testKey(http.store, settings);
  return { ...(await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value })), http, key: id };
}

describe('signup', () => {
  test('over the socket makes an account whose key works at once, and remembers it', async () => {
    const http = await startHttp();
    const ana = await person();
    const made = await ana.say([
      'signup',
      '--url',
      `unix:${http.socket}`,
      '--name',
      'Ana',
      '--email',
      'ana@inbox.test',
    ]);
    expect(made).toMatchObject({ code: 0, err: '' });
    const { url, key } = await credentials(ana);
    expect(url).toBe(`unix:${http.socket}`);
    expect(made.out).toMatch(/^Created account ten_\w+ on unix:/);
    expect(made.out).not.toContain(key);
    expect(made.out).not.toContain('link');
    expect((await stat(join(ana.folder, '.config/postern/credentials.json'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(ana.folder, '.config/postern'))).mode & 0o777).toBe(0o700);

    const { code, out } = await ana.say(['auth', 'status', '--debug', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      tenant: { name: 'Ana' },
      rate_limits: { requests_per_hour: { limit: 100 } },
      debug: {
        server: url,
        server_from: expect.stringMatching(/credentials\.json$/),
        clock_ahead_s: expect.any(Number),
      },
    });
  });

  test('over the network says that the key waits for the mailed link', async () => {
    const http = await startHttp({ server: { signup: 'open' } });
    const ana = await person();
    const { code, out } = await ana.say(['signup', '--url', `${http.base}/`], {
      answers: ['', 'Ana', 'no address', 'ana@inbox.test'],
    });
    expect([code, out]).toEqual([0, expect.stringContaining('open the link in the email sent to ana@inbox.test')]);
    expect((await credentials(ana)).url).toBe(http.base);
    const status = await ana.say(['auth', 'status']);
    expect([status.code, status.err]).toEqual([1, expect.stringContaining('Open the link that was mailed')]);
  });

  test('asks for the server where nothing names one', async () => {
    const http = await startHttp({ server: { signup: 'open' } });
    const ana = await person({ POSTERN_CONFIG: '/nowhere/server.yml' });
    const answers = ['nonsense', http.base, 'Ana', 'ana@inbox.test'];
    const { code, err } = await ana.say(['signup'], { answers });
    expect([code, err]).toEqual([
      0,
      expect.stringContaining('Must be a URL such as https://mail.example.net or unix:'),
    ]);
    expect((await credentials(ana)).url).toBe(http.base);
  });

  test('replaces no credentials unasked', async () => {
    const http = await startHttp();
    const ana = await person();
    const args = ['signup', '--url', `unix:${http.socket}`, '--name', 'Ana', '--email', 'ana@inbox.test'];
    await ana.say(args);
    const { key } = await credentials(ana);
    expect(await ana.say(args)).toMatchObject({ code: 2, err: expect.stringContaining('add --force') });
    expect((await credentials(ana)).key).toBe(key);
    expect(await ana.say([...args, '--force', '--json'])).toMatchObject({ code: 0 });
    expect((await credentials(ana)).key).not.toBe(key);
  });

  test('shows the key where it cannot be kept, and what goes before it where it can', async () => {
    const http = await startHttp();
    const args = ['signup', '--url', `unix:${http.socket}`, '--name', 'Ana', '--email', 'ana@inbox.test'];
    const ana = await person();
    await mkdir(join(ana.folder, '.config/postern/credentials.json.new'), { recursive: true });
    expect(await ana.say(args)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/EISDIR.*The account was created. Save its key yourself: svc_sk_live_\w+\n$/),
    });
    const bo = await person({ POSTERN_API_KEY: 'svc_sk_live_x' });
    expect((await bo.say(args)).out).toContain('POSTERN_API_KEY is set and takes precedence');
  });

  test('where it cannot be done says what to do instead', async () => {
    const http = await startHttp();
    const ana = await person();
    const who = ['--name', 'Ana', '--email', 'ana@inbox.test'];
    const said = [
      await ana.say(['signup', '--url', http.base, ...who]),
      await ana.say(['signup', '--url', http.base]),
      await ana.say(['signup', '--url', http.base, '--name', 'Ana', '--email', 'ana']),
      await ana.say(['signup', '--url', 'http://127.0.0.1:1', ...who]),
    ];
    expect(said.map(({ code, err }) => [code, err])).toEqual([
      [1, expect.stringContaining('On the server itself, root and the group of the service can run: postern signup')],
      [2, expect.stringContaining('--name is required')],
      [2, expect.stringContaining('Must be an email address')],
      [3, expect.stringContaining('Is the daemon running?')],
    ]);
    await expect(readFile(join(ana.folder, '.config/postern/credentials.json'))).rejects.toThrow('ENOENT');
  });
});

describe('auth status', () => {
  test('shows the key, its restrictions and what its limits leave', async () => {
    const ana = await member({
      name: 'Shop',
      permissions: ['forms'],
      restrictions: { rate_limit: 50, domain_restrictions: ['example.com'] },
    });
    const { code, out } = await ana.say(['auth', 'status', '--debug']);
    expect(code).toBe(0);
    for (const line of [
      /^account +Tenant \(ten_\w+\), plan free$/m,
      /^key +Shop \(key_\w+\), svc_rk_….{4}, live$/m,
      /^permissions +forms\.read, forms\.write, forms\.submit$/m,
      /^domains +example\.com$/m,
      /^per hour +50 requests$/m,
      /^this hour +\d+ of 50 requests left, resets at 20.*Z$/m,
      /^server +http:.* \(\$POSTERN_URL\)$/m,
      /^key from +\$POSTERN_API_KEY$/m,
      /^versions +server 0\.0\.0, CLI 0\.0\.0, Node\.js v/m,
      /^clock +in sync$/m,
    ])
      expect(out).toMatch(line);
  });

  test('of the operator needs no key', async () => {
    const http = await startHttp();
    const ana = await person({ POSTERN_URL: `unix:${http.socket}` });
    expect(await ana.say(['auth', 'status'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('none (operator'),
    });
  });

  test('without a server or key says how to name one', async () => {
    const ana = await person({ POSTERN_CONFIG: '/nowhere/server.yml' });
    expect(await ana.say(['auth', 'status'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('No server configured'),
    });
    expect(await ana.say(['auth', 'status', '--url', 'http://127.0.0.1:1'])).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        'Set POSTERN_API_KEY, or create an account with: postern signup --url http://127.0.0.1:1',
      ),
    });
    await ana.write('.config/postern/credentials.json', '{}');
    expect(await ana.say(['auth', 'status'])).toMatchObject({
      code: 78,
      err: expect.stringContaining('Fix or delete it, or run: postern signup --force'),
    });
  });

  test('credentials that nobody can read are in nobody’s way: neither where server and key are named, nor of a new account', async () => {
    const http = await startHttp();
    const { value } = await testKey(http.store);
    const ana = await person({ POSTERN_API_KEY: value });
    await ana.write('.config/postern/credentials.json', '{}');
    expect(await ana.say(['auth', 'status', '--url', http.base])).toMatchObject({ code: 0, err: '' });
    const bo = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value });
    await bo.write('.config/postern/credentials.json', '{}');
    expect(await bo.say(['auth', 'status'])).toMatchObject({ code: 0, err: '' });
    const args = ['signup', '--url', `unix:${http.socket}`, '--name', 'Bo', '--email', 'bo@inbox.test'];
    expect(await bo.say(args)).toMatchObject({ code: 78, err: expect.stringContaining('postern signup --force') });
    expect((await bo.say([...args, '--force'])).code).toBe(0);
    expect((await credentials(bo)).url).toBe(`unix:${http.socket}`);
  });
});

describe('keys', () => {
  test('are made with what is asked for, listed, shown and revoked', async () => {
    const ana = await member();
    const flags =
      '--permissions forms,email.send --rate-limit 500 --burst-limit 20 --ip 192.0.2.1,2001:db8::/32 --domain example.com --expires 2999-01-01 --environment test';
    const made = await ana.say(['auth', 'create-key', '--name', 'Shop', ...flags.split(' ')]);
    expect(made).toMatchObject({ code: 0, err: 'Save the key now. It is not shown again.\n' });
    const [, value = '', id = ''] = /^key +(\S+)\nid +(\S+)$/m.exec(made.out) ?? [];
    expect(made.out).toMatch(/^expires +2999-01-01T00:00:00Z$/m);
    const used = await person({ POSTERN_URL: ana.http.base, POSTERN_API_KEY: value });
    expect(await used.say(['auth', 'status'])).toMatchObject({ code: 1, err: expect.stringContaining('address') });
    const shown = JSON.parse((await ana.say(['auth', 'permissions', '--key-id', id, '--json'])).out) as object;
    expect(shown).toEqual({
      id,
      permissions: ['forms.read', 'forms.write', 'forms.submit', 'email.send'],
      restrictions: {
        ip_whitelist: ['192.0.2.1', '2001:db8::/32'],
        domain_restrictions: ['example.com'],
        rate_limit: 500,
        burst_limit: 20,
        expires_at: '2999-01-01T00:00:00.000Z',
      },
    });
    expect((await ana.say(['auth', 'permissions', '--key-id', id])).out).toBe(
      'forms.read\nforms.write\nforms.submit\nemail.send\n',
    );
    const { out } = await ana.say(['auth', 'list-keys']);
    expect(out.split('\n').map((line) => line.split('\t'))).toEqual([
      [id, 'Shop', expect.stringMatching(/^svc_rk_…/), 'active', '-', 'forms.read forms.write forms.submit email.send'],
      [ana.key, 'Test', expect.stringMatching(/^svc_sk_live_…/), 'active', expect.anything(), FULL],
      [''],
    ]);

    expect(await ana.say(['auth', 'revoke-key', id])).toMatchObject({
      code: 2,
      err: expect.stringContaining('add --yes'),
    });
    expect(await ana.say(['auth', 'revoke-key', id], { answers: ['n'] })).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^Revoke key_\w+ \(Shop\)\?.*\[y\/N\] Nothing was changed\.\n$/),
    });
    expect(await ana.say(['auth', 'revoke-key', id], { answers: ['y'] })).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^key_\w+ was revoked at 2\S+Z\n$/),
    });
    expect(await ana.say(['auth', 'revoke-key', id])).toMatchObject({ code: 0 });
    expect((await ana.say(['auth', 'list-keys'], { width: 300 })).out).toMatch(/Shop +svc_rk_….{4} +revoked/);
  });

  test('that a stolen one made are named when it is revoked, and revoked with it on request', async () => {
    const ana = await member();
    const made = await ana.say(['auth', 'create-key', '--name', 'Child', '--permissions', 'keys']);
    const [, value = '', id = ''] = /^key +(\S+)\nid +(\S+)$/m.exec(made.out) ?? [];
    const child = await person({ POSTERN_URL: ana.http.base, POSTERN_API_KEY: value });
    const alone = await child.say(['auth', 'revoke-key', ana.key, '--yes']);
    expect(alone).toMatchObject({ code: 0, out: expect.stringMatching(/^key_\w+ was revoked at .*\n$/) });
    expect(alone.err).toBe(
      `Keys created with this key are still active: ${id} (Child).\nIf the key was stolen, revoke them too: postern auth revoke-key ${ana.key} --with-children\n`,
    );
    const asked = await child.say(['auth', 'revoke-key', ana.key, '--with-children'], { answers: ['y'] });
    expect(asked.err).toContain(`Revoke ${id} (Child)?`);
    expect(asked.out).toContain(`${id} was revoked at `);
    expect((await child.say(['auth', 'status'])).code).toBe(1);
  });

  test('that have asked too often are told when they may again', async () => {
    const ana = await member({ restrictions: { rate_limit: 1 } });
    expect((await ana.say(['auth', 'list-keys'])).code).toBe(0);
    expect(await ana.say(['auth', 'list-keys'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^Too many requests\..*\nTry again in \d+ s\.\n$/),
    });
  });

  test('that cannot be made are refused before or by the daemon', async () => {
    const ana = await member({ permissions: ['keys', 'forms'] });
    const said = [
      await ana.say(['auth', 'create-key', '--name', 'x', '--permissions', 'froms']),
      await ana.say(['auth', 'create-key', '--name', 'x', '--permissions', 'forms', '--rate-limit', 'many']),
      await ana.say(['auth', 'create-key', '--name', 'x']),
      await ana.say(['auth', 'create-key', '--name', 'x', '--permissions', 'email.send']),
      await ana.say(['auth', 'permissions', '--key-id', 'key_x']),
      await ana.say(['auth', 'create-key', '--name', 'x', '--permissions', 'forms', '--ip', 'here']),
    ];
    expect(said.map(({ code, err }) => [code, err])).toEqual([
      [2, expect.stringContaining('"froms" is not one of forms, domains')],
      [2, expect.stringContaining('a whole number of 1 or more')],
      [2, expect.stringContaining("required option '--permissions <list>'")],
      [1, expect.stringContaining('To see the permissions of this key, run: postern auth status')],
      [1, 'There is no key key_x.\n'],
      [1, expect.stringContaining('restrictions.ip_whitelist')],
    ]);
  });
});

/** A server with one answer. Answers its URL. */
async function answering(respond: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_, response) => respond(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('the answer of a newer server is shown, with members and values that this version does not know', async () => {
  const time = '2026-01-01T00:00:00.000Z';
  const key = {
    id: 'key_1',
    name: 'Shop',
    prefix: 'svc_rk_',
    last4: 'abcd',
    permissions: ['forms.read', 'robots.write'],
    restrictions: { moon_phase: 'full' },
    environment: 'staging',
    expires_at: null,
    created_at: time,
    created_by: null,
    last_used_at: null,
    revoked_at: null,
    colour: 'green',
  };
  const answer = { api_keys: [key], count: 1, next_cursor: null, took_ms: 3 };
  const url = await answering((response) => response.end(JSON.stringify(answer)));
  const ana = await person({ POSTERN_URL: url, POSTERN_API_KEY: 'x' });
  expect(await ana.say(['auth', 'list-keys'])).toEqual({
    code: 0,
    out: 'key_1\tShop\tsvc_rk_…abcd\tactive\t-\tforms.read robots.write\n',
    err: '',
  });
  expect(JSON.parse((await ana.say(['auth', 'list-keys', '--json'])).out)).toEqual(answer);
});

test.each([
  ['{"api_keys": 7}', 1, /sent an answer that this version of postern cannot read.*\n.*api_keys/s],
  ['<p>hello</p>', 3, /answered 200, but not as a Postern server\. Check the URL/],
  ['<p>nothing here</p>', 3, /answered 404, but not as a Postern server/, 404],
  ['', 3, /redirects to https:\/\/elsewhere\.test\//, 301],
  ['{"error": "There is nothing at this address.", "code": "NOT_FOUND"}', 1, /Check the path in the server URL/, 404],
  ['{"api_keys": [], "count": "\u009b1m"}', 0, /^$/],
] as const)('an answer such as %s is no crash', async (body, code, words, status?: number) => {
  const url = await answering((response) =>
    response.writeHead(status ?? 200, status === 301 ? { Location: 'https://elsewhere.test/' } : {}).end(body),
  );
  const ana = await person({ POSTERN_URL: `${url}/path`, POSTERN_API_KEY: 'x' });
  const args = ['auth', 'list-keys', ...(code === 0 ? ['--json'] : [])];
  const said = await ana.say(args);
  expect(said).toMatchObject({ code, err: expect.stringMatching(words) });
  // A terminal takes U+009B for the beginning of a command.
  expect(said.out).not.toContain('\u009b');
  if (code === 0) expect(JSON.parse(said.out)).toMatchObject({ count: '\u009b1m' });
  else expect(said.out).toBe('');
});
