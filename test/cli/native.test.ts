/** Commands of a laptop load no native module: where there is none for its system, they run all the same. */
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { bareEnvironment, LAUNCHER } from '../harness/command.ts';
import { temporaryFolder } from '../harness/store.ts';

const FORBID = `data:text/javascript,${encodeURIComponent(`process.dlopen = (_, file) => { throw new Error('native: ' + file); };`)}`;

function run(cwd: string, ...args: string[]) {
  const env = { ...bareEnvironment(cwd), NODE_OPTIONS: `--import ${FORBID}`, POSTERN_API_KEY: 'key' };
  return spawnSync(LAUNCHER, args, { cwd, env, encoding: 'utf8', timeout: 60_000 });
}

test('help, projects, previews and questions to a server elsewhere', async () => {
  const folder = await temporaryFolder();
  const commands: [number, ...string[]][] = [
    [0, '--help'],
    [0, 'init', '--domain', 'example.com', '--email', 'you@example.net', '--yes'],
    [0, 'test', 'config'],
    [0, 'templates', 'preview', 'contact'],
    [0, 'config', 'schema', 'server'],
    [0, 'config', 'check', '--config', 'server.yml'],
    [3, 'domains', 'status', '--url', 'http://127.0.0.1:1'],
    [3, 'push', '--yes', '--url', 'http://127.0.0.1:1'],
  ];
  const server = `server: { hostname: mail.example.net, operator: ops@example.net, admin_socket: '${folder}/admin.sock' }`;
  await writeFile(join(folder, 'server.yml'), `${server}\ndatabase: { url: 'sqlite:${folder}/none.db' }\n`);
  for (const [code, ...args] of commands) {
    const { status, stderr } = run(folder, ...args);
    expect({ args, status, stderr: status === code ? '' : stderr }).toEqual({ args, status: code, stderr: '' });
    expect(stderr).not.toContain('native:');
  }
});

test('the daemon does, so that the test would see it', async () => {
  const folder = await temporaryFolder();
  const file = join(folder, 'server.yml');
  await writeFile(
    file,
    `server: { hostname: mail.example.net, operator: ops@example.net }\ndatabase: { url: 'sqlite:${folder}/x.db' }\n`,
  );
  expect(run(folder, 'serve', '--config', file).stderr).toContain('native: ');
});
