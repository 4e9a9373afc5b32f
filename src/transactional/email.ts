/** A mail that a program asks for, and what is kept of it until it is sent: one place says both shapes. */
import { z } from 'zod';
import type { Mailbox } from '../lib/addresses.ts';

export interface NewAttachment {
  readonly filename: string;
  /** `type/subtype`; by the file's name where it is not known. */
  readonly contentType?: string | undefined;
  readonly content: Buffer;
}

export interface Tag {
  readonly name: string;
  readonly value: string;
}

/** As it was asked for; every address has been read. */
export interface NewEmail {
  readonly from?: Mailbox | undefined;
  /** At least one. */
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  readonly bcc: readonly Mailbox[];
  readonly replyTo: readonly Mailbox[];
  /** Goes before the template's. */
  readonly subject?: string | undefined;
  readonly template?: string | undefined;
  /** Slug of the project that has the template. */
  readonly project?: string | undefined;
  /** The template's variables. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly text?: string | undefined;
  readonly html?: string | undefined;
  readonly attachments: readonly NewAttachment[];
  readonly headers: Readonly<Record<string, string>>;
  readonly tags: readonly Tag[];
  /** When it is to be sent, ms; at once where that is over. */
  readonly sendAt?: number | undefined;
  /** Adds a link by which the recipient ends all mail of the tenant. */
  readonly unsubscribe: boolean;
}

const mailbox = z.object({ name: z.string().optional(), address: z.string() });
const kept = z.object({
  from: mailbox,
  to: z.array(mailbox),
  cc: z.array(mailbox),
  bcc: z.array(mailbox),
  reply_to: z.array(mailbox),
  subject: z.string(),
  /** Null once what it said is kept no longer. */
  text: z.string().nullable(),
  html: z.string().optional(),
  headers: z.array(z.tuple([z.string(), z.string()])),
  attachments: z.array(z.object({ filename: z.string(), content_type: z.string(), size: z.int() })),
  tags: z.array(z.object({ name: z.string(), value: z.string() })),
  send_at: z.int().optional(),
  /** Of mail that came as it is to be sent (SMTP submission): where its bytes are (`inb_…`). */
  raw: z.string().optional(),
  /** The Message-ID that it came with. */
  message_id: z.string().optional(),
});

/** `source` of a message of the kind `transactional`: rendered already, so that a template that fails is told at once. */
export type KeptEmail = z.output<typeof kept>;

export function readEmail(json: string): KeptEmail {
  return kept.parse(JSON.parse(json));
}

/** The same without what the mail said: how long that is kept is the operator's to say. */
export function withoutWords(json: string): string {
  const { html: _, ...email } = readEmail(json);
  return JSON.stringify({ ...email, text: null } satisfies KeptEmail);
}

/** The Message-ID header: the same for every try, and after a restart. `id` is the message's. */
export function messageIdOf(id: string, domain: string): string {
  return `<${id.slice(id.indexOf('_') + 1)}@${domain}>`;
}
