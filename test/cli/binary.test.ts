/** The real command among other programs: exit codes, pipes, an environment without a terminal. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LAUNCHER, runBinary, runProgram } from '../harness/command.ts';
import { startHttp } from '../harness/http.ts';
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
