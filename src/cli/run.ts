/** What commands that use the API share: exit codes, errors, JSON, polling and confirmation. */
import { z } from 'zod';
import { messageOf, PassingError, UserError } from '../lib/errors.ts';
import { DaemonUnreachable, RequestRefused, type Client, type Detail } from './client.ts';
import { printable, type Terminal } from './terminal.ts';

import { systemClock, type Clock } from '../lib/clock.ts';

export interface CommandOptions {
  readonly client: Client;
  readonly terminal: Terminal;
  /** The daemon's JSON instead of words and tables. */
  readonly json: boolean;
}

/** Exit codes; reference/conventions.ts says what they mean. */
export const EXIT = { done: 0, failed: 1, usage: 2, unreachable: 3, configuration: 78, interrupted: 130 } as const;

/** The command was called in a way that it cannot be: exit code 2. */
export class UsageError extends UserError {
  override readonly name = 'UsageError';
}

/** This machine kept the command from its work, such as a file that cannot be written: exit code 1. */
export class CommandFailed extends UserError {
  override readonly name = 'CommandFailed';
}

/** The exit code of a command that ended in an error. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  if (error instanceof DaemonUnreachable) return EXIT.unreachable;
  if (error instanceof PassingError || error instanceof CommandFailed) return EXIT.failed;
  return error instanceof UserError ? EXIT.configuration : EXIT.failed;
}

/** Does the work of a command; answers its exit code, which is 0 where the work answers none. */
export async function run(
  options: CommandOptions,
  work: (options: CommandOptions) => Promise<number | void>,
): Promise<number> {
  try {
    return (await work(options)) ?? EXIT.done;
  } catch (error) {
    options.terminal.progress('');
    if (error instanceof RequestRefused) {
      options.terminal.writeError(refusalText(error, options.client));
      return EXIT.failed;
    }
    if (error instanceof z.ZodError) {
      options.terminal.writeError(
        `${options.client.address} sent an answer that this version of postern cannot read. Its version may differ; compare with: postern auth status --debug\n${z.prettifyError(error)}\n`,
      );
      return EXIT.failed;
    }
    if (!(error instanceof DaemonUnreachable || error instanceof CommandFailed)) throw error;
    options.terminal.writeError(`${printable(messageOf(error))}\n`);
    return exitCodeOf(error);
  }
}

/** The message of the server, each detail with its place, and the next step if there is one. */
function refusalText({ message, refused }: RequestRefused, { key, address }: Client): string {
  const [only, ...more] = refused.details;
  // A single detail without a place is what the message says.
  const told = only !== undefined && more.length === 0 && only.line === undefined;
  const lines = [message, ...(told ? [] : refused.details.map(detailText))];
  const next = nextStep(refused, key, address);
  if (next !== undefined) lines.push(next);
  if (refused.status >= 500 && refused.requestId !== undefined)
    lines.push(`Request ID in the server log: ${refused.requestId}`);
  return lines.map((line) => `${printable(line)}\n`).join('');
}

/** `3:14 domains.example.com: …` */
function detailText({ path, message, line, column }: Detail): string {
  const place = line === undefined ? '' : `${line}:${column ?? 1} `;
  return `  ${place}${path === '' ? '' : `${path}: `}${message}`;
}

function nextStep(
  { code, retryAfter }: RequestRefused['refused'],
  key: string | undefined,
  address: string,
): string | undefined {
  switch (code) {
    case 'AUTH_MISSING_KEY':
    case 'AUTH_INVALID_KEY':
    case 'AUTH_EXPIRED_KEY':
    case 'AUTH_REVOKED_KEY':
      return `Set POSTERN_API_KEY to an API key for ${address}, or create an account with: postern signup`;
    case 'SIGNUP_CLOSED':
      return 'On the server itself, root and the group of the service can run: postern signup';
    case 'AUTH_FORBIDDEN':
      return key === undefined
        ? undefined
        : 'To see the permissions of this key, run: postern auth status. On the server itself, connect as the operator with: --config /etc/postern/server.yml';
    case 'RATE_LIMITED':
      return retryAfter === undefined ? undefined : `Try again in ${retryAfter} s.`;
    case 'NOT_FOUND':
      return /^https?:\/\/[^/]+\/./.test(address) ? `Check the path in the server URL: ${address}` : undefined;
    case 'DOMAIN_NOT_VERIFIED':
      return 'To see your domains, run: postern domains status. To see missing DNS records, run: postern domains setup <domain>';
    case 'FORM_NOT_FOUND':
      return 'To see your forms, run: postern forms list or postern instant forms';
    default:
      return undefined;
  }
}

/** As JSON; what a terminal would act on and JSON leaves as it is (C1, ECMA-48 §5.3) is escaped. */
export function writeJson(terminal: Pick<Terminal, 'write'>, data: unknown): void {
  const text = JSON.stringify(data, null, 2);
  terminal.write(`${text.replaceAll(/[\u007f-\u009f]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`)}\n`);
}

/**
 * Reads an answer by the contract. Members that this version does not know are left out; a value that it does not know, such
 * as a state of a newer server, is kept. Throws ZodError if the answer is another one.
 */
export function readAnswer<Answer>({ answer }: { readonly answer: z.ZodType<Answer> }, data: unknown): Answer {
  const read = answer.safeParse(data);
  if (read.success) return read.data;
  if (isKnownShape(data, answer)) return data;
  throw read.error;
}

/** Whether an answer differs from the contract by unknown values of enums alone. */
function isKnownShape<Answer>(data: unknown, schema: z.ZodType<Answer>): data is Answer {
  const { error } = schema.safeParse(data);
  return (error?.issues ?? []).every(({ code, path }) => {
    const value = path.reduce((parent: unknown, key): unknown => Reflect.get(Object(parent), key), data);
    return code === 'invalid_value' && typeof value === 'string';
  });
}

/** `?…` of what is given. */
export function queryOf(filter: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) if (value !== undefined) query.set(name, String(value));
  return query.size === 0 ? '' : `?${query.toString()}`;
}

/** ISO 8601 without milliseconds. */
export function shortTime(time: string | null): string {
  return time === null ? '-' : time.replace(/\.\d+Z$/, 'Z');
}

export interface Polling<T> {
  readonly ask: () => Promise<T>;
  readonly isDone: (answer: T) => boolean;
  /** Told of each answer that is not the end, with the seconds that are left. */
  readonly onWait?: (answer: T, left: number) => void;
  /** How long to go on, ms. */
  readonly timeoutMs: number;
  /** The longest interval, ms. */
  readonly maxIntervalMs: number;
  readonly clock?: Clock;
}

const FIRST_INTERVAL_MS = 200;
const BACKOFF = 1.6;

/** The answer that is the end, or the last one when the time is over. */
export async function poll<T>(polling: Polling<T>): Promise<T> {
  const { ask, isDone, onWait, timeoutMs, maxIntervalMs, clock = systemClock } = polling;
  const end = clock.monotonic() + timeoutMs;
  for (let interval = FIRST_INTERVAL_MS; ; interval = Math.min(interval * BACKOFF, maxIntervalMs)) {
    const answer = await ask();
    const left = end - clock.monotonic();
    if (isDone(answer) || left <= 0) return answer;
    onWait?.(answer, Math.ceil(left / 1000));
    await clock.sleep(Math.min(interval, left));
  }
}

/**
 * Asks for confirmation; `yes` skips the question. Says so if nothing was changed. Throws UsageError if standard input is
 * not a terminal.
 */
export async function isConfirmed({ ask, writeError }: Terminal, question: string, yes: boolean): Promise<boolean> {
  if (yes) return true;
  if (ask === undefined) throw new UsageError(`${question} Standard input is not a terminal: add --yes to confirm.`);
  const isAgreed = /^y(es)?$/i.test((await ask(`${question} [y/N] `)).trim());
  if (!isAgreed) writeError('Nothing was changed.\n');
  return isAgreed;
}
