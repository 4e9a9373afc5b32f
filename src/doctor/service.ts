/** What the service manager and its log say of a daemon that does not run; nothing where there is no systemd. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const UNIT = 'postern.service';
const PATIENCE_MS = 5000;
const MAX_LINES = 3;
const MAX_LENGTH = 400;

const run = promisify(execFile);

export interface ServiceState {
  /** `systemd: failed since …, exit code 78; last in its log: …` */
  readonly words: string;
  /** How it is started. */
  readonly start: string;
}

const BY_HAND = 'Start it with postern serve.';
const BY_SYSTEMD = 'To start it, run systemctl start postern. To see its log, run journalctl --unit=postern.';

/** `path` is where programs are looked for. Never rejects. */
export async function serviceState(path: string | undefined): Promise<ServiceState> {
  try {
    const show = await say(path, 'systemctl', 'show', UNIT, `--property=${PROPERTIES.join()}`);
    const state = new Map(show.split('\n').map((line) => splitAt(line, line.indexOf('='))));
    if (state.get('LoadState') !== 'loaded') return { words: `systemd has no ${UNIT}`, start: BY_HAND };
    const last = await lastLines(path, state.get('InvocationID') ?? '');
    const words = `systemd: ${wordsOf(state)}${last === '' ? '' : `; last in its log: ${last}`}`;
    return { words, start: BY_SYSTEMD };
  } catch {
    // Not installed, or not what this machine was booted with.
    return { words: 'systemd is not running on this machine', start: BY_HAND };
  }
}

const PROPERTIES = [
  'LoadState',
  'ActiveState',
  'SubState',
  'Result',
  'ExecMainCode',
  'ExecMainStatus',
  'StateChangeTimestamp',
  'InvocationID',
] as const;

function wordsOf(state: ReadonlyMap<string, string>): string {
  const [active = '', sub, result = '', status = '0', since = ''] = (
    ['ActiveState', 'SubState', 'Result', 'ExecMainStatus', 'StateChangeTimestamp'] as const
  ).map((name) => state.get(name));
  // `CLD_EXITED`: the status is an exit code, else a signal.
  const how = state.get('ExecMainCode') === '1' ? `exit code ${status}` : `signal ${status}`;
  return [
    sub === undefined || sub === active ? active : `${active} (${sub})`,
    ...(since === '' ? [] : [`since ${since}`]),
    ...(result === 'success' || result === '' ? [] : [result === 'exit-code' || result === 'signal' ? how : result]),
  ].join(', ');
}

/** The last errors of this start, else its last line; empty where the journal cannot be read. */
async function lastLines(path: string | undefined, invocation: string): Promise<string> {
  const of = invocation === '' ? [`_SYSTEMD_UNIT=${UNIT}`] : [`_SYSTEMD_INVOCATION_ID=${invocation}`];
  const shown = ['--quiet', '--no-pager', '--output=cat'];
  const errors = await say(path, 'journalctl', ...of, ...shown, '--priority=err', `--lines=${MAX_LINES}`).catch(
    () => '',
  );
  const lines =
    errors.trim() === '' ? await say(path, 'journalctl', ...of, ...shown, '--lines=1').catch(() => '') : errors;
  return lines.trim().split('\n').map(wordsOfLine).join(' | ').slice(0, MAX_LENGTH);
}

/** The words of a line of the daemon's log, which is JSON; other lines are as they are. */
function wordsOfLine(line: string): string {
  try {
    const fields: unknown = JSON.parse(line);
    const words = ['msg', 'error', 'problem'].map((name): unknown => Reflect.get(Object(fields), name));
    const texts = words.filter((word) => typeof word === 'string');
    return texts.length === 0 ? line : texts.join(' ');
  } catch {
    return line;
  }
}

async function say(path: string | undefined, command: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await run(command, args, { timeout: PATIENCE_MS, env: { PATH: path, LC_ALL: 'C' } });
  return stdout;
}

function splitAt(text: string, at: number): readonly [before: string, behind: string] {
  return [text.slice(0, at), text.slice(at + 1)];
}
