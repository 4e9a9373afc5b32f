/** The maildir in which a mail server of Debian's leaves what it took. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from './child.ts';

/** A mail as the server's delivery agent left it. */
export interface StoredMail {
  readonly recipient: string;
  /** The envelope sender; empty for a bounce. */
  readonly sender: string;
  /** What came over the wire, below the header lines that the server put on top (Received and those of delivery). */
  readonly raw: Buffer;
}

export interface Maildir {
  /** What has been delivered so far, in no order. */
  messages(): Promise<StoredMail[]>;
  /** Waits until it holds this many. */
  untilMessages(count: number, ms?: number): Promise<StoredMail[]>;
  /** How many it holds; cheap. */
  count(): Promise<number>;
}

export function openMaildir(folder: string): Maildir {
  async function names(): Promise<string[]> {
    return readdir(join(folder, 'new')).catch(() => []); // made with the first mail
  }

  async function count(): Promise<number> {
    return (await names()).length;
  }

  async function messages(): Promise<StoredMail[]> {
    return Promise.all((await names()).map(async (name) => parseStored(await readFile(join(folder, 'new', name)))));
  }

  return {
    messages,
    count,
    async untilMessages(wanted, ms) {
      await until(`${wanted} messages in the maildir`, async () => (await count()) >= wanted, ms);
      return messages();
    },
  };
}

function parseStored(file: Buffer): StoredMail {
  const lines = file.toString('latin1').split('\n');
  const recipient =
    fieldOf(lines, 'Delivered-To') ?? fieldOf(lines, 'X-Original-To') ?? fieldOf(lines, 'Envelope-To') ?? '';
  const sender = (fieldOf(lines, 'Return-Path') ?? '').replace(/^<|>$/g, '');
  // The server's own header lines end with the Received line of the last hop, this server, and that line's continuations.
  let at = lines.findIndex((line) => line.startsWith('Received:'));
  do at++;
  while (/^[ \t]/.test(lines[at] ?? ''));
  return { recipient, sender, raw: Buffer.from(lines.slice(at).join('\r\n'), 'latin1') };
}

function fieldOf(lines: readonly string[], name: string): string | undefined {
  const prefix = `${name}: `.toLowerCase();
  return lines
    .slice(0, 6)
    .find((text) => text.toLowerCase().startsWith(prefix))
    ?.slice(prefix.length);
}
