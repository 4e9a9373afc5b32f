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
}

/** Sends the message `count` times from forms@forms.test to office@owner.test; answers once all were accepted. */
export async function sendBySmtp({ port, count, sessions, messageFile }: SourceOptions): Promise<void> {
  needPackage('/usr/sbin/smtp-source', 'postfix');
  const envelope = ['-f', 'forms@forms.test', '-t', 'office@owner.test', '-F', messageFile];
  await run('/usr/sbin/smtp-source', ['-s', `${sessions}`, '-m', `${count}`, ...envelope, `127.0.0.1:${port}`]);
}
