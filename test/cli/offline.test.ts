/** Commands for operators where server.yml is broken, and where no daemon runs. */
import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { createStore } from '../../src/store/database.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { openAppliance } from '../harness/binary.ts';
import { startCatcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { runBinary } from '../harness/command.ts';
import { sendMany } from '../harness/load.ts';
import { startHttp } from '../harness/http.ts';
import { temporaryFolder } from '../harness/store.ts';
import { person, type Person } from './cli-world.ts';

interface Machine extends Person {
  /** server.yml with these lines at its end. */
  configure(more?: string): Promise<void>;
  /** The id of a message that waits in the database. */
  readonly message: string;
}

/** A machine whose daemon has stopped with one message in its queue. */
async function stopped(env: Readonly<Record<string, string>> = {}): Promise<Machine> {
  const someone = await person({ ...env });
  const { folder } = someone;
  const store = await createStore(`sqlite:${join(folder, 'postern.db')}`);
  const mail = { tenant: OPERATOR, kind: 'system', submission: null, domain: 'example.com', source: {} } as const;
  const { id: message, unit } = enqueue({ ...mail, recipients: ['a@one.example'], ttl: 3_600_000 }, Date.now());
  await store.write(unit);
  await store.close();
  async function configure(more = ''): Promise<void> {
    const server = `server: { hostname: mail.example.net, operator: ops@example.net, admin_socket: ${join(folder, 'admin.sock')} }`;
    const database = `database: { url: 'sqlite:${join(folder, 'postern.db')}' }`;
    // No name server is there: look-ups fail at once.
    await writeFile(
      join(folder, 'config/server.yml'),
      `${server}\n${database}\ndns: { servers: ['127.0.0.1:1'] }\n${more}`,
    );
  }
  await someone.write('config/server.yml', '');
  await configure();
  return { ...someone, configure, message };
}

describe('without a daemon', () => {
  test('the queue is read from the database, and a warning says so', async () => {
    const { say, message, folder } = await stopped({ POSTERN_CONFIG: '' });
    const args = ['--config', join(folder, 'config/server.yml')];
    const before = await readdir(folder);
    const warning = `warning: The daemon is not running. This was read from sqlite:${folder}/postern.db. To see why it is not running, run: postern doctor\n`;
    const list = await say(['queue', 'list', ...args]);
    expect(list).toEqual({
      code: 0,
      out: expect.stringMatching(/^dlv_\w+\tqueued\t0\t\S+\ta@one\.example\t\n$/),
      err: warning,
    });
    const show = await say(['queue', 'show', message, ...args]);
    expect(show).toEqual({ code: 0, out: expect.stringContaining('a@one.example  queued'), err: warning });
    const traced = await say(['trace', message, ...args]);
    expect(traced).toEqual({ code: 0, out: expect.stringContaining('a@one.example'), err: warning });
    expect(await say(['trace', 'req_none', ...args])).toMatchObject({
      code: 1,
      err: expect.stringContaining('No records found for req_none.'),
    });
    const json = await say(['queue', 'list', '--json', '--state', 'queued', ...args]);
    expect(JSON.parse(json.out)).toMatchObject({ count: 1, deliveries: [{ recipient: 'a@one.example' }] });
    expect(await say(['queue', 'list', '--domain', 'two.example', ...args])).toMatchObject({
      code: 0,
      err: expect.stringContaining('No matching deliveries'),
    });
    expect(await say(['queue', 'show', 'msg_none', ...args])).toMatchObject({
      code: 1,
      err: 'There is no message or delivery msg_none.\n',
    });
    expect(await say(['queue', 'list', '--cursor', 'x', ...args])).toMatchObject({
      code: 1,
      err: expect.stringContaining('cursor'),
    });
    // What would change the queue needs the daemon.
    expect(await say(['queue', 'retry', message, ...args])).toMatchObject({ code: 3 });
    // SQLite's own files beside it are made for readers, too.
    const after = await readdir(folder);
    expect(after.filter((name) => !/-(?:wal|shm)$/.test(name))).toEqual(
      before.filter((name) => !/-(?:wal|shm)$/.test(name)),
    );
  });

  test('a daemon that was killed leaves what it had accepted to be seen', async () => {
    const catcher = await startCatcher();
    const appliance = await openAppliance({ deliverTo: catcher.port });
    const run = await appliance.startVerified();
    catcher.hang(true);
    await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
    await until('it is on its way', () => catcher.hung() === 1);
    await run.end('SIGKILL');
    const config = join(appliance.folder, 'server.yml');
    const { code, out, err } = await runBinary(['queue', 'list', '--config', config], { folder: appliance.folder });
    expect({ code, out }).toEqual({
      code: 0,
      out: expect.stringMatching(/^dlv_\w+\tsending\t1\t\S+\towner@inbox\.test\t/),
    });
    expect(err).toMatch(/^warning: The daemon is not running\./);
    // The project of the database keeps its domain, although its file is gone.
    const { say } = await person();
    const [file, other] = ['site.yml', 'other.yml'].map((name) => join(appliance.folder, 'projects', name));
    await rename(file ?? '', `${file}.bak`);
    await writeFile(other ?? '', 'project: { name: Other, slug: other }\ndomains: { forms.test: {} }\n');
    expect(await say(['config', 'check', '--config', config])).toMatchObject({
      code: 78,
      out: expect.stringMatching(
        /other\.yml:2:12: domains\.forms\.test: the domain forms\.test belongs to the project site\n/,
      ),
    });
    await rm(other ?? '');
    await rename(`${file}.bak`, file ?? '');
    const next = await appliance.start();
    expect(await appliance.waiting()).toBe(1);
    expect(await next.end('SIGTERM')).toBe(0);
  });

  test('without a database, or with one of another version, it says what is missing', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'server.yml');
    const server = `server: { hostname: mail.example.net, operator: ops@example.net, admin_socket: ${folder}/admin.sock }\n`;
    await writeFile(file, `${server}database: { url: 'sqlite:${folder}/none.db' }\n`);
    const { say } = await person();
    expect(await say(['queue', 'list', '--config', file])).toEqual({
      code: 78,
      out: '',
      err: `postern: the database sqlite:${folder}/none.db does not exist\n`,
    });
    await writeFile(join(folder, 'none.db'), 'this is no database, as anybody can see who reads it');
    expect(await say(['queue', 'list', '--config', file])).toMatchObject({
      code: 78,
      err: expect.stringMatching(/^postern: the database sqlite:\S+ cannot be read: file is not a database\n$/),
    });
  });

  test('the doctor makes its checks itself, and says that the daemon is down and why', async () => {
    const bin = await temporaryFolder();
    const unit = ['LoadState=loaded', 'ActiveState=failed', 'SubState=failed', 'Result=exit-code', 'ExecMainCode=1'];
    const state = [
      ...unit,
      'ExecMainStatus=78',
      'StateChangeTimestamp=Mon 2026-01-05 10:00:00 CET',
      'InvocationID=abc',
    ];
    await writeFile(join(bin, 'systemctl'), `#!/bin/sh\nprintf '%s\\n' '${state.join("' '")}'\n`, { mode: 0o755 });
    const line = '{"level":"error","event":"x","msg":"The database cannot be opened.","error":"disk I/O error"}';
    await writeFile(join(bin, 'journalctl'), `#!/bin/sh\necho '${line}'\n`, { mode: 0o755 });
    const { say, configure, folder } = await stopped({ PATH: `${bin}:${process.env['PATH']}` });
    const args = ['--config', join(folder, 'config/server.yml')];
    const found = await say(['doctor', ...args]);
    expect(found.code).toBe(1);
    expect(found.err).toBe('');
    const lines = found.out.split('\n');
    expect(lines.slice(0, 2)).toEqual([
      expect.stringMatching(
        /^failed {3}daemon +is not running\. systemd: failed, since Mon 2026-01-05 10:00:00 CET, exit code 78; last in its log: The database cannot be opened\. disk I\/O error$/,
      ),
      expect.stringContaining('→ To start it, run systemctl start postern.'),
    ]);
    expect(found.out).toMatch(/^ok {7}database +sqlite can be read$/m);
    expect(found.out).toMatch(/^warning {2}queue +1 delivery waiting, /m);
    expect(found.out).toMatch(/^ok {7}configuration +is valid$/m);
    await configure('delivery: { prot: 25 }\n');
    const broken = await say(['doctor', '--json', ...args]);
    const { checks } = JSON.parse(broken.out) as { checks: { name: string; status: string; found: string }[] };
    expect(checks.find(({ name }) => name === 'configuration')).toEqual({
      name: 'configuration',
      status: 'failed',
      found: `${folder}/config/server.yml:4:13: delivery.prot: unknown key "prot" (did you mean "port"?)`,
      advice: 'The daemon does not start until this is corrected.',
    });
  });

  test('the doctor goes on without a name of the server, without a database and without systemd', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'server.yml');
    await writeFile(
      file,
      `server: { hostname: "not a name", operator: ops@example.net, admin_socket: ${folder}/a.sock }\ndatabase: { url: 'sqlite:${folder}/none.db' }\ndns: { servers: ['127.0.0.1:1'] }\n`,
    );
    const { say } = await person({ PATH: '/nowhere' });
    const { out, code } = await say(['doctor', '--config', file]);
    expect(code).toBe(1);
    expect(out).toMatch(/^failed {3}daemon +is not running\. systemd is not running on this machine$/m);
    expect(out).toMatch(/^unknown {2}host_name +server\.hostname cannot be read$/m);
    expect(out).toMatch(/^failed {3}database +the database sqlite:\S+ does not exist$/m);
    expect(out).toMatch(/^failed {3}configuration +\S+server\.yml:1:21: server\.hostname: /m);
    expect(out).toMatch(/^ok {7}disk /m);
  });

  test('config check goes on where the database cannot be read', async () => {
    const { say, write, folder } = await stopped();
    const args = ['config', 'check', '--config', join(folder, 'config/server.yml')];
    await write('config/projects/a.yml', 'project: { name: A, slug: a }\ndomains: { a.example: {} }\n');
    expect(await say(args)).toMatchObject({ code: 0, out: expect.stringContaining('1 project: 0 errors, 0 warnings') });
    await writeFile(join(folder, 'postern.db'), 'damaged');
    expect(await say(args)).toMatchObject({
      code: 0,
      out: expect.stringContaining('warning: the files were not compared with the projects in the database: '),
    });
  });
});

describe('with a broken server.yml', () => {
  test('commands reach the daemon by what can be read of it, and say where it is wrong', async () => {
    const { socket } = await startHttp();
    const { say, folder, write } = await person();
    const file = join(folder, 'server.yml');
    await write('server.yml', `server:\n  admin_socket: ${socket}\n  hostname: mail.example.net\n  operator: nobody\n`);
    const list = await say(['queue', 'list', '--config', file]);
    expect(list.code).toBe(0);
    expect(list.err.split('\n').slice(0, 2)).toEqual([
      `${file}:4:13: server.operator: expected an email address such as you@example.com, found "nobody"`,
      `warning: ${file} is not valid. Using the admin socket ${socket}. Correct the file, then run: postern config check`,
    ]);
    // A syntax error hides what stands behind it.
    await write('server.yml', `server:\n  admin_socket: ${socket}\n  hostname: [mail\n`);
    expect(await say(['tenants', 'list', '--config', file])).toMatchObject({
      code: 0,
      err: expect.stringContaining(`${file}:`),
    });
  });

  test('where not even the socket can be read, it is the default one', async () => {
    const { say, folder, write } = await person();
    await write('server.yml', '\t- {{\n');
    const { code, err } = await say(['tenants', 'list', '--config', join(folder, 'server.yml')]);
    expect(code).toBe(3);
    expect(err).toContain('Using the admin socket /run/postern/admin.sock');
    expect(err).toContain('Cannot connect to the daemon: no socket at /run/postern/admin.sock');
  });

  test('a secret that this user cannot read is no fault of the file', async () => {
    const { socket } = await startHttp();
    const { say, folder, write } = await person();
    await write(
      'server.yml',
      `server: { admin_socket: ${socket}, hostname: mail.example.net, operator: ops@example.net }\ndatabase: { url: '\${NOT_SET_HERE}' }\n`,
    );
    const { code, err } = await say(['tenants', 'list', '--config', join(folder, 'server.yml')]);
    expect([code, err]).toEqual([0, '']);
  });
});
