/**
 * One line per event, with a stable name: `log.info('delivery.delivered', { message, recipient, reply })`. Lines never
 * hold a body, a key or a secret; addresses are masked where the operator asks for it.
 */
import { fstatSync } from 'node:fs';
import { isatty } from 'node:tty';
import pino from 'pino';
import type { Clock } from './clock.ts';
import { LOG_EVENTS, type LogEvent } from './log-events.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(event: LogEvent, fields?: Fields): void;
  info(event: LogEvent, fields?: Fields): void;
  warn(event: LogEvent, fields?: Fields): void;
  error(event: LogEvent, fields?: Fields): void;
}

interface LogOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** `auto`: pretty on a terminal, JSON lines elsewhere, which have a priority where the journal reads them. */
  readonly format: 'auto' | 'json' | 'pretty';
  /** Masks the local part of every address in a line: `a***@example.net`. */
  readonly redact_addresses: boolean;
  /** File descriptor to write to; default: 1. */
  readonly fd?: number;
  /** The journal's socket, as systemd names it (JOURNAL_STREAM, systemd.exec(5)); default: that of the environment. */
  readonly journal?: string | undefined;
  /** Gets each line as JSON, after redaction. */
  readonly keep?: (line: string) => void;
}

/** A log whose level and redaction follow the configuration while it runs. */
export interface AdjustableLog extends Log {
  adjust(options: Pick<LogOptions, 'level' | 'redact_addresses'>): void;
}

/** What waits for a reader that is slow, bytes; what comes on top of it is dropped, and counted. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
/** What is handed on before the turn ends, characters. */
const MAX_TURN_LENGTH = 64 * 1024;

/**
 * A log that writes to a file descriptor at the end of each turn of the event loop; every thread may have one. Nobody waits for
 * the reader of a pipe, or for the journal: a synchronous write would hold up the thread until there is room.
 */
export async function createLog(options: LogOptions): Promise<AdjustableLog> {
  const fd = options.fd ?? 1;
  const human = options.format === 'pretty' || (options.format === 'auto' && isatty(fd));
  const stream = human
    ? (await import('pino-pretty')).default({
        destination: fd,
        sync: true,
        colorize: process.env['NO_COLOR'] === undefined,
        ignore: 'pid,hostname',
      })
    : turnByTurn(
        pino.destination({ dest: fd, sync: false, maxLength: MAX_WAITING_BYTES }),
        isJournal(fd, options.journal ?? process.env['JOURNAL_STREAM']) ? withPriority : (line) => line,
      );
  const { keep } = options;
  const kept =
    keep === undefined
      ? stream
      : {
          write(line: string) {
            keep(line);
            stream.write(line);
          },
        };
  const out = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    kept,
  );
  let redacting = options.redact_addresses;
  return {
    adjust({ level, redact_addresses }) {
      out.level = level;
      redacting = redact_addresses;
    },
    debug: (event, fields = {}) => out.debug({ event, ...shown(fields) }, LOG_EVENTS[event]),
    info: (event, fields = {}) => out.info({ event, ...shown(fields) }, LOG_EVENTS[event]),
    warn: (event, fields = {}) => out.warn({ event, ...shown(fields) }, LOG_EVENTS[event]),
    error: (event, fields = {}) => out.error({ event, ...shown(fields) }, LOG_EVENTS[event]),
  };

  function shown(fields: Fields): Fields {
    const safe = eachText(fields, withoutSecrets);
    return redacting ? eachText(safe, maskAddresses) : safe;
  }
}

/** The line as the journal takes it: the level, which is its first member, once more in front of it. */
function withPriority(line: string): string {
  const [, level = ''] = /^\{"level":"(\w+)"/.exec(line) ?? [];
  return priorityOf(level) + line;
}

/** One write for all lines of a turn of the event loop; what waits at the end of the process is written then. */
function turnByTurn(
  destination: ReturnType<typeof pino.destination>,
  asWritten: (line: string) => string,
): { write(line: string): void } {
  let lines = '';
  let dropped = 0;
  destination.on('drop', (text: string) => (dropped += text.split('\n').length - 1));
  destination.on('drain', () => {
    process.off('exit', finish);
    const event = 'log.dropped';
    if (dropped > 0) write(`${JSON.stringify({ level: 'warn', event, lines: dropped, msg: LOG_EVENTS[event] })}\n`);
    dropped = 0;
  });

  function flush(): void {
    const text = lines;
    lines = '';
    if (text !== '') destination.write(text);
  }

  function finish(): void {
    flush();
    destination.flushSync();
  }

  function write(line: string): void {
    if (lines === '') {
      setImmediate(flush);
      process.off('exit', finish).on('exit', finish);
    }
    lines += asWritten(line);
    if (lines.length >= MAX_TURN_LENGTH) flush();
  }

  return { write };
}

/** A log that says nothing. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** API keys, secrets of webhooks, and tokens of mailed links, wherever they stand, percent-encoded too. */
const SECRETS = [
  /(svc(?:_|%5f)(?:(?:sk(?:_|%5f)(?:live|test))|rk)(?:_|%5f))[\w%.~-]+/gi,
  /(whsec(?:_|%5f))[\w%+/=-]+/gi,
  /(\/(?:confirm|unsubscribe|s)\/)[\w%.~-]{16,}/g,
];

/** Next to every text has none of their beginnings. */
const MAYBE_SECRET = /svc|whsec|\/(?:confirm|unsubscribe|s)\//i;

/** The text without what would open something to whoever reads the log. */
function withoutSecrets(text: string): string {
  if (!MAYBE_SECRET.test(text)) return text;
  return SECRETS.reduce((safe, secret) => safe.replaceAll(secret, '$1…'), text);
}

function maskAddresses(text: string): string {
  return text.replaceAll(/(?<![^\s<>"@,;:])([^\s<>"@,;:])[^\s<>"@,;:]*@/g, '$1***@');
}

function eachText(fields: Fields, change: (text: string) => string): Fields {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, changed(value, change)]));
}

function changed(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item: unknown) => changed(item, change));
  if (value instanceof Error) return change(value.stack ?? value.message);
  if (typeof value !== 'object' || value === null) return value;
  return eachText({ ...value }, change);
}

// The last hour of the log in memory, so that the operator finds what happened by an id without a terminal. It is bounded by bytes
// and by time; the log itself is elsewhere and complete. Lines are as they were written: without secrets, redacted where that is asked.

const MAX_BYTES = 4 * 1024 * 1024;
const MAX_AGE_MS = 3_600_000;
/** A line that is longer is not kept: one of them must not push out all others. */
const MAX_LINE_LENGTH = 64 * 1024;
/** Lines are kept as bytes, in blocks: strings that live for seconds keep the garbage collector busy. */
const BLOCK_LENGTH = 64 * 1024;
/** A block is no longer than this, so that its lines are of one age, ms. */
const BLOCK_MS = 60_000;

export interface LogLines {
  /** Takes a line of JSON. */
  readonly add: (line: string) => void;
  /** The newest lines that name this id, or all, the newest first. */
  find(id: string | undefined, limit: number): string[];
  /** Since when lines are kept, ms; undefined where there is none. */
  since(): number | undefined;
}

interface Block {
  readonly since: number;
  /** When its last line came, ms. */
  until: number;
  readonly lines: string[];
  length: number;
}

export function createLogLines(clock: Pick<Clock, 'now'>): LogLines {
  const closed: { readonly since: number; readonly until: number; readonly bytes: Buffer }[] = [];
  let open: Block | undefined;
  let size = 0;

  function drop(now: number): void {
    if (open !== undefined && open.until <= now - MAX_AGE_MS) open = undefined;
    for (let [oldest] = closed; oldest !== undefined; [oldest] = closed) {
      if (size + BLOCK_LENGTH <= MAX_BYTES && oldest.until > now - MAX_AGE_MS) break;
      size -= oldest.bytes.length;
      closed.shift();
    }
  }

  function close({ since, until, lines }: Block): void {
    const bytes = Buffer.from(lines.join('\n'));
    closed.push({ since, until, bytes });
    size += bytes.length;
  }

  return {
    add(line) {
      if (line.length > MAX_LINE_LENGTH) return;
      const at = clock.now();
      if (open !== undefined && (open.length >= BLOCK_LENGTH || at - open.since >= BLOCK_MS)) {
        close(open);
        open = undefined;
        drop(at);
      }
      open ??= { since: at, until: at, lines: [], length: 0 };
      open.lines.push(line.trimEnd());
      open.length += line.length;
      open.until = at;
    },
    find(id, limit) {
      drop(clock.now());
      const found: string[] = [];
      for (let i = closed.length; i >= 0 && found.length < limit; i--) {
        const lines = i === closed.length ? (open?.lines ?? []) : String(closed[i]?.bytes).split('\n');
        for (const line of lines.toReversed()) {
          if (found.length < limit && (id === undefined || line.includes(id))) found.push(line);
        }
      }
      return found;
    },
    since: () => closed[0]?.since ?? open?.since,
  };
}

// systemd's journal takes the priority of each line from `<3>` and the like in front of it (sd-daemon(3)).

const PRIORITIES = { error: '<3>', warn: '<4>', info: '<6>', debug: '<7>' } as const;

/** Whether what is written to `fd` goes to the journal, which systemd names by its device and inode (JOURNAL_STREAM, systemd.exec(5)). */
export function isJournal(fd: number, stream: string | undefined): boolean {
  if (stream === undefined) return false;
  const { dev, ino } = fstatSync(fd);
  return stream === `${dev}:${ino}`;
}

/** What goes in front of a line of this level. */
export function priorityOf(level: string): string {
  return isLevel(level) ? PRIORITIES[level] : PRIORITIES.info;
}

function isLevel(level: string): level is keyof typeof PRIORITIES {
  return level in PRIORITIES;
}
