/** How much of the processor processes have used, as the kernel counts it (proc(5)): user and system time. */
import { readFileSync, readdirSync } from 'node:fs';

/** Clock ticks per second: USER_HZ, which is 100 on all of Linux. */
const TICKS = 100;

/** Seconds that this process has used so far, and those of its children that have ended. */
export function processorSeconds(pid: number): number {
  const fields = statOf(pid);
  return [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0) / TICKS;
}

/** The same with those of its children that run. */
export function familySeconds(pid: number): number {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === `${pid}`);
  return children.reduce((sum, child) => sum + processorSeconds(Number(child)), processorSeconds(pid));
}

function parentOf(pid: string): string | undefined {
  try {
    return statOf(Number(pid))[1];
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}

/** What follows the name, which may hold anything: the state, the parent, … */
function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
