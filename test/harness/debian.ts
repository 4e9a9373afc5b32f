/** What comes from Debian and not from npm: a suite that needs it says how to get it, and fails rather than skips. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';

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
