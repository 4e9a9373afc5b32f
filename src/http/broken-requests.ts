/** Requests that are no HTTP, or never end: answered in the shape of all errors as far as anybody still listens. */
import { STATUS_CODES, type Server } from 'node:http';
import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { clientBucket, type Limits, type Verdict } from '../access/limits.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { codeOf, errorFields } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { refusedA } from './answer.ts';
import { LOCAL } from './client-address.ts';
import { refuse, type Refusal } from './errors.ts';

export interface BrokenParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Pick<Limits, 'take'>;
  readonly snapshot: () => Snapshot;
}

/** Answers what Node's parser gives up on. */
export function answerBrokenRequests(server: Server, { clock, log, limits, snapshot }: BrokenParts): void {
  const responses = new WeakMap<object, ServerResponse>();
  server.on('request', (_, response) => {
    if (response.socket !== null) responses.set(response.socket, response);
  });
  server.on('clientError', (error, socket) => {
    const refusal = refusalFor(codeOf(error));
    // A response that has begun cannot be taken back.
    if (refusal === undefined || !socket.writable || begun(responses.get(socket))) return void socket.destroy();
    void answer(refusal, socket);
  });

  async function answer(refusal: Refusal, socket: Duplex): Promise<void> {
    const address = socket instanceof Socket ? socket.remoteAddress : undefined;
    try {
      const limit = await limits.take(`address:${clientBucket(address ?? LOCAL)}`, {
        count: snapshot().server.limits.requests_per_minute_per_address,
        windowMs: 60_000,
      });
      socket.end(rawAnswer(refusal, limit, newId('req', clock.now())));
    } catch (error) {
      log.error('http.failed', errorFields(error));
      socket.destroy();
    }
  }
}

function begun(response: ServerResponse | undefined): boolean {
  return response !== undefined && response.headersSent && !response.writableFinished;
}

function refusalFor(code: string | undefined): Refusal | undefined {
  if (code === 'HPE_HEADER_OVERFLOW') return refuse('HEADERS_TOO_LARGE');
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return refuse('REQUEST_TIMEOUT');
  return code?.startsWith('HPE_') === true ? refuse('REQUEST_MALFORMED') : undefined;
}

function rawAnswer(refusal: Refusal, { limit, remaining, reset }: Verdict, id: string): string {
  const { status, type, body } = refusedA(refusal, id);
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    `X-Request-Id: ${id}`,
    `X-RateLimit-Limit: ${limit}`,
    `X-RateLimit-Remaining: ${remaining}`,
    `X-RateLimit-Reset: ${reset}`,
    '',
    body,
  ].join('\r\n');
}
