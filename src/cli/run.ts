/** What the commands that ask the daemon have in common: where they write, and how they end. */
import { messageOf } from '../lib/errors.ts';
import { DaemonUnreachable, RequestRefused, type Client } from './client.ts';
import { printable } from './table.ts';

export interface CommandOptions {
  readonly client: Client;
  /** Takes the output, line breaks included. */
  readonly write: (text: string) => void;
  /** Takes what went wrong. */
  readonly complain: (text: string) => void;
  /** The daemon's JSON instead of a table. */
  readonly json: boolean;
  /** Columns of the terminal. */
  readonly width?: number | undefined;
}

/** Exit codes: 0 done, 1 the daemon refused, 3 it cannot be reached. */
const EXIT = { done: 0, refused: 1, unreachable: 3 } as const;

/** Does the work of a command; answers its exit code. */
export async function run(options: CommandOptions, work: (options: CommandOptions) => Promise<void>): Promise<number> {
  try {
    await work(options);
    return EXIT.done;
  } catch (error) {
    if (!(error instanceof DaemonUnreachable) && !(error instanceof RequestRefused)) throw error;
    options.complain(`${printable(messageOf(error))}\n`);
    return error instanceof DaemonUnreachable ? EXIT.unreachable : EXIT.refused;
  }
}

export function writeJson(write: CommandOptions['write'], data: unknown): void {
  write(`${JSON.stringify(data, null, 2)}\n`);
}

/** `?…` of what is given. */
export function queryOf(filter: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) if (value !== undefined) query.set(name, String(value));
  return `?${query.toString()}`;
}

/** ISO 8601 without milliseconds. */
export function shortTime(time: string | null): string {
  return time === null ? '-' : time.replace(/\.\d+Z$/, 'Z');
}
