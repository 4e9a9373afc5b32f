/** Mail of the server itself to somebody it serves: a link to confirm, an alert. From `postern@<server.hostname>`. */
import { z } from 'zod';
import type { ServerConfig } from '../config/schema.ts';
import { messageIdOf } from '../mail/header.ts';
import { composeMail, type Mail, signMail } from '../mail/compose.ts';
import type { SigningContext } from '../mail/dkim.ts';
import { alertsSince, forgetAlerts, noteAlert } from '../store/alerts.ts';
import type { Statement } from '../store/statement.ts';
import { writeIfMet, type Store } from '../store/store.ts';
import { OPERATOR } from '../store/tenants.ts';
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

const DAY = 86_400_000;
const TTL = 2 * DAY;

/** The statements that enqueue it, for the unit of what it tells of. After the commit, wake the worker. */
export function systemMail(
  { tenant, to, subject, text, html }: SystemMail,
  hostname: string,
  now: number,
): Statement[] {
  const content: z.input<typeof source> = { to, subject, text, html };
  return enqueue(
    { tenant, kind: 'system', submission: null, domain: hostname, source: content, recipients: [to], ttl: TTL },
    now,
  ).unit;
}

export interface OperatorAlert {
  /** The cause, the same each time. */
  readonly name: string;
  readonly subject: string;
  /** What is the matter, and what to do. */
  readonly text: string;
  /** The next mail about this cause comes after so many days. */
  readonly days: 1 | 7;
}

/**
 * Mails the operator about a cause, in a unit of its own. Answers whether it did: not where any daemon mailed about it within its
 * days, whatever restarted between. Then wake the worker. Rejects where the store cannot be used.
 */
export async function alertOperator(
  store: Store,
  { name, subject, text, days }: OperatorAlert,
  { hostname, operator: to, now }: Pick<ServerConfig['server'], 'hostname' | 'operator'> & { readonly now: number },
): Promise<boolean> {
  const since = now - days * DAY;
  // While it lasts, this is asked again and again: only the first time costs a write.
  if ((await alertsSince(store, since)).has(name)) return false;
  const ending = `You get this alert at most once ${days === 1 ? 'a day' : 'a week'} while the problem lasts.`;
  const mail = systemMail({ tenant: OPERATOR, to, subject, text: `${text}\n\n${ending}\n` }, hostname, now);
  const forgotten = forgetAlerts({ before: now - 30 * DAY });
  // Another daemon may have been faster.
  return (await writeIfMet(store, [noteAlert({ name, now, since }, 1), forgotten, ...mail])) !== undefined;
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
