/** The terminal of a command: environment, working folder, output, colours, progress and questions. */
import { createInterface } from 'node:readline';
import { printable } from '../lib/printable.ts';
import type { Writable } from 'node:stream';
import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder that paths are relative to. */
  readonly folder: string;
  /** Standard output, line breaks included. */
  readonly write: (text: string) => void;
  /** Standard output as a stream, for what is long: it waits for whoever reads. */
  readonly sink: Writable;
  /** Standard error. */
  readonly writeError: (text: string) => void;
  /** Columns, where standard output is a terminal. */
  readonly width: number | undefined;
  /** Colours and weights, where standard output is a terminal that may have them (`NO_COLOR`). */
  readonly style: (format: Format, text: string) => string;
  /** One line that replaces the one before, on standard error; nothing where that is no terminal. `''` ends it. */
  readonly progress: (line: string) => void;
  /** Asks a person, for a line without its end; undefined where there is none. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
}

/** The terminal of this process. */
export function processTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process;
  return {
    env,
    folder: process.cwd(),
    write: (text) => void stdout.write(text),
    sink: stdout,
    writeError: (text) => void stderr.write(text),
    // A terminal that does not know says 0.
    width: stdout.isTTY ? stdout.columns || 80 : undefined,
    style: (format, text) => styleText(format, text, { stream: stdout }),
    progress(line) {
      // A line that wraps would stay.
      if (stderr.isTTY) stderr.write(`\r\u001b[2K${printable(line).slice(0, (stderr.columns || 80) - 1)}`);
    },
    ask: stdin.isTTY && stderr.isTTY ? ask : undefined,
  };
}

/** A person ended a question (Ctrl-C, Ctrl-D) instead of answering it. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise((resolve, reject) => {
    lines.once('SIGINT', () => lines.close());
    lines.once('close', () => reject(new Interrupted('interrupted')));
    lines.question(question, (answer) => {
      resolve(answer);
      lines.close();
    });
  });
}
