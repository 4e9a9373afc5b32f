/** Mail of the server itself to somebody it serves: a link to confirm, an alert. From `postern@<server.hostname>`. */
import { z } from 'zod';
import { messageIdOf } from '../mail/header.ts';
import { composeMail, type Mail, signMail } from '../mail/compose.ts';
import type { SigningContext } from '../mail/dkim.ts';
import type { Statement } from '../store/statement.ts';
import { enqueue } from './enqueue.ts';
import type { Source } from './transport.ts';

const source = z.object({ to: z.string(), subject: z.string(), text: z.string(), html: z.string().optional() });

export interface SystemMail {
  readonly tenant: string;
  /** One address. */
  readonly to: string;
  readonly subject: string;
  /** Plain text, lines of any length. */
  readonly text: string;
  /** The same in HTML. */
  readonly html?: string | undefined;
}

const TTL = 2 * 86_400_000;

/** The statements that enqueue it, for the unit of what it tells of. After the commit, wake the worker. */
export function systemMail(
  { tenant, to, subject, text, html }: SystemMail,
  hostname: string,
  now: number,
): Statement[] {
  const letter: z.input<typeof source> = { to, subject, text, html };
  return enqueue(
    { tenant, kind: 'system', submission: null, domain: hostname, source: letter, recipients: [to], ttl: TTL },
    now,
  ).unit;
}

/** `messages.source` of the kind `system` without what it says. */
export function withoutText(json: string): string {
  return JSON.stringify({ ...source.parse(JSON.parse(json)), text: '', html: undefined });
}

/** The source of messages of the kind `system`. */
export function createSystemSource(signing: SigningContext): Source {
  return {
    async prepare({ id, domain, tenant, source: json, created_at: date }) {
      const { to, subject, text, html } = source.parse(JSON.parse(json));
      const mail: Mail = {
        from: { name: 'Postern', address: `postern@${domain}` },
        to: [{ address: to }],
        subject,
        text,
        html,
        date,
        messageId: messageIdOf({ id, domain }),
        headers: [['Auto-Submitted', 'auto-generated']],
      };
      return signMail({ id, domain, tenant, mail, bytes: await composeMail(mail) }, signing);
    },
  };
}
