/** A terminal that remembers what was written to it, and a way to run a command line in it. */
import { Writable } from 'node:stream';
import { CommanderError } from 'commander';
import { createProgram } from '../../src/cli/program.ts';
import type { Terminal } from '../../src/cli/terminal.ts';
import { answerOffline } from '../../src/daemon/offline.ts';

export interface TestTerminal extends Terminal {
  /** What was written since the last time this was asked. */
  out(): string;
  err(): string;
}

export interface TestTerminalOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly folder?: string;
  readonly width?: number;
  /** What the person answers, in turn; without any, there is no person. */
  readonly answers?: readonly string[];
}

/** Without colours. */
export function testTerminal(options: TestTerminalOptions = {}): TestTerminal {
  const { env = {}, folder = '/', width, answers } = options;
  const said = { out: '', err: '' };
  const left = [...(answers ?? [])];
  function take(stream: 'out' | 'err'): string {
    const text = said[stream];
    said[stream] = '';
    return text;
  }
  return {
    env,
    folder,
    width,
    write: (text) => void (said.out += text),
    sink: new Writable({
      decodeStrings: false,
      write(chunk: string | Buffer, _encoding, done) {
        said.out += chunk.toString();
        done();
      },
    }),
    writeError: (text) => void (said.err += text),
    style: (_format, text) => text,
    progress() {},
    ask: answers === undefined ? undefined : ask,
    out: () => take('out'),
    err: () => take('err'),
  };

  function ask(question: string): Promise<string> {
    said.err += question;
    const answer = left.shift();
    return answer === undefined ? Promise.reject(new Error(`nobody answers ${question}`)) : Promise.resolve(answer);
  }
}

/** Runs `postern ARGS…` as the operator, over the admin socket. */
export async function runOperator(
  socket: string,
  args: readonly string[],
): Promise<{ code: number; out: string; err: string }> {
  const terminal = testTerminal({ width: 300 });
  const code = await runCommand(terminal, [...args, '--url', `unix:${socket}`]);
  return { code, out: terminal.out(), err: terminal.err() };
}

/** Runs `postern ARGS…` in this process. Answers its exit code; wrong usage is 2, other failures are thrown. */
export async function runCommand(terminal: Terminal, args: readonly string[]): Promise<number> {
  let exitCode = 0;
  const noService = () => Promise.reject(new Error('no service runs here'));
  const program = await createProgram({
    command: args[0],
    version: '0.0.0',
    terminal,
    exit: (code) => (exitCode = code),
    services: {
      serve: noService,
      dev: noService,
      answerOffline: (file, request) => answerOffline(file, request, terminal.env),
      preflight: { check: noService, hostRecords: noService },
    },
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    throw error;
  }
}
