/**
 * Answers that are files to be saved. Nothing in them is ever shown or run by a browser, whoever wrote them: they are
 * attachments of a declared type, and a sandbox where a browser opens one all the same.
 */
import type { Answer } from './answer.ts';

export interface Download {
  readonly type: Answer['type'];
  /** Any text. */
  readonly filename: string;
  /** Bytes, where that is known. */
  readonly size?: number;
  readonly stream: AsyncIterable<string | Uint8Array>;
}

/** The file as it goes out piece by piece. */
export function download({ type, filename, size, stream }: Download): Answer<never> {
  return {
    status: 200,
    type,
    body: '',
    stream: size === undefined ? stream : whole(stream, size),
    headers: {
      'Content-Disposition': disposition(filename),
      'Content-Security-Policy': "default-src 'none'; sandbox",
      ...(size === undefined ? {} : { 'Content-Length': String(size) }),
    },
  };
}

/** Breaks off where less comes than was announced, so that nobody takes a part for the whole. */
async function* whole(stream: Download['stream'], size: number): AsyncGenerator<string | Uint8Array> {
  let left = size;
  for await (const piece of stream) {
    left -= Buffer.byteLength(piece);
    yield piece;
  }
  if (left !== 0) throw new Error('the file was removed while it was downloaded');
}

/** RFC 6266: the name in ASCII for old clients, and as it is (RFC 8187). */
function disposition(filename: string): string {
  const name = filename.toWellFormed() === '' ? 'file' : filename.toWellFormed();
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const exact = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return plain === name
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${exact}`;
}
