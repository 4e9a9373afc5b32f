/** The threads of a process, as Linux tells of them. */
import { readdirSync, readFileSync } from 'node:fs';
import { codeOf } from '../../src/lib/errors.ts';

export interface ProcessThread {
  readonly id: number;
  readonly name: string;
}

/** Those that are there; one that ends meanwhile is left out. */
export function threadsOf(pid: number | 'self'): ProcessThread[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((id) => {
    try {
      return [{ id: Number(id), name: readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim() }];
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ESRCH') return [];
      throw error;
    }
  });
}
