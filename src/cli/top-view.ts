/** The screen of `postern top` as lines of text, for any size of terminal. */
import type { AnswerOf } from '../contract/route.ts';
import type { status } from '../contract/server.ts';
import { localTime, sizeText } from './output.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';

export type Status = AnswerOf<typeof status.show>;

export interface View {
  /** At least one, the newest last: rates and latencies are of the time between the first and the last. */
  readonly samples: readonly Status[];
  /** Why what is shown may be old. */
  readonly notice: string | undefined;
  /** Whether keys do something. */
  readonly keys: boolean;
}

export interface Size extends Pick<Terminal, 'style'> {
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
  if (destinations.length === 0) return ['Nothing waits.'];
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
