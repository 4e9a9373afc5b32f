/** What comes from Debian and not from npm: a suite that needs it says how to get it, and fails rather than skips. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Throws with the command that installs `packages` (names, separated by blanks) unless the file or the check is there. */
export function needPackage(binaryPathOrCheck: string | (() => boolean), packages: string): void {
  const there = typeof binaryPathOrCheck === 'string' ? existsSync(binaryPathOrCheck) : binaryPathOrCheck();
  if (!there) throw new Error(`This test needs Debian packages: apt-get install -y ${packages}`);
}

/** Whether the command ends well. */
export function succeeds(command: string, args: readonly string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Where packages are unpacked that cannot be installed beside others; kept from run to run. */
const UNPACKED = join(tmpdir(), 'postern-debian');

/**
 * The folder with the files of a package that need not be installed, or cannot be beside another one, such as a second mail
 * server's: it is downloaded and unpacked where it is not there yet. Throws with the commands where that does not work.
 */
export function unpacked(name: string): string {
  const folder = join(UNPACKED, name);
  if (existsSync(folder)) return folder;
  mkdirSync(UNPACKED, { recursive: true });
  const place = mkdtempSync(join(UNPACKED, '.new-'));
  try {
    execFileSync('apt-get', ['download', '-q', name], { cwd: place, stdio: 'ignore' });
    const file = readdirSync(place).find((each) => each.endsWith('.deb')) ?? '';
    execFileSync('dpkg-deb', ['-x', file, 'root'], { cwd: place, stdio: 'ignore' });
    // Another test file may have been faster.
    if (!existsSync(folder)) renameSync(join(place, 'root'), folder);
  } catch (error) {
    const commands = `cd ${UNPACKED} && apt-get update && apt-get download ${name} && dpkg-deb -x ${name}_*.deb ${name}`;
    throw new Error(`This test needs the files of a Debian package: ${commands}`, { cause: error });
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
  return folder;
}

/** Throws with the command that makes a system user, as the package of a daemon would, unless it is there. */
export function needUser(name: string): void {
  if (succeeds('id', [name])) return;
  const command = `useradd --system --user-group --no-create-home --shell /usr/sbin/nologin ${name}`;
  throw new Error(`This test needs a system user: ${command}`);
}
