/**
 * What commands share: exit codes, errors, polling and questions. With `--json` an error is one JSON object on one line of
 * standard error, so that standard output holds the result alone: `{"error": {"code", "message", "details", …}}`, and
 * `{"warning": …}` of the same shape where the command goes on.
 */
import { CommanderError } from 'commander';
import type { z } from 'zod';
import { formatProblem, type Problem } from '../config/problem.ts';
import { systemClock, type Clock } from '../lib/clock.ts';
import { errorFields, messageOf, PassingError, UserError } from '../lib/errors.ts';
import {
  type Client,
  type Detail,
  CommandFailed,
  DaemonUnreachable,
  FilesRefused,
  RequestRefused,
  type Refused,
  UsageError,
} from './client.ts';
import type { Target } from './target.ts';
import { printable } from '../lib/printable.ts';
import { Interrupted, type Terminal } from './terminal.ts';

/** What a command that uses the API is given. */
export interface Api {
  readonly client: Client;
  readonly terminal: Terminal;
  /** The daemon's JSON instead of words and tables. */
  readonly json: boolean;
  readonly target: Target;
}

/** Exit codes; reference/documents.ts says what they mean. */
export const EXIT = { done: 0, failed: 1, usage: 2, unreachable: 3, configuration: 78, interrupted: 130 } as const;

/** The exit code of a command that ended in an error. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (error instanceof Interrupted) return EXIT.interrupted;
  if (error instanceof UsageError) return EXIT.usage;
  if (error instanceof DaemonUnreachable) return EXIT.unreachable;
  if (error instanceof FilesRefused) return error.exitCode;
  if (error instanceof PassingError || error instanceof CommandFailed || error instanceof RequestRefused)
    return EXIT.failed;
  return error instanceof UserError ? EXIT.configuration : EXIT.failed;
}

/** Does the work of a command; answers its exit code, which is 0 where the work answers none. */
export async function run(api: Api, work: (api: Api) => Promise<number | void>): Promise<number> {
  const { client, terminal, json } = api;
  try {
    return (await work(api)) ?? EXIT.done;
  } catch (error) {
    terminal.progress('');
    const isKnown = [RequestRefused, DaemonUnreachable, CommandFailed, FilesRefused].some(
      (kind) => error instanceof kind,
    );
    if (!isKnown) throw error;
    terminal.writeError(json ? failureJson(error, client) : failureText(error, client));
    return exitCodeOf(error);
  }
}

/** What standard error says of an error, line breaks included; `client` is of the daemon that it came from. */
function failureText(error: unknown, client?: Client): string {
  if (error instanceof RequestRefused) return refusalText(error, client);
  if (error instanceof FilesRefused) {
    const lines = [...error.problems.map(formatProblem), ...(error.message === '' ? [] : [error.message])];
    return lines.map((line) => `${printable(line)}\n`).join('');
  }
  const text = error instanceof UserError ? messageOf(error) : (errorFields(error).stack ?? messageOf(error));
  return text.replace(/\n?$/, '\n');
}

/** The same as JSON. */
function failureJson(error: unknown, client?: Client): string {
  const exitCode = exitCodeOf(error);
  if (error instanceof RequestRefused) {
    const { code, details, requestId } = error.refused;
    const advice = nextStep(error.refused, client);
    return lineOf('error', {
      code,
      message: error.message,
      details,
      advice,
      request_id: requestId,
      exit_code: exitCode,
    });
  }
  const details = error instanceof FilesRefused ? error.problems : [];
  const message = messageOf(error).replace(/^error: /, '') || 'The files are not valid.';
  const code = codeFor(error);
  const stack = code === 'INTERNAL' ? errorFields(error).stack : undefined;
  return lineOf('error', { code, message, details, exit_code: exitCode, stack });
}

/** What standard error says where the program ends in an error. */
export function endText(error: unknown, json: boolean): string {
  if (json) return failureJson(error);
  return error instanceof FilesRefused ? failureText(error) : `postern: ${failureText(error)}`;
}

export interface Warning {
  /** `CONFIGURATION_INVALID`, `DAEMON_DOWN` */
  readonly code: string;
  readonly message: string;
  readonly details?: readonly Problem[];
}

/** Tells of something beside the result; the command goes on. */
export function warn({ writeError }: Pick<Terminal, 'writeError'>, warning: Warning, json: boolean): void {
  const { code, message, details = [] } = warning;
  if (json) return writeError(lineOf('warning', { code, message, details }));
  for (const problem of details) writeError(`${printable(formatProblem(problem))}\n`);
  writeError(`warning: ${message}\n`);
}

function lineOf(kind: 'error' | 'warning', what: object): string {
  return `${JSON.stringify({ [kind]: what })}\n`;
}

/** The codes of what does not come from the API, which has its own. */
function codeFor(error: unknown): string {
  if (error instanceof CommanderError || error instanceof UsageError) return 'USAGE';
  if (error instanceof Interrupted) return 'INTERRUPTED';
  if (error instanceof DaemonUnreachable) return error.isDown ? 'DAEMON_DOWN' : 'DAEMON_UNREACHABLE';
  if (error instanceof CommandFailed || error instanceof PassingError) return 'FAILED';
  return error instanceof UserError ? 'CONFIGURATION_INVALID' : 'INTERNAL';
}

/** The message of the server, each detail with its place, and the next step if there is one. */
function refusalText({ message, refused }: RequestRefused, client: Client | undefined): string {
  const [only, ...more] = refused.details;
  // A single detail without a place is what the message says.
  const told = only !== undefined && more.length === 0 && only.line === undefined;
  const lines = [message, ...(told ? [] : refused.details.map(detailText))];
  const next = nextStep(refused, client);
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

function nextStep({ code, retryAfter }: Refused, client: Client | undefined): string | undefined {
  if (client === undefined) return undefined;
  const { key, address } = client;
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

export interface Question {
  /** The option that would have answered it: `--name`. */
  readonly flag: string;
  /** The value of that option. */
  readonly given: string | undefined;
  readonly question: string;
  /** Stands for an empty answer. */
  readonly suggestion?: string | undefined;
  /** Takes the suggestion without asking. */
  readonly yes?: boolean;
  /** Brings an answer into its normal form, or says what is expected. */
  readonly read: z.ZodType<string>;
}

/** The value of an option, else what a person answers. Throws UsageError if it is wrong, or if nobody can be asked. */
export async function answerTo({ ask, writeError }: Terminal, asked: Question): Promise<string> {
  const { flag, question, suggestion, yes, read } = asked;
  const given = asked.given ?? (yes || ask === undefined ? suggestion : undefined);
  if (given !== undefined) {
    const result = read.safeParse(given);
    if (result.success) return result.data;
    throw new UsageError(`${flag} ${given}: ${result.error.issues[0]?.message}`);
  }
  if (ask === undefined || yes) {
    const other = yes === undefined ? '' : ' or --yes is given';
    throw new UsageError(`${flag} is required when standard input is not a terminal${other}`);
  }
  for (;;) {
    const answer = await ask(`${question}${suggestion === undefined ? '' : ` [${suggestion}]`}: `);
    const result = read.safeParse(answer.trim() || suggestion || '');
    if (result.success) return result.data;
    writeError(`${result.error.issues[0]?.message}\n`);
  }
}
