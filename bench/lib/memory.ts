/** Resident memory of a process, as the kernel counts it (proc(5)). */
import { readFile, writeFile } from 'node:fs/promises';

const MIB = 1024;

/** Now, MiB. */
export function residentNow(pid: number): Promise<number> {
  return read(pid, 'VmRSS');
}

/** The most since the start or the last `forgetPeak`, MiB. */
export function residentPeak(pid: number): Promise<number> {
  return read(pid, 'VmHWM');
}

/** Now, MiB; of pages that several processes share, its part. */
export function proportionalNow(pid: number): Promise<number> {
  return read(pid, 'Pss', 'smaps_rollup');
}

export async function forgetPeak(pid: number): Promise<void> {
  await writeFile(`/proc/${pid}/clear_refs`, '5');
}

async function read(pid: number, what: 'VmRSS' | 'VmHWM' | 'Pss', file = 'status'): Promise<number> {
  const status = await readFile(`/proc/${pid}/${file}`, 'utf8');
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / MIB;
}
