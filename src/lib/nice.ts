/**
 * Which threads go first where there is too little CPU for all. Only Linux lets the threads of a process differ; elsewhere,
 * and where it is forbidden, they share.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { errorFields } from './errors.ts';
import type { Log } from './log.ts';

/** A tenth of the CPU that each other thread gets, while others want it; all of it else. */
const NICE = 10;

/** Puts the threads of these names behind all others. */
export function putBehind(names: readonly string[], log: Log): void {
  if (process.platform !== 'linux') return;
  for (const id of readdirSync('/proc/self/task')) {
    try {
      const name = readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim();
      if (names.includes(name)) setPriority(Number(id), NICE);
    } catch (error) {
      // It may have ended just now, or the kernel forbids it.
      log.debug('threads.equal', { thread: id, ...errorFields(error) });
    }
  }
}
