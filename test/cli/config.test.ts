import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { configCheck, configShow } from '../../src/cli/config.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { answerOffline } from '../../src/daemon/offline.ts';
import { checkTemplates } from '../../src/templates/engine.ts';
import { runCommand, testTerminal } from '../harness/terminal.ts';
import { person } from './cli-world.ts';
import { configFolder, projectText, SERVER, type Folder } from '../config/folder.ts';

const env = { RELAY_PASSWORD: 'hunter2', DATABASE_URL: 'postgres://postern:hunter2@db/mail' };

/** What the command writes, with paths relative to the folder, and its exit code. */
async function run(folder: Folder, command: 'check' | 'show', flags = { changed: false, json: false }) {
  const terminal = testTerminal({ env });
  const reading = { secrets: machineSecrets(env), checkTemplates };
  const options = { path: folder.server, env, reading, terminal, ...flags };
  const code = await (command === 'check'
    ? configCheck({ ...options, answerOffline: (file, request) => answerOffline(file, request, env) })
    : configShow(options));
  const [output, complaints] = [terminal.out(), terminal.err()].map((text) =>
    text.replaceAll(`${folder.path('')}/`, ''),
  );
  return { code, output: output ?? '', complaints: complaints ?? '' };
}

/** Its database can be made on this machine. */
const USABLE = `${SERVER}database: { url: 'sqlite:${tmpdir()}/postern.db' }\n`;

describe('config check', () => {
  test('of a good configuration says so', async () => {
    const folder = await configFolder({ 'server.yml': USABLE, 'projects/a.yml': projectText('a', 'a.example') });
    expect(await run(folder, 'check')).toEqual({
      code: 0,
      output: 'server.yml and 1 project: 0 errors, 0 warnings\n',
      complaints: '',
    });
  });

  test('lists every error and warning of every file', async () => {
    const folder = await configFolder({
      'server.yml': `${SERVER}delivery: { prot: 25 }\n`,
      'projects/a.yml': projectText('a', 'a.example').replace('to: anna@example.org', "subject: '{{ form.name'"),
      'projects/b.yml': projectText('b', 'b.example').replace('        to: anna@example.org', '        {}'),
      'projects/c.yml': projectText('c', 'b.example'),
    });
    const { code, output } = await run(folder, 'check');
    expect(code).toBe(78);
    expect(output.split('\n')).toEqual([
      'server.yml:4:13: delivery.prot: unknown key "prot" (did you mean "port"?)',
      expect.stringMatching(/^projects\/a\.yml:6:19: domains\.a\.example\.forms\.contact\.subject: .*not closed/),
      'projects/c.yml:3:3: domains.b.example: the domain b.example belongs to projects/b.yml',
      expect.stringMatching(/^warning: projects\/a\.yml:5:7: domains\.a\.example\.forms\.contact: no recipient/),
      expect.stringMatching(/^warning: projects\/b\.yml:5:7: domains\.b\.example\.forms\.contact: no recipient/),
      'server.yml and 3 projects: 3 errors, 2 warnings',
      '',
    ]);
  });

  test('--json lists them for programs', async () => {
    const folder = await configFolder({ 'server.yml': `${SERVER}delivery: { prot: 25 }\n` });
    const { code, output } = await run(folder, 'check', { changed: false, json: true });
    expect(code).toBe(78);
    expect(JSON.parse(output)).toEqual({
      file: 'server.yml',
      projects: 0,
      valid: false,
      errors: ['server.yml:4:13: delivery.prot: unknown key "prot" (did you mean "port"?)'],
      warnings: [],
    });
  });

  test('warns of mail that would circle between projects', async () => {
    const forward = (from: string, to: string): string =>
      projectText(from, `${from}.example`, `    forwarding: { x@${from}.example: x@${to}.example }\n`);
    const projects = { 'projects/a.yml': forward('a', 'b'), 'projects/b.yml': forward('b', 'a') };
    const folder = await configFolder({ 'server.yml': USABLE, ...projects });
    const { code, output } = await run(folder, 'check');
    expect(code).toBe(0);
    expect(output.split('\n')[0]).toBe(
      'warning: projects/a.yml:7:32: domains.a.example.forwarding.x@a.example: forwarding loop through other projects: x@a.example → x@b.example → x@a.example',
    );
  });

  test('names certificate files and a database folder that are missing', async () => {
    const text = `${SERVER}tls:\n  mode: files\n  files: { cert: /none/cert.pem, key: /none/key.pem }\ndatabase: { url: 'sqlite:/none/postern.db' }\n`;
    const { code, output } = await run(await configFolder({ 'server.yml': text }), 'check');
    expect(code).toBe(78);
    expect(output.split('\n').slice(0, 3)).toEqual([
      'server.yml:6:18: tls.files.cert: there is no file /none/cert.pem',
      'server.yml:6:39: tls.files.key: there is no file /none/key.pem',
      'server.yml:7:18: database.url: there is no folder /none',
    ]);
  });

  test('of a file that is not there says where it looked', async () => {
    const folder = await configFolder();
    await folder.remove('server.yml');
    await expect(run(folder, 'check')).rejects.toThrow(`there is no file ${folder.server}`);
  });
});

describe('config show', () => {
  const text = `${SERVER}database: { url: '\${DATABASE_URL}' }
delivery:
  relay: smtp://user:\${RELAY_PASSWORD}@relay.example.net
  retry: [90s, 2h]
`;

  test('writes all that is active, as YAML that means the same', async () => {
    const folder = await configFolder({ 'server.yml': text });
    const { output, code } = await run(folder, 'show');
    expect(code).toBe(0);
    expect(output).toContain('url: ${DATABASE_URL}');
    expect(output).toContain('smtp://user:${RELAY_PASSWORD}@relay.example.net');
    expect(output).not.toContain('hunter2');
    await folder.write('server.yml', output);
    expect((await run(folder, 'show')).output).toBe(output);
  });

  test('--changed writes what differs from the defaults', async () => {
    const folder = await configFolder({ 'server.yml': text });
    expect((await run(folder, 'show', { changed: true, json: false })).output.split('\n')).toEqual([
      'server.hostname: mail.example.net',
      'server.operator: ops@example.net',
      'database.url: ${DATABASE_URL} (default: sqlite:/var/lib/postern/postern.db)',
      'delivery.relay: smtp://user:${RELAY_PASSWORD}@relay.example.net (default: null)',
      'delivery.retry: ["90s","2h"] (default: ["5m","10m","20m","40m","1h","1h","2h","2h","4h","4h","4h","6h"])',
      '',
    ]);
  });

  test('--json is for programmes', async () => {
    const folder = await configFolder({ 'server.yml': `${SERVER}log: { level: debug }\n` });
    const { output } = await run(folder, 'show', { changed: true, json: true });
    expect(JSON.parse(output)).toContainEqual({ path: 'log.level', default: 'info', value: 'debug' });
    expect(JSON.parse((await run(folder, 'show', { changed: false, json: true })).output)).toMatchObject({
      log: { level: 'debug' },
    });
  });

  test('never shows a password that was written out, nor a reference under a key that took another form', async () => {
    const folder = await configFolder({
      'server.yml': `${SERVER}delivery:\n  relay: smtp://user:hunter2@relay.example.net\n  routes: { Example.ORG: '\${ROUTE}' }\n`,
    });
    Object.assign(env, { ROUTE: 'hunter2:25' });
    for (const changed of [true, false]) {
      const { output, code } = await run(folder, 'show', { changed, json: false });
      expect(code).toBe(0);
      expect(output).toContain('smtp://user:***@relay.example.net');
      expect(output).not.toContain('hunter2');
    }
  });

  test('of a bad configuration writes its errors', async () => {
    const folder = await configFolder({ 'server.yml': 'server: {}\n' });
    const { say } = await person();
    const { code, out, err } = await say(['config', 'show', '--config', folder.server]);
    expect([code, out]).toEqual([78, '']);
    expect(err.split('\n')[0]).toBe(
      `${folder.server}:1:1: server.hostname: is missing; expected a full host name such as mail.example.net`,
    );
  });
});

test('config schema writes a JSON Schema', async () => {
  const terminal = testTerminal();
  expect(await runCommand(terminal, ['config', 'schema', 'project'])).toBe(0);
  expect(JSON.parse(terminal.out())).toMatchObject({
    type: 'object',
    additionalProperties: false,
    required: ['project'],
  });
});
