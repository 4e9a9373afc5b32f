/** Debian's smtp-source: sends a given number of messages over parallel sessions, as fast as they are taken. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { needPackage } from '../../test/harness/debian.ts';

const run = promisify(execFile);

export interface SourceOptions {
  readonly port: number;
  readonly count: number;
  readonly sessions: number;
  /** Of the message, header included; or `messageFile`, sent as it is. */
  readonly messageFile: string;
  /** Default: forms@forms.test. */
  readonly from?: string;
  /** Default: office@owner.test. */
  readonly to?: string;
  /** Many messages on each connection; default: one. */
  readonly keepOpen?: boolean;
}

/** Sends the message `count` times; answers once all were accepted. */
export async function sendBySmtp(options: SourceOptions): Promise<void> {
  const { port, count, sessions, messageFile, keepOpen = false } = options;
  const { from = 'forms@forms.test', to = 'office@owner.test' } = options;
  needPackage('/usr/sbin/smtp-source', 'postfix');
  const envelope = ['-f', from, '-t', to, '-F', messageFile];
  const connections = ['-s', `${sessions}`, ...(keepOpen ? ['-d'] : [])];
  await run('/usr/sbin/smtp-source', [...connections, '-m', `${count}`, ...envelope, `127.0.0.1:${port}`]);
}

/** What rows about accepting are measured with. */
export const SESSIONS = [10, 50] as const;

/** Messages that are taken in a second, with each number of sessions. */
export async function acceptedRates(options: Omit<SourceOptions, 'sessions'>): Promise<number[]> {
  const rates: number[] = [];
  for (const sessions of SESSIONS) {
    const began = performance.now();
    await sendBySmtp({ ...options, sessions });
    rates.push(options.count / ((performance.now() - began) / 1000));
  }
  return rates;
}
