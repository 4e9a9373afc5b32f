/** Processor time of this thread alone: what else the machine does meanwhile makes no test fail. */
export function cpuSeconds(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  return process.threadCpuUsage(before).user / 1e6;
}
