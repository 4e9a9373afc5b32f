/** How much of the processor processes have used, as the kernel counts it (proc(5)): user and system time. */
import { readFileSync, readdirSync } from 'node:fs';

/** Clock ticks per second: USER_HZ, which is 100 on all of Linux. */
const TICKS = 100;

/** Seconds that this process has used so far, and those of its children that have ended. */
export function processorSeconds(pid: number): number {
  return secondsOf(statOf(pid));
}

/** The same with those of its children that run. */
export function familySeconds(pid: number): number {
  const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const children = numbers.map(statOrNothing).filter((stat) => stat[1] === `${pid}`);
  return children.reduce((sum, stat) => sum + secondsOf(stat), 0) + processorSeconds(pid);
}

/** Seconds that the threads of this process have used so far, by their numbers; the main thread has that of the process. */
export function threadSeconds(pid: number): Map<number, number> {
  return new Map(
    readdirSync(`/proc/${pid}/task`).map((thread) => {
      const fields = statOf(`${pid}/task/${thread}`);
      return [Number(thread), (Number(fields[11]) + Number(fields[12])) / TICKS];
    }),
  );
}

/** How long the main thread of a process has run, and waited for a processor that others used, ms; with its children's, where asked. */
export function scheduled(pid: number, { family = false } = {}): { readonly ran: number; readonly waited: number } {
  const children = family ? readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ') : [];
  let [ran, waited] = [0, 0];
  for (const each of [`${pid}`, ...children]) {
    const [running, waiting] = readFileSync(`/proc/${each}/schedstat`, 'utf8').split(' ');
    ran += Number(running) / 1e6;
    waited += Number(waiting) / 1e6;
  }
  return { ran, waited };
}

function secondsOf(stat: readonly string[]): number {
  return [11, 12, 13, 14].reduce((sum, at) => sum + Number(stat[at]), 0) / TICKS;
}

function statOrNothing(pid: string): string[] {
  try {
    return statOf(pid);
  } catch {
    // It has ended meanwhile.
    return [];
  }
}

/** What follows the name, which may hold anything: the state, the parent, … */
function statOf(pid: number | string): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
