/**
 * What `postern setup` puts on a machine: the user, `/etc/postern`, the units, and the command. Each step looks first. What is
 * missing is made; what is there stays as it is, whoever made it (an administrator, a package, an earlier run), and where it
 * differs from what setup would write, the step says how.
 */
import { execFile } from 'node:child_process';
import { chown, lstat, mkdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { codeOf, messageOf } from '../lib/errors.ts';
import { CommandFailed } from './client.ts';

export interface Step {
  /** `user postern`, or a path. */
  readonly what: string;
  /** `kept`: it is there and differs. */
  readonly state: 'missing' | 'present' | 'kept';
  /** What differs, in lines. */
  readonly differences: readonly string[];
  /** Makes what is missing. */
  apply(): Promise<void>;
}

export const CONFIG_FOLDER = '/etc/postern';
export const SERVER_FILE = `${CONFIG_FOLDER}/server.yml`;
const SYSTEM_UNITS = '/etc/systemd/system';
/** Where packages have their units. */
const PACKAGED_UNITS = ['/usr/lib/systemd/system', '/lib/systemd/system'];
/** The units as they are shipped name the program here. */
const USUAL_PROGRAM = '/opt/postern';
const COMMANDS = ['/usr/bin/postern', '/usr/local/bin/postern'];

/** Folders that the unit hides from the daemon (ProtectHome=, PrivateTmp=). */
const HIDDEN = ['/home/', '/root/', '/tmp/', '/var/tmp/'];

/** Throws CommandFailed unless this is root on a machine that systemd runs, and the service can read the program. */
export async function checkMachine(program: string): Promise<void> {
  if (process.getuid?.() !== 0) throw new CommandFailed('postern setup must run as root. Try: sudo postern setup …');
  if ((await existing('/run/systemd/system')) === undefined) {
    throw new CommandFailed('systemd does not run this machine. For containers, see docs/install.md');
  }
  const hidden = HIDDEN.find((folder) => `${program}/`.startsWith(folder));
  const closed = hidden ?? (await firstClosed(program));
  if (closed === undefined) return;
  throw new CommandFailed(
    `The service cannot read ${program}: ${closed} is closed to it. Move the folder, and run setup again: mv ${program} ${USUAL_PROGRAM} && ${USUAL_PROGRAM}/bin/postern setup …`,
  );
}

/** The folder on the way to the program that other users cannot enter. */
async function firstClosed(folder: string): Promise<string | undefined> {
  const { mode } = await stat(folder);
  if ((mode & 0o001) === 0) return folder;
  return folder === '/' ? undefined : firstClosed(dirname(folder));
}

/** The steps in their order; `files` are texts by their names below `/etc/postern`. */
export async function installationSteps(program: string, files: ReadonlyMap<string, string>): Promise<Step[]> {
  const steps = [await userStep(program), await folderStep(CONFIG_FOLDER)];
  for (const folder of new Set([...files.keys()].map(dirname)))
    if (folder !== '.') steps.push(await folderStep(join(CONFIG_FOLDER, folder)));
  for (const [name, text] of files) steps.push(await ownFileStep(join(CONFIG_FOLDER, name), text));
  // A package brings its units and its command.
  const isPackaged = (
    await Promise.all(PACKAGED_UNITS.map((folder) => existing(join(folder, 'postern.service'))))
  ).some((found) => found !== undefined);
  if (isPackaged) return steps;
  const isRelease = dirname(program) === dirname(USUAL_PROGRAM) && basename(program).startsWith('postern-');
  const place = isRelease ? USUAL_PROGRAM : program;
  if (isRelease) steps.push(await linkStep(USUAL_PROGRAM, basename(program)));
  for (const unit of ['postern.service', 'postern.socket']) {
    const text = await readFile(join(program, 'systemd', unit), 'utf8');
    steps.push(await unitStep(join(SYSTEM_UNITS, unit), text.replaceAll(USUAL_PROGRAM, place)));
  }
  steps.push(await commandStep(join(place, 'bin/postern')));
  return steps;
}

async function userStep(program: string): Promise<Step> {
  const isThere = await run('id', ['-u', 'postern']).then(
    () => true,
    () => false,
  );
  return step('user postern', { isThere }, async () => {
    await runOrFail('systemd-sysusers', [join(program, 'systemd/postern.sysusers')]);
  });
}

/** For root to write and the service to read, as everything below `/etc/postern`: it holds secrets. */
async function folderStep(path: string): Promise<Step> {
  return step(path, { isThere: (await existing(path)) !== undefined }, async () => {
    await mkdir(path, { mode: 0o750 });
    await chown(path, 0, await serviceGroup());
  });
}

/** A file that its first writer leaves to the administrator: what is there is never compared. */
async function ownFileStep(path: string, text: string): Promise<Step> {
  return step(path, { isThere: (await existing(path)) !== undefined }, async () => {
    await writeFile(path, text, { flag: 'wx', mode: 0o640 });
    await chown(path, 0, await serviceGroup());
  });
}

async function unitStep(path: string, text: string): Promise<Step> {
  const found = await readFile(path, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  const differing = found === undefined ? [] : differences(found, text);
  return step(path, { isThere: found !== undefined, differences: differing }, () =>
    writeFile(path, text, { flag: 'wx', mode: 0o644 }),
  );
}

async function linkStep(path: string, target: string): Promise<Step> {
  const found = await existing(path);
  const leads = found?.isSymbolicLink() === true ? await readlink(path) : path;
  const differing = found === undefined || leads === target ? [] : [`- ${leads}`, `+ ${target}`];
  return step(path, { isThere: found !== undefined, differences: differing }, () => symlink(target, path));
}

async function commandStep(target: string): Promise<Step> {
  const found = await Promise.all(COMMANDS.map(existing));
  const there = COMMANDS.find((_, i) => found[i] !== undefined);
  return linkStep(there ?? '/usr/local/bin/postern', target);
}

interface Found {
  readonly isThere: boolean;
  readonly differences?: readonly string[];
}

function step(what: string, { isThere, differences: differing = [] }: Found, make: () => Promise<void>): Step {
  return {
    what,
    state: !isThere ? 'missing' : differing.length > 0 ? 'kept' : 'present',
    differences: differing,
    async apply() {
      if (isThere) return;
      await make().catch((error: unknown) => {
        throw new CommandFailed(`Cannot make ${what}: ${messageOf(error)}`, { cause: error });
      });
    },
  };
}

/** The lines that only one of two texts has; comments do not count. */
function differences(found: string, wanted: string): string[] {
  const [ours, theirs] = [wanted, found].map((text) => text.split('\n').filter((line) => /^[^#\s]/.test(line)));
  return [
    ...(theirs ?? []).filter((line) => ours?.includes(line) === false).map((line) => `- ${line}`),
    ...(ours ?? []).filter((line) => theirs?.includes(line) === false).map((line) => `+ ${line}`),
  ];
}

async function existing(path: string) {
  return lstat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw error;
  });
}

async function serviceGroup(): Promise<number> {
  return Number(await runOrFail('id', ['-g', 'postern']));
}

// The service, by systemctl.

const SERVICE = 'postern.service';
const LINES_OF_LOG = 20;

export async function isServiceActive(): Promise<boolean> {
  return run('systemctl', ['is-active', '--quiet', SERVICE]).then(
    () => true,
    () => false,
  );
}

/** Starts the service now and with the machine, and waits until it is ready. Throws CommandFailed with the end of its log. */
export async function startService(): Promise<void> {
  await runOrFail('systemctl', ['daemon-reload']);
  try {
    await run('systemctl', ['enable', '--now', SERVICE]);
  } catch (error) {
    const lines = ['--unit', SERVICE, '--lines', `${LINES_OF_LOG}`, '--output', 'cat', '--no-pager'];
    const { stdout } = await run('journalctl', lines).catch(() => ({ stdout: '' }));
    throw new CommandFailed(`${SERVICE} did not start. Its log ends with:\n${stdout.trimEnd()}`, { cause: error });
  }
}

/** Has the service read its configuration again. */
export async function reloadService(): Promise<void> {
  await runOrFail('systemctl', ['reload', SERVICE]);
}

/** The whole name of this machine, as its own resolver has it; undefined where that has no domain. */
export async function fullHostName(): Promise<string | undefined> {
  const { stdout } = await run('hostname', ['--fqdn']).catch(() => ({ stdout: '' }));
  const name = stdout.trim();
  return name.includes('.') && !name.startsWith('localhost') ? name : undefined;
}

const run = promisify(execFile);

async function runOrFail(command: string, args: readonly string[]): Promise<string> {
  try {
    return (await run(command, args)).stdout;
  } catch (error) {
    throw new CommandFailed(messageOf(error).trimEnd(), { cause: error });
  }
}
