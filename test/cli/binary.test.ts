/** The real command among other programs: exit codes, pipes, an environment without a terminal. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LAUNCHER, runBinary, runProgram } from '../harness/command.ts';
import { startHttp } from '../harness/http.ts';
import { runInTerminal } from '../harness/pseudo-terminal.ts';
import { testKey } from '../harness/keys.ts';
import { temporaryFolder } from '../harness/store.ts';
import { person } from './cli-world.ts';

/** As configuration files of this machine might name a server. */
const NOWHERE = { POSTERN_CONFIG: '/nowhere/server.yml' };

describe('exit codes', () => {
  test.each([
    [0, ['--version'], {}, /^\d+\.\d+\.\d+\n$/, /^$/],
    [2, [], {}, /^$/, /^Usage: postern/],
    [2, ['queue', 'show'], {}, /^$/, /missing required argument 'id'/],
    [2, ['auth', 'status'], NOWHERE, /^$/, /^postern: No server configured\. Pass --url/],
    [
      3,
      ['auth', 'status', '--url', 'http://127.0.0.1:1'],
      { POSTERN_API_KEY: 'x' },
      /^$/,
      /^Cannot connect to the daemon: .*Is the daemon running\?\n$/,
    ],
    [78, ['config', 'check'], NOWHERE, /^$/, /^postern: .*nowhere/],
  ] as const)('%i of %j, from the program', async (code, args, env, out, err) => {
    const said = await runBinary(args, { folder: await temporaryFolder(), env });
    expect(said).toEqual({ code, out: expect.stringMatching(out), err: expect.stringMatching(err) });
  });

  test.each([
    [0, ['queue', 'list', '--help'], {}, /^Usage: postern queue list/, /^$/],
    [2, ['queue'], {}, /^$/, /^Usage: postern queue/],
    [2, ['qeue'], {}, /^$/, /unknown command 'qeue'\n\(Did you mean queue\?\)/],
    [2, ['queue', 'list', '--satte', 'x'], {}, /^$/, /Did you mean --state\?/],
    [2, ['queue', 'show', 'a', 'b'], {}, /^$/, /too many arguments/],
    [
      2,
      ['auth', 'revoke-key', 'key_x', '--url', 'nonsense'],
      { POSTERN_API_KEY: 'x' },
      /^$/,
      /Must be a URL such as https:/,
    ],
    [3, ['queue', 'list', '--url', 'unix:/nowhere/admin.sock'], {}, /^$/, /no socket at \/nowhere\/admin\.sock/],
    [2, ['auth', 'status'], { POSTERN_URL: 'nonsense' }, /^$/, /^postern: POSTERN_URL is not a server URL: nonsense/],
    [2, ['tenants', 'list'], NOWHERE, /^$/, /^postern: No server configured\. .*permission admin/],
    [
      2,
      ['push', '--url', 'http://127.0.0.1:1', '--config', 'x.yml'],
      {},
      /^$/,
      /'--config <file>' cannot be used with/,
    ],
    [2, ['domains', 'setup', 'example.com', '--zone', '--json'], {}, /^$/, /'--zone' cannot be used with/],
    [2, ['test', 'send', 'a@example.com', '--no-wait', '--timeout', '5'], {}, /^$/, /'--timeout <seconds>' cannot be/],
    [2, ['analytics', '--json', 'api-usage'], {}, /^$/, /put --json after the subcommand/],
    [78, ['queue', 'list', '--config', '/nowhere/server.yml'], {}, /^$/, /^postern: .*nowhere/],
  ] as const)('%i of %j', async (code, args, env, out, err) => {
    const { say } = await person(env);
    expect(await say(args)).toEqual({ code, out: expect.stringMatching(out), err: expect.stringMatching(err) });
  });

  test('78 of credentials that nobody can read', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'not-a-folder'), '');
    const env = { XDG_CONFIG_HOME: join(folder, 'not-a-folder') };
    expect(await runBinary(['auth', 'status'], { folder, env })).toMatchObject({
      code: 78,
      err: expect.stringMatching(/ENOTDIR/),
    });
  });
});

describe('errors with --json are one JSON object on standard error, and nothing is on standard output', () => {
  test.each([
    [2, 'USAGE', ['queue', 'list', '--satte', 'x', '--json'], {}, /^unknown option '--satte'/],
    [2, 'USAGE', ['queue', '--json'], {}, /./],
    [2, 'USAGE', ['auth', 'status', '--json'], { POSTERN_URL: 'nonsense' }, /^POSTERN_URL is not a server URL/],
    [3, 'DAEMON_DOWN', ['tenants', 'list', '--json', '--url', 'unix:/nowhere/a.sock'], {}, /no socket at \/nowhere/],
    [78, 'CONFIGURATION_INVALID', ['config', 'check', '--json'], NOWHERE, /nowhere/],
  ] as const)('%i %s of %j', async (code, name, args, env, message) => {
    const said = await runBinary(args, { folder: await temporaryFolder(), env });
    expect({ ...said, err: said.err.split('\n').slice(1) }).toEqual({ code, out: '', err: [''] });
    expect(JSON.parse(said.err)).toEqual({
      error: { code: name, message: expect.stringMatching(message), details: [], exit_code: code },
    });
  });

  test('what the server refuses, with its code and its places', async () => {
    const http = await startHttp();
    const { value } = await testKey(http.store);
    const { say, write } = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value });
    const refused = await say(['projects', 'show', 'none', '--json']);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(JSON.parse(refused.err)).toEqual({
      error: expect.objectContaining({ code: 'NOT_FOUND', message: 'There is no project none.', exit_code: 1 }),
    });
    await write('postern.yml', 'project: { name: A, slug: a }\ndomains: { a.example: { froms: {} } }\n');
    const local = await say(['push', '--json', '--yes']);
    expect(local).toMatchObject({ code: 78, out: '' });
    expect(JSON.parse(local.err)).toEqual({
      error: {
        code: 'CONFIGURATION_INVALID',
        message: 'postern.yml is not valid. Nothing was changed.',
        details: [
          expect.objectContaining({ file: 'postern.yml', line: 2, column: 25, path: 'domains.a.example.froms' }),
        ],
        exit_code: 78,
      },
    });
  });

  test('a warning has the same shape, and the command goes on', async () => {
    const http = await startHttp();
    const { say, write, folder } = await person();
    await write(
      'server.yml',
      `server: { hostname: mail.example.net, operator: nobody, admin_socket: ${http.socket} }\n`,
    );
    const { code, out, err } = await say(['tenants', 'list', '--json', '--config', join(folder, 'server.yml')]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toHaveProperty('tenants');
    expect(JSON.parse(err)).toEqual({
      warning: {
        code: 'CONFIGURATION_INVALID',
        message: expect.stringContaining('is not valid'),
        details: [expect.objectContaining({ line: 1, path: 'server.operator' })],
      },
    });
  });
});

test('times are local, with their zone, for people, and UTC for programs', async () => {
  const http = await startHttp();
  const settings = { folder: await temporaryFolder(), env: { TZ: 'Asia/Kolkata' } };
  const args = ['tenants', 'list', '--url', `unix:${http.socket}`];
  const seen = await runInTerminal(args, settings);
  const [, local = ''] = / (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30) /.exec(seen.text) ?? [];
  const piped = await runBinary(args, settings);
  const [, utc = ''] = /\t(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\t/.exec(piped.out) ?? [];
  expect(Date.parse(local)).toBe(Date.parse(utc));
  expect((await runBinary([...args, '--json'], settings)).out).toMatch(/"created_at": "\S+\.\d{3}Z"/);
});

describe('without a terminal', () => {
  test('lists are lines of cells, JSON is JSON, and nothing is coloured', async () => {
    const http = await startHttp();
    const { value } = await testKey(http.store);
    const settings = { folder: await temporaryFolder(), env: { POSTERN_URL: http.base, POSTERN_API_KEY: value } };
    const list = await runBinary(['auth', 'list-keys'], settings);
    expect(list).toMatchObject({ code: 0, out: expect.stringMatching(/^key_\w+\tTest\t[^\n]+\n$/), err: '' });
    const json = await runBinary(['auth', 'list-keys', '--json'], settings);
    expect(JSON.parse(json.out)).toMatchObject({ count: 1 });
    expect(list.out + json.out).not.toContain('\u001b');
  });

  test('a disk that is full is told, and is no crash', async () => {
    const folder = await temporaryFolder();
    expect(await runProgram('sh', ['-c', `'${LAUNCHER}' config schema project > /dev/full`], { folder })).toEqual({
      code: 1,
      out: '',
      err: expect.stringMatching(/^postern: Cannot write to standard output: ENOSPC[^\n]*\n$/),
    });
  });

  test('a reader that has seen enough ends it quietly', async () => {
    const folder = await temporaryFolder();
    const script = `{ '${LAUNCHER}' completion fish; echo "exit code $?" >&2; } | true`;
    expect(await runProgram('sh', ['-c', script], { folder })).toEqual({ code: 0, out: '', err: 'exit code 0\n' });
  });
});
