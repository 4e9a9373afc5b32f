/**
 * The whole terminal for a command that redraws it: the alternate screen, without a cursor, with single keys. However the
 * command ends, the terminal is as it was before.
 */
import type { ReadStream, WriteStream } from 'node:tty';
import { systemClock } from '../lib/clock.ts';

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  /** Replaces what is shown; lines are as wide as the screen at most. */
  draw(lines: readonly string[]): void;
  /** Resolves with the next key, with `resize`, with `end` on a signal, or with what has `happened`; after `ms` with `time`. */
  next(ms: number): Promise<string>;
  /** What `next` answers in its turn. */
  happened(what: string): void;
  /** Gives the terminal back. */
  close(): void;
}

// ECMA-48 and xterm: alternate screen, cursor, no line wrap, home, erase to the end of the line and of the screen.
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const END_LINE = '\u001b[K';
const END_SCREEN = '\u001b[J';
const SIGNALS = ['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGQUIT'] as const;
/** Of terminals that do not know their size. */
const USUAL = { columns: 80, rows: 24 };

/** Takes the terminal; `input` and `output` are terminals. */
export function openScreen(input: ReadStream, output: WriteStream): Screen {
  const waiting: string[] = [];
  let wake: AbortController | undefined;
  let open = true;

  function happened(what: string): void {
    waiting.push(what);
    wake?.abort();
  }
  function onData(data: Buffer): void {
    // In raw mode these are keys, no signals: Ctrl-C, Ctrl-\, Ctrl-D.
    for (const key of data.toString()) happened('\u0003\u001c\u0004'.includes(key) ? 'end' : key);
  }
  function onResize(): void {
    happened('resize');
  }
  function onEnd(): void {
    happened('end');
  }
  function close(): void {
    if (!open) return;
    open = false;
    input.off('data', onData).off('end', onEnd).off('error', onEnd);
    output.off('resize', onResize).off('error', onEnd);
    for (const signal of SIGNALS) process.off(signal, onEnd);
    process.off('exit', close);
    if (input.isTTY) input.setRawMode(false);
    input.pause();
    output.write(LEAVE);
  }

  // Also where an error ends the program.
  process.on('exit', close);
  for (const signal of SIGNALS) process.on(signal, onEnd);
  // A terminal that is closed.
  input.on('end', onEnd).on('error', onEnd);
  output.on('resize', onResize).on('error', onEnd);
  output.write(ENTER);
  input.setRawMode(true);
  input.on('data', onData);
  return {
    get columns() {
      return output.columns || USUAL.columns;
    },
    get rows() {
      return output.rows || USUAL.rows;
    },
    draw(lines) {
      output.write(`${HOME}${lines.map((line) => `${line}${END_LINE}`).join('\r\n')}${END_SCREEN}`);
    },
    async next(ms) {
      const first = waiting.shift();
      if (first !== undefined) return first;
      wake = new AbortController();
      await systemClock.sleep(ms, wake.signal);
      return waiting.shift() ?? 'time';
    },
    happened,
    close,
  };
}
