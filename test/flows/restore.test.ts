/** `postern restore`: a server elsewhere from a backup, one in the place of another, and what it refuses. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { exitCodeOf } from '../../src/cli/run.ts';
import { startDaemon, type Daemon } from '../../src/daemon/daemon.ts';
import { messageOf } from '../../src/lib/errors.ts';
import { createLog } from '../../src/lib/log.ts';
import { SITE, startTestWorld, type TestWorld, type WorldSettings } from '../harness/daemon.ts';
import { temporaryFolder } from '../harness/store.ts';
import { runCommand, runOperator, testTerminal } from '../harness/terminal.ts';

interface Saved {
  readonly world: TestWorld;
  readonly backup: string;
  readonly serverFile: string;
  readonly database: string;
}

const PASSPHRASE = 'correct horse battery staple';

/** A server of which a backup was made while one mail was waiting for its next try, and which has ended. */
async function savedServer(settings: WorldSettings = {}, flags: readonly string[] = []): Promise<Saved> {
  const world = await startTestWorld({ ...settings, asInProduction: true });
  world.mx.behave(({ stage }) => (stage === 'rcpt' ? { code: 451, text: '4.7.1 later' } : undefined));
  expect((await world.post('/example.test/contact', { message: 'Was waiting' })).status).toBe(200);
  await expect.poll(async () => (await world.queue()).map(({ state }) => state)).toEqual(['deferred']);
  const backup = join(await temporaryFolder(), 'postern.tar.gz');
  expect((await runOperator(join(world.folder, 'admin.sock'), ['backup', backup, ...flags])).err).toBe('');
  const database = world.daemon.snapshot().server.database.url.slice('sqlite:'.length);
  await world.daemon.close();
  world.mx.behave(() => undefined);
  return { world, backup, serverFile: join(world.folder, 'server.yml'), database };
}

/** Takes away what the server had, as if this were another machine. */
async function leaveHost({ world, serverFile, database }: Saved): Promise<void> {
  const away = await temporaryFolder();
  for (const [i, path] of [serverFile, join(world.folder, 'projects'), database].entries())
    await rename(path, join(away, `${i}`));
  for (const end of ['-wal', '-shm', '.lock']) await rm(`${database}${end}`, { force: true });
}

async function restore({ backup, serverFile }: Pick<Saved, 'backup' | 'serverFile'>, ...flags: readonly string[]) {
  const terminal = testTerminal({ width: 300 });
  try {
    const code = await runCommand(terminal, ['restore', backup, '--config', serverFile, ...flags]);
    return { code, out: terminal.out(), err: terminal.err() };
  } catch (error) {
    return { code: exitCodeOf(error), out: terminal.out(), err: messageOf(error) };
  }
}

/** The database of a test is not in the folder of its server.yml. */
const ASKED = ['--outside-files', 'create'];

async function startOn({ serverFile }: Saved): Promise<Daemon> {
  const log = await createLog({ level: 'silent', format: 'json', redact_addresses: false });
  const daemon = await startDaemon(serverFile, { log });
  onTestFinished(() => daemon.close());
  return daemon;
}

function operator({ world }: Saved, ...args: readonly string[]) {
  return runOperator(join(world.folder, 'admin.sock'), args);
}

test('on another host: configuration, keys and queue are there, and what waited is sent once', async () => {
  const certificates = await temporaryFolder();
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(certificates, name));
  await writeFile(String(cert), 'a certificate');
  await writeFile(String(key), 'its key', { mode: 0o640 });
  const saved = await savedServer({ server: { tls: { mode: 'off', files: { cert, key } } } });
  const written = await readFile(saved.serverFile, 'utf8');
  await leaveHost(saved);
  await rename(String(key), `${key}.away`);
  const refused = await restore(saved);
  expect([refused.code, refused.err]).toEqual([
    1,
    `The backup has files outside ${saved.world.folder}: ${saved.database}. To create them, add --outside-files create; to leave them out, add --outside-files skip`,
  ]);
  const { code, out, err } = await restore(saved, ...ASKED);
  expect([code, err]).toEqual([0, '']);
  expect(out).toMatch(
    /^Restored the backup of mail\.postern\.test from \S+Z \(Postern \S+\): \d+ rows to \S+ and 3 files/,
  );
  expect(out).toMatch(/In the queue: 1 delivery\. Mail that has been delivered since \S+ is sent again/);
  expect(await readFile(saved.serverFile, 'utf8')).toBe(written);
  expect(await readFile(join(saved.world.folder, 'projects/site.yml'), 'utf8')).toBe(SITE);
  expect(await readFile(String(key), 'utf8')).toBe('its key');
  expect((await stat(String(key))).mode & 0o777).toBe(0o640);
  expect((await stat(saved.database)).mode & 0o777).toBe(0o600);
  expect((await readdir(dirname(saved.database))).filter((name) => name.includes('restore'))).toEqual([]);
  await startOn(saved);
  expect((await operator(saved, 'queue', 'retry', '--state', 'deferred')).code).toBe(0);
  const mails = await saved.world.caught(1);
  expect(mails.list()).toMatchObject([{ verdicts: { dkim: [{ result: 'pass' }] } }]);
  await expect.poll(async () => (await saved.world.queue()).map(({ state }) => state)).toEqual(['delivered']);
  expect(mails.list()).toHaveLength(1);
});

test('with --hold-queue nothing is sent before it is released', async () => {
  const saved = await savedServer();
  await leaveHost(saved);
  const { code, out } = await restore(saved, '--hold-queue', ...ASKED);
  expect(code).toBe(0);
  expect(out).toContain('Held in the queue: 1 delivery.');
  await startOn(saved);
  await operator(saved, 'queue', 'retry', '--state', 'deferred');
  expect(await saved.world.queue()).toMatchObject([{ state: 'deferred', next_attempt_at: null }]);
  expect(saved.world.mx.mails.list()).toHaveLength(0);
  // As the command says.
  expect((await operator(saved, 'queue', 'release', '--state', 'deferred')).code).toBe(0);
  await saved.world.caught(1);
});

test('what is there is replaced only with --force, and stays beside', async () => {
  const saved = await savedServer();
  const refused = await restore(saved);
  expect([refused.code, refused.err]).toEqual([
    1,
    `${saved.database} already exists. To replace it and keep a copy of the old version, add --force; to restore only the database, add --database-only`,
  ]);
  await writeFile(saved.serverFile, `${await readFile(saved.serverFile, 'utf8')}# changed since\n`);
  await writeFile(saved.database, 'damaged');
  const { code, out } = await restore(saved, '--force');
  expect([code, out]).toEqual([0, expect.stringContaining('*.before-restore-')]);
  const asideOf = async (path: string) =>
    (await readdir(dirname(path)))
      .filter((name) => name.includes('.before-restore-'))
      .map((name) => join(dirname(path), name));
  expect(await readFile(String((await asideOf(saved.database))[0]), 'utf8')).toBe('damaged');
  expect(await readFile(String((await asideOf(saved.serverFile))[0]), 'utf8')).toMatch(/# changed since\n$/);
  expect(await readFile(saved.serverFile, 'utf8')).not.toContain('changed');
  await startOn(saved);
  expect(await saved.world.queue()).toHaveLength(1);
});

test('with --database-only the configuration stays as it is', async () => {
  const saved = await savedServer();
  const changed = `${await readFile(saved.serverFile, 'utf8')}# changed since\n`;
  await writeFile(saved.serverFile, changed);
  expect((await restore(saved, '--force', '--database-only')).code).toBe(0);
  expect(await readFile(saved.serverFile, 'utf8')).toBe(changed);
});

test('a place that cannot be written is told in words, and nothing is changed', async () => {
  const saved = await savedServer();
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, '');
  const changed = (await readFile(saved.serverFile, 'utf8')).replace(saved.database, join(file, 'postern.db'));
  await writeFile(saved.serverFile, changed);
  const { code, err } = await restore(saved, '--database-only');
  expect([code, err]).toEqual([1, expect.stringMatching(/^Cannot restore \S+postern\.tar\.gz: (?:ENOTDIR|EEXIST)/)]);
  expect(await readFile(saved.serverFile, 'utf8')).toBe(changed);
});

test('an encrypted backup needs its passphrase, and tells nothing without', async () => {
  const passphraseFile = join(await temporaryFolder(), 'passphrase');
  await writeFile(passphraseFile, `${PASSPHRASE}\n`);
  const saved = await savedServer({}, ['--passphrase-file', passphraseFile]);
  expect((await readFile(saved.backup)).includes('server.yml')).toBe(false);
  await leaveHost(saved);
  expect(await restore(saved)).toMatchObject({ code: 2, err: expect.stringContaining('is encrypted') });
  const wrong = `${passphraseFile}.wrong`;
  await writeFile(wrong, 'tr0ub4dor');
  const refused = await restore(saved, '--passphrase-file', wrong);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('the passphrase is wrong') });
  expect((await restore(saved, '--passphrase-file', passphraseFile, ...ASKED)).code).toBe(0);
  await startOn(saved);
  expect(await saved.world.queue()).toHaveLength(1);
});

test('while a daemon runs, it is refused', async () => {
  const saved = await savedServer();
  await startOn(saved);
  const { code, err } = await restore(saved, '--force');
  expect([code, err]).toEqual([1, `A daemon is using ${saved.database}. Stop it first: systemctl stop postern`]);
});

test('what is damaged or no backup is refused, and changes nothing', async () => {
  const saved = await savedServer();
  await leaveHost(saved);
  const folder = await temporaryFolder();
  const { size } = await stat(saved.backup);
  async function variant(name: string, change: (path: string) => Promise<unknown>): Promise<string> {
    const path = join(folder, name);
    await copyFile(saved.backup, path);
    await change(path);
    const { code, err } = await restore({ ...saved, backup: path }, '--force', ...ASKED);
    expect([name, code]).toEqual([name, 1]);
    return err;
  }
  expect(await variant('truncated', (path) => truncate(path, size - 1000))).toContain('truncated is damaged: ');
  expect(await variant('text', (path) => writeFile(path, 'a database it is not, nor an archive'))).toContain(
    'is not a backup',
  );
  expect(await variant('short', (path) => truncate(path, 1))).toContain('is not a backup');
  const swapped = await variant('swapped', (path) =>
    repack(path, (unpacked) => writeFile(join(unpacked, 'config/projects/site.yml'), SITE.replace('owner@', 'other@'))),
  );
  expect(swapped).toContain('the checksum of config/projects/site.yml is wrong');
  const outside = await variant('outside', (path) =>
    repack(path, async (unpacked) => {
      const manifest = await readFile(join(unpacked, 'manifest.json'), 'utf8');
      await writeFile(
        join(unpacked, 'manifest.json'),
        manifest.replace('config/projects/site.yml', 'config/../../x.yml'),
      );
    }),
  );
  expect(outside).toContain('is not a backup');
  expect(await readdir(dirname(saved.database))).toEqual(['postern.db.lock']);
  expect(await readdir(saved.world.folder)).not.toContain('server.yml');
});

/** Packs the archive anew, its manifest first. */
async function repack(path: string, change: (unpacked: string) => Promise<unknown>): Promise<void> {
  const unpacked = await temporaryFolder();
  await run('tar', ['-xzf', path, '-C', unpacked]);
  await change(unpacked);
  const { stdout } = await run('tar', ['-tzf', path]);
  await run('tar', ['-czf', path, '-C', unpacked, ...stdout.trim().split('\n')]);
}

const run = promisify(execFile);

interface Forged {
  /** Files by their names in the archive, beside those that are in it, or in their place. */
  readonly files?: Readonly<Record<string, string>>;
  /** The permissions that the manifest names for them. */
  readonly mode?: number;
}

/** A backup that somebody else has made, with a manifest that fits. */
async function forge({ backup, serverFile }: Saved, { files, mode = 0o644 }: Forged): Promise<string> {
  const unpacked = await temporaryFolder();
  await run('tar', ['-xzf', backup, '-C', unpacked]);
  const manifest = JSON.parse(await readFile(join(unpacked, 'manifest.json'), 'utf8')) as {
    files: { name: string; size: number; sha256: string; mode: number }[];
  };
  const entries = new Map(manifest.files.map((file) => [file.name, file]));
  const serverYml = await readFile(join(unpacked, 'config/server.yml'), 'utf8');
  const beside = serverYml.replace(/sqlite:.*postern\.db/, `sqlite:${dirname(serverFile)}/postern.db`);
  for (const [name, text] of Object.entries({ 'config/server.yml': beside, ...files })) {
    await mkdir(dirname(join(unpacked, name)), { recursive: true });
    await writeFile(join(unpacked, name), text);
    entries.set(name, { name, size: Buffer.byteLength(text), sha256: sha256(text), mode });
  }
  // The database comes last, as in every backup.
  const names = [...entries.keys()].toSorted(
    (a, b) => Number(a.startsWith('database')) - Number(b.startsWith('database')),
  );
  manifest.files = names.flatMap((name) => entries.get(name) ?? []);
  await writeFile(join(unpacked, 'manifest.json'), JSON.stringify(manifest));
  const forged = join(await temporaryFolder(), 'forged.tar.gz');
  await run('tar', ['-czf', forged, '-C', unpacked, 'manifest.json', ...names]);
  return forged;
}

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

test('a backup of a stranger writes nothing outside the folder of server.yml that was not asked for', async () => {
  const saved = await savedServer();
  await leaveHost(saved);
  const elsewhere = await temporaryFolder();
  const job = join(elsewhere, 'cron.d/job');
  const withFile = { ...saved, backup: await forge(saved, { files: { [`files${job}`]: '* * * * * root id' } }) };
  expect(await restore(withFile)).toMatchObject({
    code: 1,
    err: expect.stringContaining(`The backup has files outside ${saved.world.folder}: ${job}.`),
  });
  const serverYml = `server: { hostname: mail.example.net, operator: ops@example.net }\ndatabase: { url: 'sqlite:${elsewhere}/profile.d/a.sh' }\n`;
  const withDatabase = { ...saved, backup: await forge(saved, { files: { 'config/server.yml': serverYml } }) };
  expect(await restore(withDatabase, '--outside-files', 'skip')).toMatchObject({
    code: 1,
    err: expect.stringContaining(`The backup has files outside ${saved.world.folder}: ${elsewhere}/profile.d/a.sh.`),
  });
  expect(await readdir(saved.world.folder)).not.toContain('server.yml');
  expect((await restore(withFile, '--outside-files', 'skip')).code).toBe(0);
  expect(await readdir(elsewhere)).toEqual([]);
});

test('a backup of a stranger creates regular files that others cannot write, and follows no link', async () => {
  const saved = await savedServer();
  await leaveHost(saved);
  const script = { ...saved, backup: await forge(saved, { files: { 'config/projects/run.sh': 'id' }, mode: 0o777 }) };
  const away = await temporaryFolder();
  await rm(join(saved.world.folder, 'projects'), { recursive: true, force: true });
  await symlink(away, join(saved.world.folder, 'projects'));
  expect(await restore(script)).toMatchObject({
    code: 1,
    err: `${saved.world.folder}/projects is a symbolic link to ${away}, and restore does not write through links. Replace it with a folder, or restore only the database with --database-only`,
  });
  expect(await readdir(away)).toEqual([]);
  await rm(join(saved.world.folder, 'projects'));
  expect((await restore(script)).code).toBe(0);
  expect((await stat(join(saved.world.folder, 'projects/run.sh'))).mode & 0o777).toBe(0o644);
});

test('a backup in which something is no file, or has another size, is damaged', async () => {
  const saved = await savedServer();
  await leaveHost(saved);
  const link = await forge(saved, { files: { 'config/projects/site.yml': '' } });
  await repack(link, async (unpacked) => {
    await rm(join(unpacked, 'config/projects/site.yml'));
    await symlink('/etc/shadow', join(unpacked, 'config/projects/site.yml'));
  });
  expect((await restore({ ...saved, backup: link })).err).toBe(
    `${link} is damaged: config/projects/site.yml is not a regular file`,
  );
  const longer = await forge(saved, { files: { 'config/projects/site.yml': SITE } });
  await repack(longer, (unpacked) => writeFile(join(unpacked, 'config/projects/site.yml'), `${SITE}# more\n`));
  expect((await restore({ ...saved, backup: longer })).err).toBe(
    `${longer} is damaged: the size of config/projects/site.yml is wrong`,
  );
  // A database of 8 TiB, of which the archive has the beginning.
  const huge = await forge(saved, {});
  await repack(huge, async (unpacked) => {
    const database = join(unpacked, 'database/postern.db');
    const { size } = await stat(database);
    const manifest = await readFile(join(unpacked, 'manifest.json'), 'utf8');
    await writeFile(join(unpacked, 'manifest.json'), manifest.replace(`"size":${size}`, `"size":${2 ** 43}`));
    await truncate(database, 2 ** 43);
    await run('sh', [
      '-c',
      `tar -cC ${unpacked} manifest.json config/server.yml config/projects/site.yml database/postern.db | head -c 1000000 | gzip > ${huge}.cut`,
    ]);
    await truncate(database, size);
  });
  expect((await restore({ ...saved, backup: `${huge}.cut` })).err).toMatch(
    /^The database needs 8388608\.0 MiB, but \S+ MiB are free in /,
  );
  expect(await readdir(saved.world.folder)).not.toContain('server.yml');
});

test('a backup of a newer version is refused in words', async () => {
  const saved = await savedServer();
  await leaveHost(saved);
  await repack(saved.backup, async (unpacked) => {
    const path = join(unpacked, 'database/postern.db');
    const before = await readFile(path);
    const database = new Database(path);
    database.exec(`insert into kysely_migration (name, timestamp) values ('9999-later', '2099-01-01')`);
    database.close();
    const after = await readFile(path);
    const manifest = await readFile(join(unpacked, 'manifest.json'), 'utf8');
    const fixed = manifest
      .replace(sha256(before), sha256(after))
      .replace(`"size": ${before.length}`, `"size": ${after.length}`);
    await writeFile(join(unpacked, 'manifest.json'), fixed);
  });
  await mkdir(dirname(saved.database), { recursive: true });
  expect(await restore(saved, ...ASKED)).toMatchObject({
    code: 78,
    err: 'The backup was made by a newer version of Postern (schema 9999-later): install that version first',
  });
  expect(await readdir(saved.world.folder)).not.toContain('server.yml');
});
