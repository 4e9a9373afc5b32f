/** A body in memory, up to a limit. */
import type { IncomingMessage } from 'node:http';
import { refuse, type Refusal } from './errors.ts';
import { sizeWords } from './parsed.ts';

/** The client went away before its request was complete: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

export function bodyTooLarge(most: number): Refusal {
  return refuse('BODY_TOO_LARGE', { message: `The request is too large: at most ${sizeWords(most)}.` });
}

/** The whole body, or undefined once it is longer than `most` bytes. Rejects with ClientGone. */
export async function collect(request: IncomingMessage, most: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    // After the first of these nothing that the others do has an effect.
    function take(chunk: Buffer): void {
      size += chunk.length;
      if (size <= most) chunks.push(chunk);
      else resolve(undefined);
    }
    function end(): void {
      resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    }
    function gone(): void {
      // Every request closes in the end: an error, and its stack, is made only for one that was cut off.
      if (!request.complete) reject(new ClientGone('gone'));
    }
    request.on('data', take).on('end', end).on('close', gone).on('error', gone);
  });
}

/** Reads past the rest of a body that was refused, so that the client hears the answer; a flood is cut off. */
export function discardRest(request: IncomingMessage): void {
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > MOST_DISCARDED) request.socket.destroy();
  });
  request.on('error', () => undefined);
  request.resume();
}

const MOST_DISCARDED = 64 * 1024 * 1024;
