/** A mail server on loopback that takes everything and remembers only what a count needs, so that a long test stays small. */
import { once } from 'node:events';
import type { SMTPServerDataStream, SMTPServerSession } from 'smtp-server';
import { onTestFinished } from 'vitest';
import { PromptServer } from '../../src/dev/catching-mx.ts';
import { referenceIn } from './load.ts';

export interface Caught {
  /** Of the submission (load.ts). */
  readonly reference: string;
  readonly messageId: string;
  /** Of the envelope; empty for the null sender. */
  readonly sender: string;
  /** Names the connection on which it came. */
  readonly connection: string;
}

export interface Catcher {
  readonly port: number;
  /** In the order in which they came. */
  readonly mails: readonly Caught[];
  /** How many different submissions there are among them. */
  count(): number;
  /** Whether a mail with this reference has come. */
  has(reference: string): boolean;
  /** From now on mails are read to their end and get no answer (true), or are taken again (false). */
  hang(on: boolean): void;
  /** How many mails got no answer so far. */
  hung(): number;
  /** Connections that are open now. */
  connections(): number;
}

/** What is looked for stands near the top. */
const LOOKED_AT = 64 * 1024;

type Reply = (error?: Error | null) => void;

/** Starts on a free port of 127.0.0.1; ends with the test. */
export async function startCatcher(): Promise<Catcher> {
  const mails: Caught[] = [];
  const references = new Set<string>();
  let hanging = false;
  let hung = 0;
  const server = new PromptServer({
    name: 'mx.inbox.test',
    logger: false,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    closeTimeout: 1000,
    onData: take,
  });
  server.on('error', () => undefined); // a client that was killed
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const bound = server.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the mail server has no port');
  onTestFinished(async () => {
    const closed = new Promise<void>((resolve) => server.close(resolve));
    server.cut();
    await closed;
  });
  return {
    port: bound.port,
    mails,
    count: () => references.size,
    has: (reference) => references.has(reference),
    hang(on) {
      hanging = on;
    },
    hung: () => hung,
    connections: () => server.connections.size,
  };

  function take(stream: SMTPServerDataStream, session: SMTPServerSession, reply: Reply): void {
    const chunks: Buffer[] = [];
    let size = 0;
    stream.on('data', (chunk: Buffer) => {
      if (size < LOOKED_AT) chunks.push(chunk);
      size += chunk.length;
    });
    stream.on('end', () => {
      if (hanging) return void hung++;
      const text = Buffer.concat(chunks).toString('latin1');
      const reference = referenceIn(text) ?? 'none';
      const messageId = /^Message-ID: *(\S+)/im.exec(text)?.[1] ?? '';
      const { mailFrom } = session.envelope;
      const sender = mailFrom === false ? '' : mailFrom.address;
      mails.push({ reference, messageId, sender, connection: session.id });
      references.add(reference);
      reply();
    });
  }
}
