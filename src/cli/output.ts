/** Output of commands: answers of the API, tables and facts, numbers and sizes in text, and downloads. */
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parametersOf } from '../contract/route.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { type Call, CommandFailed, DaemonUnreachable } from './client.ts';
import { type Api } from './run.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';

/** Calls a route and prints its answer: with `--json` as it came, else by `show`, which answers the exit code. */
export async function print<Path extends string, Answer>(
  { client, terminal, json }: Api,
  call: Call<Path, Answer>,
  show: (answer: Answer) => number | void,
): Promise<number | void> {
  const { data, read } = await client.ask(call);
  return json ? writeJson(terminal, data) : show(read());
}

/** The work of a command that shows the answer of a route: arguments fill its path in their order, and flags its query. */
export function showing<Answer>(
  route: Call<string, Answer>['route'],
  show: (answer: Answer, terminal: Terminal) => void,
): (api: Api, ...given: unknown[]) => Promise<number | void> {
  return (api, ...given) => {
    const params = Object.fromEntries(parametersOf(route.path).map((name, i) => [name, String(given[i])]));
    const query = given.find((value) => typeof value === 'object' && value !== null) ?? {};
    return print(api, { route, params, query }, (answer) => show(answer, api.terminal));
  };
}

/** Columns of a table: their headings, and the member or text of a row that each shows. */
export type Columns<Row> = Readonly<Record<string, keyof Row | ((row: Row) => unknown)>>;

interface Listed<Answer, Row> {
  readonly rows: (answer: Answer) => readonly Row[];
  readonly columns: Columns<Row>;
  /** What is said where there are no rows. */
  readonly nothing: string;
  /** What is to be known beside the rows, where there is something. */
  readonly note?: (answer: Answer) => string | undefined;
}

/** The work of a command that prints a page of a list: as `showing` does, as a table and how to see more. */
export function listing<Answer extends { readonly count: number; readonly next_cursor: string | null }, Row>(
  route: Call<string, Answer>['route'],
  { rows: rowsOf, columns, nothing, note }: Listed<Answer, Row>,
): ReturnType<typeof showing> {
  return showing(route, (answer, terminal) => {
    const { count, next_cursor: next } = answer;
    const { width, write, writeError } = terminal;
    const rows = rowsOf(answer);
    const text = note?.(answer);
    if (text !== undefined) (width === undefined ? writeError : write)(`${printable(text)}\n`);
    // With a condition that is searched for a page may be empty although there is more.
    if (rows.length > 0) writeTable(terminal, columns, rows);
    else if (next === null) return (width === undefined ? writeError : write)(`${nothing}\n`);
    const shown = `${rows.length} of ${count}`;
    if (next !== null) (width === undefined ? writeError : write)(`${shown}; for more, add --cursor ${next}\n`);
    else if (width !== undefined) write(`${shown}\n`);
  });
}

/** As JSON; what a terminal would act on and JSON leaves as it is (C1, ECMA-48 §5.3) is escaped. */
export function writeJson(terminal: Pick<Terminal, 'write'>, data: unknown): void {
  const text = JSON.stringify(data, null, 2);
  terminal.write(`${text.replaceAll(/[\u007f-\u009f]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`)}\n`);
}

/** Writes rows: a table on a terminal, else tab-separated values. */
export function writeTable<Row>({ write, style, width }: Terminal, columns: Columns<Row>, rows: readonly Row[]): void {
  const cells = rows.map((row) => cellsOf(columns, row, width === undefined ? utcTime : shortTime));
  if (width === undefined) for (const row of cells) write(`${row.map(printable).join('\t')}\n`);
  else {
    const [first = '', ...lines] = table(Object.keys(columns), cells, width).split('\n');
    write([style('bold', first), ...lines].join('\n'));
  }
}

/** The texts of a row. Times are written by `time`, lists with spaces, and what there is not is a hyphen. */
function cellsOf<Row>(columns: Columns<Row>, row: Row, time: typeof shortTime): string[] {
  return Object.values(columns).map((column) => {
    const value: unknown = typeof column === 'function' ? column(row) : row[column];
    if (Array.isArray(value)) return value.join(' ');
    return typeof value === 'string' || value === null ? time(value) : JSON.stringify(value);
  });
}

const API_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/** A time of the API for a person: `2026-01-31T13:00:00+01:00`, in the time zone of this machine (`TZ`). Other texts are as they are. */
export function shortTime(time: string | null): string {
  return time === null ? '-' : localTime(utcTime(time));
}

/** The same with milliseconds, if it has any. */
export function localTime(time: string): string {
  const offset = API_TIME.test(time) ? -new Date(time).getTimezoneOffset() : 0;
  if (offset === 0) return time;
  const local = new Date(Date.parse(time) + offset * 60_000).toISOString().slice(0, time.length - 1);
  const zone = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60].map((part) => String(part).padStart(2, '0'));
  return `${local}${offset < 0 ? '-' : '+'}${zone.join(':')}`;
}

/** For programs: in UTC, without milliseconds. */
function utcTime(time: string | null): string {
  return time === null ? '-' : time.replace(/(?<=^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/, 'Z');
}

/** Writes lines of a name and what it is, the latter in one column; further texts of a name have lines of their own. */
export function writeFacts(
  { write, style }: Terminal,
  facts: Readonly<Record<string, string | readonly string[] | undefined>>,
): void {
  const wide = Math.max(...Object.entries(facts).map(([name, fact]) => (fact === undefined ? 0 : name.length)));
  for (const [name, fact = []] of Object.entries(facts))
    for (const [i, text] of [fact].flat().entries())
      write(`${style('dim', (i === 0 ? name : '').padEnd(wide))}  ${printable(text)}\n`);
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
  if (number === 1) return `1 ${thing}`;
  return `${number} ${/(?:s|x|ch|sh)$/.test(thing) ? `${thing}es` : thing.replace(/(?<=[^aeiou])y$/, 'ie').concat('s')}`;
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

/** `██████░░░░ 60 % of 1.5 MiB`: how far a work of so many bytes, or of what `whole` says, is. */
export function barText(done: number, total: number, whole = sizeText(total)): string {
  const share = Math.min(1, done / total);
  const full = Math.round(share * BAR_WIDTH);
  const percent = `${Math.floor(share * 100)}`.padStart(3);
  return `${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)} ${percent} % of ${whole}`;
}

/**
 * Writes what the daemon sends to the file `output`, else to standard output; where it is a file, says how far it is. Throws
 * CommandFailed where that cannot be written, DaemonUnreachable where the daemon went away in the middle.
 */
export async function save(terminal: Terminal, source: Readable, output: string | undefined): Promise<void> {
  const { sink, width } = terminal;
  if (output === undefined && width === undefined)
    return download(source, () => pipeline(source, sink, { end: false }));
  if (output === undefined) return download(source, () => pipeline(source, printableLines, sink, { end: false }));
  let bytes = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      terminal.progress(`${sizeText(bytes)} written to ${output}`);
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

/** Text without anything that a terminal would act on, and with a whole last line. */
async function* printableLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of chunks) {
    text = decoder.decode(chunk, { stream: true }).replaceAll('\r\n', '\n');
    yield text.split('\n').map(printable).join('\n');
  }
  if (text !== '' && !text.endsWith('\n')) yield '\n';
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
