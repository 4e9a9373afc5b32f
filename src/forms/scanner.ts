/**
 * An optional virus scanner: clamd of ClamAV, over its socket (clamd(8), INSTREAM). A scanner that is slow, gone or wrong never
 * costs a lead: its files count as not scanned, and the mail says so. The time for all files of a submission is bounded, also
 * while others are scanned, because its visitor waits.
 */
import { addAbortSignal, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { parseListenAddress } from '../lib/sockets.ts';

export interface ScannedFile {
  readonly id: string;
  readonly filename: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** `failed`: nobody knows. */
export type ScanResult = 'passed' | 'infected' | 'failed';

/** Scans the files of one submission, one after the other. Never rejects. */
export type Scanner = (files: readonly ScannedFile[]) => Promise<ScanResult[]>;

export interface ScannerOptions {
  /** `uploads.clamd` of server.yml; null: nothing is scanned. */
  readonly clamd: () => string | null;
  readonly log: Log;
  readonly open?: (place: NetConnectOpts) => Socket;
  /** For all files of a submission. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 20_000;
/** Conversations at once: clamd answers ten, and each has a piece of a file in memory. */
const MAX_CONNECTIONS = 8;
const MAX_REPLY_LENGTH = 4096;

/** The scanner that server.yml names. */
export function createScanner({ clamd, log, open = connect, timeoutMs = TIMEOUT_MS }: ScannerOptions): Scanner {
  const enter = createGate(MAX_CONNECTIONS);

  async function scan(place: string, { id, filename, content }: ScannedFile, signal: AbortSignal): Promise<ScanResult> {
    try {
      const leave = await enter(signal);
      try {
        const reply = await converse(open(placeOf(place)), content, signal);
        if (reply === 'stream: OK') return 'passed';
        const virus = /^stream: (.*) FOUND$/.exec(reply)?.[1];
        if (virus === undefined) throw new Error(`clamd replied: ${reply.slice(0, 200)}`);
        log.info('upload.infected', { file: id, filename, virus });
        return 'infected';
      } finally {
        leave();
      }
    } catch (error) {
      const reason = signal.aborted ? `clamd has not answered for ${timeoutMs / 1000} s` : messageOf(error);
      log.warn('upload.not_scanned', { file: id, filename, error: reason });
      return 'failed';
    }
  }

  return async (files) => {
    const place = clamd();
    if (place === null) return files.map(() => 'passed');
    const signal = AbortSignal.timeout(timeoutMs);
    const results: ScanResult[] = [];
    for (const file of files) results.push(await scan(place, file, signal));
    return results;
  };
}

/** `unix:/run/clamav/clamd.ctl` or `127.0.0.1:3310`. */
function placeOf(text: string): NetConnectOpts {
  return text.startsWith('unix:') ? { path: text.slice('unix:'.length) } : parseListenAddress(text);
}

/** Sends the content and resolves with the reply, without the NUL at its end. Closes the socket. */
async function converse(socket: Socket, content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<string> {
  try {
    addAbortSignal(signal, socket);
    const sent = pipeline(Readable.from(framesOf(content), { objectMode: false }), socket, { end: false });
    const [reply] = await Promise.all([replyFrom(socket), sent]);
    return reply;
  } finally {
    socket.destroy();
  }
}

/** `z`: what follows ends with NUL. Each piece with its length before it, then an empty one. */
async function* framesOf(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield Buffer.from('zINSTREAM\0');
  for await (const piece of content) {
    if (piece.length === 0) continue;
    yield lengthOf(piece.length);
    yield piece;
  }
  yield lengthOf(0);
}

function lengthOf(bytes: number): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes);
  return length;
}

async function replyFrom(socket: Socket): Promise<string> {
  let reply = '';
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    reply += String(chunk);
    const end = reply.indexOf('\0');
    if (end !== -1) return reply.slice(0, end);
    if (reply.length > MAX_REPLY_LENGTH) throw new Error('the reply of clamd is too long');
  }
  throw new Error('clamd closed the connection without a reply');
}

/** Lets `most` in at once; the others wait for their turn until the signal aborts. Resolves with what ends a turn. */
function createGate(most: number): (signal: AbortSignal) => Promise<() => void> {
  const waiting = new Set<() => void>();
  let free = most;

  function leave(): void {
    const [next] = waiting;
    if (next === undefined) free++;
    else next();
  }

  return async (signal) => {
    signal.throwIfAborted();
    if (free > 0) {
      free--;
      return leave;
    }
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    function give(): void {
      waiting.delete(give);
      signal.removeEventListener('abort', abandon);
      resolve(leave);
    }
    function abandon(): void {
      waiting.delete(give);
      reject(new Error('too many files are being scanned'));
    }
    waiting.add(give);
    signal.addEventListener('abort', abandon, { once: true });
    return promise;
  };
}
