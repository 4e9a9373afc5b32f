/** Downloads: to a file, or to standard output. */
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { codeOf, messageOf } from '../lib/errors.ts';
import { DaemonUnreachable } from './client.ts';
import { CommandFailed } from './run.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';
import { sizeText } from './words.ts';

const PROGRESS_BYTES = 64 * 1024;

/**
 * Writes what the daemon sends to the file `output`, else to standard output; where it is a file, says how far it is. Throws
 * CommandFailed where that cannot be written, DaemonUnreachable where the daemon went away in the middle.
 */
export async function save(terminal: Terminal, source: Readable, output: string | undefined): Promise<void> {
  if (output === undefined)
    return pump(source, () => pipeline(source, shownOn(terminal), terminal.sink, { end: false }));
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
    throw new CommandFailed(`cannot write ${output}: ${messageOf(error)}`, { cause: error });
  });
  await pump(source, () => pipeline(source, counter, file.createWriteStream()));
  terminal.progress('');
  terminal.complain(`${sizeText(bytes)} written to ${output}\n`);
}

/** On a terminal nothing that it would act on, and a whole last line; elsewhere every byte as it came. */
function shownOn({ width }: Terminal): Transform {
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

async function pump(source: Readable, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const words = `the download is not whole: ${messageOf(error)}`;
    const isOurs = source.errored === null || codeOf(source.errored) !== 'ECONNRESET';
    throw isOurs ? new CommandFailed(words, { cause: error }) : new DaemonUnreachable(words, { cause: error });
  }
}
