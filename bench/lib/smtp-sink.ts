/** Debian's smtp-sink: takes every mail, keeps none, counts; written in C, so that neither side waits for it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { needPackage } from '../../test/harness/debian.ts';
import { answers, endWithUs, freePort, until } from '../../test/harness/child.ts';

export interface SmtpSink {
  readonly port: number;
  /** Messages taken since it started. */
  count(): number;
  /** Waits for that many; answers when the last came, on the monotonic clock. */
  untilCount(count: number, ms?: number): Promise<number>;
  close(): Promise<void>;
}

/** On a free port of 127.0.0.1. */
export async function startSmtpSink(): Promise<SmtpSink> {
  needPackage('/usr/sbin/smtp-sink', 'postfix');
  const port = await freePort();
  // As root it wants to become somebody else; -c prints `sess=… quit=… mesg=…` over and over on one line.
  const child = spawn('/usr/sbin/smtp-sink', ['-c', '-u', 'nobody', `127.0.0.1:${port}`, '1024'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child, 'spawn');
  endWithUs(child);
  let taken = 0;
  let changedAt = performance.now();
  let rest = '';
  child.stdout.setEncoding('latin1').on('data', (text: string) => {
    rest = (rest + text).slice(-200);
    const counts = Array.from(rest.matchAll(/mesg=(\d+)\D/g), ([, digits]) => Number(digits));
    const newest = Math.max(taken, ...counts);
    if (newest > taken) changedAt = performance.now();
    taken = newest;
  });
  await until('smtp-sink listens', () => answers(port));
  return {
    port,
    count: () => taken,
    async untilCount(count, ms = 120_000) {
      await until(`${count} messages at the sink`, () => taken >= count, ms);
      return changedAt;
    },
    async close() {
      if (child.exitCode !== null) return;
      child.kill();
      await once(child, 'exit');
    },
  };
}
