/** swaks, an SMTP client that shares no code with us. */
import { execFile } from 'node:child_process';
import { needPackage } from './debian.ts';

export interface SwaksResult {
  /** 0: accepted; else which step was refused (man swaks, EXIT CODES). */
  readonly code: number;
  /** The dialogue, its lines marked `->` and `<-`. */
  readonly transcript: string;
}

/** One message to 127.0.0.1:`port`; `args` are more of swaks' own. */
export function swaks(port: number, args: readonly string[]): Promise<SwaksResult> {
  needPackage('/usr/bin/swaks', 'swaks');
  const all = ['--server', '127.0.0.1', '--port', `${port}`, '--timeout', '20', ...args];
  return new Promise((resolve) => {
    execFile('/usr/bin/swaks', all, { encoding: 'utf8' }, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error === null ? 0 : 1;
      resolve({ code, transcript: stdout + stderr });
    });
  });
}
