/** `postern top`: what the server does, in the terminal, as it happens. */
import type { ReadStream, WriteStream } from 'node:tty';
import type { AnswerOf } from '../contract/route.ts';
import { status as routes, type status } from '../contract/server.ts';
import { systemClock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { printable } from '../lib/printable.ts';
import { DaemonUnreachable, UsageError } from './client.ts';
import type { CliCommand } from './command.ts';
import { localTime, sizeText, writeJson } from './output.ts';
import { EXIT, type Api } from './run.ts';
import type { Terminal } from './terminal.ts';
import { wholeNumber } from './values.ts';

interface TopFlags {
  readonly interval: number;
  readonly once: boolean;
}

/** Adds `top`. */
export function addCommands(program: CliCommand): void {
  program
    .command('top')
    .summary('Watch the server live')
    .description(
      'Show rates, queue, latencies, the worst destinations and problems, refreshed every few seconds. Keys: q quits, ' +
        'p pauses, r refreshes now. With --json, print one answer of the API and exit',
    )
    .option('--interval <seconds>', 'Time between refreshes', wholeNumber(1, 3600), 2)
    .option('--once', 'Print one screen as text and exit', false)
    .example('top', 'Watch the server until you press q')
    .example('top --once', 'For a script or an email')
    .operator(top);
}

/** How far back rates and latencies look, ms. */
const WINDOW_MS = 60_000;

async function top(api: Api, { interval, once }: TopFlags): Promise<number | void> {
  const { client, terminal, json } = api;
  const { stdin, stdout } = process;
  if (json) return writeJson(terminal, (await client.ask({ route: routes.show })).data);
  if (!once && (terminal.width === undefined || !stdin.isTTY || !stdout.isTTY))
    throw new UsageError('The live view needs a terminal. To print one screen, add --once');
  const samples = [await client.call({ route: routes.show })];
  if (once) {
    await systemClock.sleep(interval * 1000);
    samples.push(await client.call({ route: routes.show }));
    const view = { samples, notice: undefined, keys: false };
    const size = { columns: terminal.width ?? 120, rows: Number.POSITIVE_INFINITY, style: terminal.style };
    for (const line of topLines(view, size)) terminal.write(`${line.trimEnd()}\n`);
    return EXIT.done;
  }
  const screen = openScreen(stdin, stdout);
  try {
    await watch(api, screen, { samples, intervalMs: interval * 1000 });
  } finally {
    screen.close();
  }
}

interface Watched {
  readonly samples: Status[];
  readonly intervalMs: number;
}

/** Until a key or a signal ends it. Rejects where the daemon refuses to answer; one that is away is waited for. */
async function watch({ client, terminal }: Api, screen: Screen, { samples, intervalMs }: Watched): Promise<void> {
  let paused = false;
  let failure: Error | undefined;
  let due = systemClock.monotonic() + intervalMs;

  async function refresh(): Promise<void> {
    due = Number.POSITIVE_INFINITY;
    try {
      keep(samples, await client.call({ route: routes.show }), intervalMs);
      failure = undefined;
    } catch (error) {
      failure = error instanceof Error ? error : new Error(messageOf(error));
    }
    due = systemClock.monotonic() + intervalMs;
    screen.happened('answer');
  }

  for (;;) {
    if (failure !== undefined && !(failure instanceof DaemonUnreachable)) throw failure;
    const notice = failure === undefined ? (paused ? 'Paused' : undefined) : messageOf(failure);
    screen.draw(
      topLines({ samples, notice, keys: true }, { columns: screen.columns, rows: screen.rows, style: terminal.style }),
    );
    const left = due - systemClock.monotonic();
    // While an answer is waited for, keys count as well.
    const key = await screen.next(paused ? WINDOW_MS : Math.min(Math.max(0, left), WINDOW_MS));
    if (key === 'q' || key === 'end') return;
    if (key === 'p') paused = !paused;
    const isAsking = due === Number.POSITIVE_INFINITY;
    if (!isAsking && (key === 'r' || (!paused && systemClock.monotonic() >= due))) void refresh();
  }
}

/** Adds a sample, and drops those that are older than the window or of a daemon that was started before. */
function keep(samples: Status[], last: Status, intervalMs: number): void {
  const oldest = Date.parse(last.now) - WINDOW_MS - intervalMs;
  const kept = samples.filter(({ now, started_at }) => Date.parse(now) >= oldest && started_at === last.started_at);
  samples.splice(0, samples.length, ...kept, last);
}

// The screen of `postern top` as lines of text, for any size of terminal.

export type Status = AnswerOf<typeof status.show>;

interface View {
  /** At least one, the newest last: rates and latencies are of the time between the first and the last. */
  readonly samples: readonly Status[];
  /** Why what is shown may be old. */
  readonly notice: string | undefined;
  /** Whether keys do something. */
  readonly keys: boolean;
}

interface Size extends Pick<Terminal, 'style'> {
  readonly columns: number;
  readonly rows: number;
}

/** No more than `rows` lines, none wider than `columns`. */
export function topLines({ samples, notice, keys }: View, { columns, rows, style }: Size): string[] {
  const last = samples.at(-1);
  const first = samples[0];
  if (last === undefined || first === undefined) return [];
  const head = [...headOf(first, last), '', ...countsOf(first, last), ''];
  const foot = [
    ...(notice === undefined ? [] : [style('yellow', cut(notice, columns))]),
    ...(keys ? [style('dim', cut('q quit   p pause   r refresh', columns))] : []),
  ].slice(0, rows);
  const room = Math.max(0, rows - head.length - foot.length);
  const problems = problemsOf(last, Math.max(1, Math.floor(room / 3)));
  const destinations = destinationsOf(last, columns, Math.max(0, room - problems.length));
  const [headings = '', ...lines] = destinations;
  const body = [
    ...problems.map((line) => style('red', cut(line, columns))),
    ...(destinations.length === 0 ? [] : [style('bold', cut(headings, columns))]),
    ...lines.map((line) => cut(line, columns)),
  ];
  const shown = [...head.map((line) => emphasised(cut(line, columns), style)), ...body].slice(
    0,
    Math.max(0, rows - foot.length),
  );
  // The keys are at the bottom of the screen.
  const blank = Number.isFinite(rows) ? Math.max(0, rows - shown.length - foot.length) : 0;
  return [...shown, ...Array.from({ length: blank }, () => ''), ...foot];
}

const LABEL = 13;

/** The first word of a line, which names what is in it. */
function emphasised(line: string, style: Size['style']): string {
  const label = line.slice(0, LABEL).trimEnd();
  return label === '' ? line : style('bold', label) + line.slice(label.length);
}

function headOf(first: Status, { hostname, version, now, started_at, memory, cpu_seconds, ...last }: Status): string[] {
  const seconds = secondsBetween(first.now, now);
  const cpu = seconds > 0 ? `${((100 * (cpu_seconds - first.cpu_seconds)) / seconds).toFixed(0)} %` : '-';
  const { queued, sending, deferred, oldest_due_seconds: oldest, paused, held } = last.queue;
  return [
    `${'Postern'.padEnd(LABEL)}${printable(hostname)}   ${localTime(now.replace(/\.\d+Z$/, 'Z'))}`,
    row('Daemon', { version, up: spanText(secondsBetween(started_at, now)), memory: sizeText(memory), cpu }),
    '',
    row('Queue', { queued, sending, deferred, 'oldest due': oldest > 0 ? spanText(oldest) : '-' }),
    row('Destinations', { paused, held }),
  ];
}

function countsOf(first: Status, last: Status): string[] {
  const seconds = secondsBetween(first.now, last.now);
  function rate(name: keyof Status['deliveries']): string {
    if (seconds <= 0) return '-';
    return numberText(((last.deliveries[name] - first.deliveries[name]) * 60) / seconds);
  }
  const names = ['form', 'smtp', 'delivery'] as const;
  const words = { form: 'form post', smtp: 'SMTP', delivery: 'delivery' };
  return [
    row('Per minute', {
      accepted: numberText(last.accepted_last_minute),
      delivered: rate('delivered'),
      deferred: rate('deferred'),
      bounced: rate('bounced'),
      expired: rate('expired'),
    }),
    row('Since start', { ...last.deliveries }),
    `${'p50 / p95'.padEnd(LABEL)}${names
      .map((name) => `${words[name]} ${latencyText(first.latencies[name], last.latencies[name])}`)
      .join('   ')}`,
  ];
}

/** `Queue        queued 12   deferred 4` */
function row(label: string, figures: Readonly<Record<string, string | number>>): string {
  const parts = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
  return `${label.padEnd(LABEL)}${parts.join('   ')}`;
}

function problemsOf({ problems }: Status, most: number): string[] {
  if (problems.length === 0) return [];
  const shown = problems.slice(0, problems.length > most ? Math.max(0, most - 1) : most);
  const more = problems.length - shown.length;
  const lines = shown.map((problem) => `! ${printable(problem)}`);
  return [...lines, ...(more > 0 ? [`! ${more} more: run postern doctor`] : []), ''];
}

const MIN_REASON = 20;
/** So many deliveries, or more: the server counts no further. */
const MAX_COUNTED = 500;
const MAX_NAME = 30;

/** A table of the worst ones, its headings first; empty where nothing waits or there is no room. */
function destinationsOf({ destinations }: Status, columns: number, room: number): string[] {
  if (room < 2) return [];
  if (destinations.length === 0) return ['Nothing is waiting.'];
  const cells = destinations
    .slice(0, room - 1)
    .map((one) => [
      printable(one.destination),
      `${one.waiting}${one.waiting >= MAX_COUNTED ? '+' : ''}`,
      stateOf(one),
      printable(one.reason ?? ''),
    ]);
  const [state, waiting] = [2, 1].map((at) => Math.max(7, ...cells.map((row) => row[at]?.length ?? 0)));
  const left = columns - (state ?? 0) - (waiting ?? 0) - 6 - MIN_REASON;
  const name = Math.max(11, Math.min(MAX_NAME, left, Math.max(...cells.map(([text = '']) => text.length))));
  return [['DESTINATION', 'WAITING', 'STATE', 'REASON'], ...cells].map(
    ([destination = '', count = '', how = '', reason = '']) =>
      `${cut(destination, name).padEnd(name)}  ${count.padStart(waiting ?? 0)}  ${how.padEnd(state ?? 0)}  ${reason}`,
  );
}

function stateOf({ held, paused_until: until, failures }: Status['destinations'][number]): string {
  if (held) return 'held';
  // The zone is in the first line.
  if (until !== null) return `paused until ${localTime(until).slice(11, 16)}`;
  return failures > 0 ? 'failing' : 'waiting';
}

type Latency = Status['latencies']['form'];

/** `12 ms / 1.5 s`, of what happened between two samples, else since the start. */
function latencyText(first: Latency, last: Latency): string {
  const before = new Map(first.buckets.map(({ le, count }) => [le, count]));
  const since = last.buckets.map(({ le, count }) => ({ le, count: count - (before.get(le) ?? 0) }));
  const buckets = last.count > first.count ? since : last.buckets;
  return [0.5, 0.95].map((share) => quantileText(buckets, share)).join(' / ');
}

/** The value below which this share is, on the straight line within its bucket, as Prometheus has it. */
function quantileText(buckets: Latency['buckets'], share: number): string {
  const total = buckets.at(-1)?.count ?? 0;
  if (total === 0) return '-';
  const wanted = share * total;
  const at = buckets.findIndex(({ count }) => count >= wanted);
  const bucket = buckets[at];
  const below = buckets[at - 1];
  if (bucket === undefined || bucket.le === null) return `> ${spanText(below?.le ?? 0)}`;
  const from = below?.le ?? 0;
  const inside = bucket.count - (below?.count ?? 0);
  return spanText(from + (bucket.le - from) * ((wanted - (below?.count ?? 0)) / inside));
}

/** `4 ms`, `1.2 s`, `3 min`, `5 h 12 min`, `2 d 3 h` */
function spanText(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function numberText(number: number): string {
  return number < 10 && !Number.isInteger(number) ? number.toFixed(1) : String(Math.round(number));
}

function secondsBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

function cut(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text;
}

// The whole terminal for a command that redraws it: the alternate screen, without a cursor, with single keys. However the
// command ends, the terminal is as it was before.

interface Screen {
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
function openScreen(input: ReadStream, output: WriteStream): Screen {
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
