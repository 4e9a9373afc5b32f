/**
 * An upgrade with 10,000 messages in the queue, the way back as docs/upgrade.md says it, and a restore on another host: every message
 * is accounted for. The next version is this one with one more migration.
 */
import { cp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readPages } from '../docs/markdown.ts';
import { openAppliance, type Appliance } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { runBinary, runProgram } from '../harness/command.ts';
import { sendMany } from '../harness/load.ts';
import { temporaryFolder } from '../harness/store.ts';

const ROOT = join(import.meta.dirname, '../..');
const COUNT = 10_000;
const [ACCEPTS, DELIVERS] = [
  ['http', 'smtp'],
  ['http', 'smtp', 'delivery'],
];
const MINUTES = 60_000;

/** `bin/postern` of a version after this one. */
async function nextVersion(): Promise<string> {
  const root = await temporaryFolder();
  for (const name of ['bin', 'src', 'package.json', 'package-lock.json']) {
    // The lockfile with its time: were it newer than the packages, they would be fetched anew, through the link.
    await cp(join(ROOT, name), join(root, name), { recursive: true, preserveTimestamps: true });
  }
  await symlink(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  const index = join(root, 'src/store/migrations/index.ts');
  const text = await readFile(index, 'utf8');
  const next = `'9000-next': { up: (db: Kysely<unknown>) => sql\`alter table deliveries add column next text\`.execute(db).then(() => undefined) },`;
  const changed = text
    .replace("import type { Migration } from 'kysely/migration';", "$&\nimport { sql, type Kysely } from 'kysely';")
    .replace(/\n {2}\};\n\}\s*$/, `\n    ${next}\n  };\n}\n`);
  expect(changed).toContain(next);
  await writeFile(index, changed);
  return join(root, 'bin/postern');
}

function timesOf({ mails }: Catcher): Map<string, string[]> {
  const byReference = Map.groupBy(mails, ({ reference }) => reference);
  return new Map([...byReference].map(([reference, all]) => [reference, all.map(({ messageId }) => messageId)]));
}

function command({ folder }: Appliance, ...args: readonly string[]) {
  return runBinary([...args, '--config', join(folder, 'server.yml')], { folder });
}

/** The commands of the page, but for systemd's, in the folder of this server. */
async function rollBack({ folder }: Appliance): Promise<void> {
  const copies = (await readdir(folder)).filter((name) => name.includes('before-migration'));
  expect(copies).toHaveLength(1);
  const page = readPages().find(({ path }) => path === 'docs/upgrade.md');
  const documented = page?.blocks.find(({ text }) => text.includes('mkdir upgraded'))?.text ?? '';
  const script = documented
    .replace(/^systemctl .*\n/gm, '')
    .replaceAll('/var/lib/postern', folder)
    .replaceAll(/postern\.db\.before-migration-\w+/g, String(copies[0]));
  const { err } = await runProgram('sh', ['-c', script], { folder });
  expect(err.replaceAll(/^mv: cannot stat 'postern\.db-(?:wal|shm)'.*\n/gm, '')).toBe('');
}

test(`${COUNT} queued messages: upgraded, rolled back, and restored elsewhere`, { timeout: 15 * MINUTES }, async () => {
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port });
  await appliance.configure({ server: { roles: ACCEPTS } });
  const first = await appliance.startVerified();
  const load = await sendMany({ url: appliance.formUrl, connections: 16, count: COUNT });
  expect(load.accepted.size).toBe(COUNT);
  const accepted = [...load.accepted].sort();
  const backup = join(await temporaryFolder(), 'postern.tar.gz');
  expect(await command(appliance, 'backup', backup)).toMatchObject({ code: 0, err: '' });
  expect(await first.end('SIGTERM')).toBe(0);

  // The next version migrates, and delivers a part of it.
  await appliance.configure({ server: { roles: DELIVERS } });
  const upgraded = await appliance.start(await nextVersion());
  await until('a part is delivered', () => catcher.count() > COUNT / 10);
  expect(await upgraded.end('SIGTERM')).toBe(0);
  const before = timesOf(catcher);
  expect(before.size).toBeLessThan(COUNT);

  // The version before refuses what the next one has written, and goes back as documented.
  const refused = await appliance.launch();
  expect(await refused.ended).toBe(78);
  expect(refused.output()).toMatch(
    /it was written by a newer version of Postern \(schema 9000-next\).*restore \S+before-migration-/,
  );
  await rollBack(appliance);
  expect(await appliance.waiting()).toBe(COUNT);
  const again = await appliance.start();
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 5 * MINUTES);
  expect(await again.end('SIGTERM')).toBe(0);
  const after = timesOf(catcher);
  expect([...after.keys()].sort()).toEqual(accepted);
  for (const [reference, ids] of after) {
    // What had left before leaves once more, recognizably.
    expect([reference, ids.length, new Set(ids).size]).toEqual([reference, before.has(reference) ? 2 : 1, 1]);
  }

  // Another host, which has a configuration of its own.
  const elsewhere = await startCatcher();
  const other = await openAppliance({ deliverTo: elsewhere.port, dns: appliance.dns });
  const restored = await command(other, 'restore', backup, '--database-only', '--hold-queue');
  expect(restored).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringContaining(`Held in the queue: ${COUNT} deliveries.`),
  });
  const run = await other.start();
  expect(await command(other, 'queue', 'retry', '--state', 'queued', '--yes')).toMatchObject({
    code: 0,
    out: '0 deliveries due now\n',
  });
  expect(elsewhere.mails).toEqual([]);
  const released = await command(other, 'queue', 'release', '--state', 'queued', '--yes');
  expect(released).toMatchObject({ code: 0, out: `${COUNT} deliveries released\n` });
  await until('the queue is empty', async () => (await other.waiting()) === 0, 5 * MINUTES);
  expect(elsewhere.mails.map(({ reference }) => reference).sort()).toEqual(accepted);
  expect(timesOf(elsewhere)).toEqual(new Map([...after].map(([reference, ids]) => [reference, ids.slice(0, 1)])));
  expect(await run.end('SIGTERM')).toBe(0);
});
