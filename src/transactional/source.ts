/** Where the bytes of transactional mail come from: composed and signed when it is first tried. */
import { z } from 'zod';
import { composeMail, type Attachment, type Mail, signMail } from '../mail/compose.ts';
import type { SigningContext } from '../mail/dkim.ts';
import { messageIdOf } from '../mail/header.ts';
import type { Source } from '../queue/transport.ts';
import { readAttachment, bodyChunk } from '../store/messages.ts';
import { domainStatus } from '../store/domains.ts';
import type { Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';
import { readEmail, type KeptEmail } from './email.ts';
import { rawChunks } from '../store/inbound.ts';

export interface TransactionalSourceOptions {
  readonly store: Store;
  readonly signing: SigningContext;
  /** Of mail that came as it is to be sent. */
  readonly submitted: Source;
}

/** The source of messages of the kind `transactional`. */
export function createTransactionalSource({ store, signing, submitted }: TransactionalSourceOptions): Source {
  async function attachmentsOf(id: string, email: KeptEmail): Promise<Attachment[]> {
    return Promise.all(
      email.attachments.map(async ({ filename, content_type: contentType, size }, position) => {
        const content = await readAttachment(store, id, position);
        // Where another try has just stored the finished mail, that is read the next time.
        if (content.length !== size) throw new Error(`attachment ${position} of ${id} is not there`);
        return { filename, contentType, content };
      }),
    );
  }

  return {
    async prepare(message, kept) {
      const { id, domain, tenant } = message;
      if ((await domainStatus(store, tenant, domain)) === 'failed') {
        throw new Error(
          `the DNS records of ${domain} have been wrong for too long: its mail waits until they are correct`,
        );
      }
      const email = readEmail(message.source);
      if (email.raw !== undefined) return submitted.prepare(message, kept);
      const mail = mailOf(message, email, await attachmentsOf(id, email));
      return signMail({ id, domain, tenant, mail, bytes: await composeMail(mail) }, signing);
    },
  };
}

function mailOf({ id, domain, created_at: date }: MessageRow, email: KeptEmail, attachments: Attachment[]): Mail {
  const { reply_to: replyTo, send_at: sendAt = 0, from, to, cc, subject, text, html, headers } = email;
  return {
    from,
    to,
    cc,
    replyTo,
    subject,
    text: text ?? undefined,
    html,
    headers,
    attachments,
    date: Math.max(date, sendAt),
    messageId: messageIdOf({ id, domain }),
  };
}

const source = z.object({ raw: z.string().optional(), inbound: z.string().optional() });

/** The message that came in (`inb_…`) which one with this source is made of; undefined where none is. */
export function rawIdOf(json: string): string | undefined {
  const { raw, inbound } = source.parse(JSON.parse(json));
  return raw ?? inbound;
}

/** All of them; undefined where some are not kept. */
export async function finishedBytes(
  store: Store,
  { id, body, size, source: json }: MessageRow,
): Promise<Buffer | undefined> {
  if (body !== 'stored' && body !== 'prefixed') return undefined;
  const kept = await storedBytes(store, id);
  if (body === 'stored') return kept;
  const raw = rawIdOf(json);
  const came: Uint8Array[] = [];
  if (raw !== undefined) for await (const piece of rawChunks(store, raw)) came.push(piece);
  const all = Buffer.concat(came);
  const from = all.length - (size - kept.length);
  // The bytes that came in may be gone.
  return from < 0 || raw === undefined ? undefined : Buffer.concat([kept, all.subarray(from)]);
}

async function storedBytes(store: Store, id: string): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (;;) {
    const piece = await bodyChunk(store, id, pieces.length);
    if (piece === undefined) return Buffer.concat(pieces);
    pieces.push(piece);
  }
}
