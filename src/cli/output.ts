/** Output of commands: tables and facts, numbers and sizes in text, and downloads. */
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Terminal, printable } from './terminal.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { DaemonUnreachable } from './client.ts';
import { CommandFailed } from './run.ts';

export interface List {
  readonly headings: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The position of a page in a list of the API. */
export interface Page {
  readonly count: number;
  readonly next_cursor: string | null;
}

/** Writes the rows. */
export function writeTable({ write, style, width }: Terminal, { headings, rows }: List): void {
  if (width === undefined) {
    for (const row of rows) write(`${row.map(printable).join('\t')}\n`);
    return;
  }
  const [first = '', ...lines] = table(headings, rows, width).split('\n');
  write([style('bold', first), ...lines].join('\n'));
}

/** Writes a page of rows, or `nothing` where there are none, and how to see more. */
export function writePage(terminal: Terminal, list: List, page: Page & { readonly nothing: string }): void {
  const { count, next_cursor: next, nothing } = page;
  const { width, write, writeError } = terminal;
  // With a condition that is searched for a page may be empty although there is more.
  if (list.rows.length > 0) writeTable(terminal, list);
  else if (next === null) return (width === undefined ? writeError : write)(`${nothing}\n`);
  const shown = `${list.rows.length} of ${count}`;
  if (next !== null) (width === undefined ? writeError : write)(`${shown}; for more, add --cursor ${next}\n`);
  else if (width !== undefined) write(`${shown}\n`);
}

/** Writes lines of a name and what it is, the latter in one column. */
export function writeFacts({ write, style }: Terminal, facts: readonly (readonly [string, string])[]): void {
  const wide = Math.max(...facts.map(([name]) => name.length));
  for (const [name, fact] of facts) write(`${style('dim', name.padEnd(wide))}  ${printable(fact)}\n`);
}

/** A last column that has less room is not cut, but goes over the edge: half a number is none. */
const MIN_LAST_COLUMN = 12;

/** Rows under a line of headings, each column as wide as its widest cell; the last one is cut to fit `width`. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], width = Infinity): string {
  const shown = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, i) => Math.max(...shown.map((row) => row[i]?.length ?? 0)));
  const last = headings.length - 1;
  const room = width - widths.slice(0, last).reduce((sum, column) => sum + column + 2, 0);
  return shown
    .map((row) => {
      const line = row.map((cell, i) => (i === last ? cell : cell.padEnd(widths[i] ?? 0))).join('  ');
      return `${line.length > width && room >= MIN_LAST_COLUMN ? `${line.slice(0, width - 1)}…` : line.trimEnd()}\n`;
    })
    .join('');
}

/** `1 form`, `3 addresses`. */
export function counted(number: number, thing: string): string {
  return `${number} ${number === 1 ? thing : plural(thing)}`;
}

function plural(thing: string): string {
  return /(?:s|x|ch|sh)$/.test(thing) ? `${thing}es` : `${thing}s`;
}

/** `a, b and 4 more`: the first `max` of them. */
export function listed(items: readonly string[], max = 5): string {
  if (items.length <= max) return items.join(', ');
  return `${items.slice(0, max).join(', ')} and ${items.length - max} more`;
}

const MAX_VALUE_LENGTH = 60;

/** A value of the configuration on one line; `not set` where there is none. */
export function valueText(value: unknown): string {
  if (value === undefined || value === null) return 'not set';
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) {
    return value.length === 0 ? 'none' : listed(value);
  }
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH - 1)}…` : text;
}

/** `1.5 MiB`, `12 KiB`. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1_048_576 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;
}

/** Characters between nothing and all. */
const BAR_WIDTH = 24;

/** `██████░░░░ 60 % of 1.5 MiB`: how far a work of so many bytes is. */
export function barText(done: number, total: number): string {
  const share = done / total;
  const full = Math.round(share * BAR_WIDTH);
  const percent = `${Math.floor(share * 100)}`.padStart(3);
  return `${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)} ${percent} % of ${sizeText(total)}`;
}

const PROGRESS_BYTES = 64 * 1024;

/**
 * Writes what the daemon sends to the file `output`, else to standard output; where it is a file, says how far it is. Throws
 * CommandFailed where that cannot be written, DaemonUnreachable where the daemon went away in the middle.
 */
export async function save(terminal: Terminal, source: Readable, output: string | undefined): Promise<void> {
  if (output === undefined)
    return download(source, () => pipeline(source, printableFor(terminal), terminal.sink, { end: false }));
  let bytes = 0;
  let shown = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes - shown >= PROGRESS_BYTES) {
        shown = bytes;
        terminal.progress(`${sizeText(bytes)} written to ${output}`);
      }
      done(null, chunk);
    },
  });
  const file = await open(resolve(terminal.folder, output), 'w').catch((error: unknown) => {
    source.destroy();
    throw new CommandFailed(`Cannot write ${output}: ${messageOf(error)}`, { cause: error });
  });
  await download(source, () => pipeline(source, counter, file.createWriteStream()));
  terminal.progress('');
  terminal.writeError(`${sizeText(bytes)} written to ${output}\n`);
}

/** On a terminal nothing that it would act on, and a whole last line; elsewhere every byte as it came. */
function printableFor({ width }: Terminal): Transform {
  const decoder = new TextDecoder();
  let isLineOver = true;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      isLineOver = chunk.at(-1) === 0x0a;
      done(null, width === undefined ? chunk : lines(decoder.decode(chunk, { stream: true })));
    },
    flush(done) {
      done(null, width === undefined || isLineOver ? undefined : '\n');
    },
  });
}

function lines(text: string): string {
  return text.replaceAll('\r\n', '\n').split('\n').map(printable).join('\n');
}

async function download(source: Readable, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const words = `The download is incomplete: ${messageOf(error)}`;
    const isOurs = source.errored === null || codeOf(source.errored) !== 'ECONNRESET';
    throw isOurs ? new CommandFailed(words, { cause: error }) : new DaemonUnreachable(words, { cause: error });
  }
}
