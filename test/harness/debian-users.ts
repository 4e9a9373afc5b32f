/** The system users under which Debian's daemons run: only root can start a program as one of them. */
import { execFileSync } from 'node:child_process';

export interface Ids {
  readonly uid: number;
  readonly gid: number;
}

export function idsOf(user: string): Ids {
  return { uid: idOf('-u', user), gid: idOf('-g', user) };
}

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

function idOf(which: '-u' | '-g', user: string): number {
  return Number(execFileSync('id', [which, user], { encoding: 'utf8' }));
}
