/**
 * `multipart/form-data` bodies: read no faster than they are stored, and not beyond the limits. A file that is too big or
 * not wanted is read past, because the visitor shall get the fields back; a body without end or measure is not.
 */
import type { IncomingMessage } from 'node:http';
import type { Upload } from '../forms/files.ts';
import { codeOf } from '../lib/errors.ts';
import { parameterOf } from './charset.ts';
import { ClientGone, bodyTooLarge } from './collect.ts';
import { refuse, type Refusal } from './errors.ts';
import { MultipartParser, type Fault } from './multipart-parser.ts';
import { PartCollector, type CollectorOptions, type Parts } from './multipart-parts.ts';
import { malformed } from './parsed.ts';

const LONGEST_BOUNDARY = 70;

export interface MultipartBody extends Parts {
  /** Empty where the body is refused: what had come of them is dropped. */
  readonly files: readonly Upload[];
}

/** Reads the body. Rejects with ClientGone, or with what the store said; nothing is left of it in either case. */
export async function readMultipart(request: IncomingMessage, options: CollectorOptions): Promise<MultipartBody> {
  const type = request.headers['content-type'] ?? '';
  const boundary = parameterOf(type, 'boundary') ?? '';
  // RFC 2046 §5.1.1: 1 to 70 characters.
  if (boundary === '' || boundary.length > LONGEST_BOUNDARY) {
    return { entries: [], chosen: [], files: [], refusal: malformed('The type of the body names no boundary.') };
  }
  const collector = new PartCollector(options);
  try {
    const early = await readParts(request, { collector, boundary, most: options.limits.body });
    const parts = collector.read(parameterOf(type, 'charset'));
    const refusal = early ?? parts.refusal;
    if (refusal === undefined) return { ...parts, files: collector.uploads() };
    await collector.abort();
    return { ...parts, files: [], refusal };
  } catch (error) {
    await collector.abort();
    throw error;
  }
}

interface Reading {
  readonly collector: PartCollector;
  readonly boundary: string;
  readonly most: number;
}

/** Resolves when all is read and written, or with what ended the reading early. */
async function readParts(
  request: IncomingMessage,
  { collector, boundary, most }: Reading,
): Promise<Refusal | undefined> {
  const parser = new MultipartParser(boundary, collector);
  let size = 0;
  for await (const chunk of chunksOf(request)) {
    size += chunk.length;
    if (size > most) return bodyTooLarge(most);
    const fault = parser.write(chunk);
    if (fault !== undefined) return refusalFor(fault);
    await collector.written;
    if (collector.hopeless) return collector.refusal;
  }
  const fault = parser.end();
  return fault && refusalFor(fault);
}

/** The body's chunks; leaving early leaves the connection alone, so that it can still be answered on. */
async function* chunksOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) if (chunk instanceof Buffer) yield chunk;
  } catch (error) {
    throw new ClientGone(codeOf(error) ?? 'gone', { cause: error });
  }
}

function refusalFor(fault: Fault): Refusal {
  switch (fault) {
    case 'long headers':
      return refuse('BODY_TOO_LARGE', { message: 'The headers of a part are too long.' });
    case 'transfer encoding':
      return malformed('A part has a Content-Transfer-Encoding; send it as it is.');
    case 'malformed':
      return malformed('The body is not multipart/form-data that can be read.');
  }
}
