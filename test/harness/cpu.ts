/** Processor time of this thread alone: what else the machine does meanwhile makes no test fail. */
export function cpuSeconds(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  return process.threadCpuUsage(before).user / 1e6;
}

/** The least of up to eight runs, ending with the first under `enough` seconds: a busy machine makes caches colder, too. */
export function leastCpuSeconds(work: () => unknown, enough: number): number {
  let least = cpuSeconds(work);
  for (let i = 1; i < 8 && least >= enough; i++) least = Math.min(least, cpuSeconds(work));
  return least;
}

/**
 * The longest time, in ms of the processor, that this thread spent between two turns of its event loop while `work` was in
 * progress: so long nobody else was served. What other processes do meanwhile does not count.
 */
export async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let before = process.threadCpuUsage();
  let watching = true;
  function turn(): void {
    const { user, system } = process.threadCpuUsage(before);
    longest = Math.max(longest, (user + system) / 1000);
    before = process.threadCpuUsage();
    if (watching) setImmediate(turn);
  }
  setImmediate(turn);
  await work();
  watching = false;
  turn();
  return longest;
}
