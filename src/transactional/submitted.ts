/** Mail that a program submits by SMTP, finished but for its signature: the same rules, the same queue as for `/email/send`. */
import type { Principal } from '../accounts/principal.ts';
import { parseAddress, type Mailbox } from '../lib/addresses.ts';
import { enqueue, type Enqueued } from '../queue/enqueue.ts';
import { SANDBOX_DOMAIN } from '../queue/sandbox.ts';
import type { Store } from '../store/store.ts';
import type { KeptEmail } from './email.ts';
import { isSandbox, type Asker } from './send.ts';
import { sendingFault } from './sender.ts';

export interface SubmittedMail {
  /** Where its bytes are (`inb_…`). */
  readonly raw: string;
  /** What its header says. */
  readonly from: Mailbox;
  readonly subject: string;
  readonly messageId: string | undefined;
  /** Addresses in these fields, in lower case. */
  readonly to: ReadonlySet<string>;
  readonly cc: ReadonlySet<string>;
  /** Of the envelope. */
  readonly recipients: readonly string[];
}

export interface Submissions {
  /** In words why mail of the principal cannot be from this address, or nothing. */
  objectToSender(address: string, principal: Principal): Promise<string | undefined>;
  /** The same of a recipient. */
  objectToRecipient(address: string, principal: Principal): string | undefined;
  /** What sending it would commit, or the fault in words. Nothing has happened yet. */
  plan(mail: SubmittedMail, asker: Asker): Promise<Enqueued | { readonly fault: string }>;
}

export function createSubmissions(store: Store): Submissions {
  async function objectToSender(address: string, principal: Principal): Promise<string | undefined> {
    const domain = parseAddress(address)?.domain;
    if (domain === undefined) return 'The sender must be an address at a domain of this account.';
    return (await sendingFault(domain, principal, store))?.message;
  }

  return {
    objectToSender,
    objectToRecipient(address, { environment }) {
      return environment === 'live' && isSandbox({ address })
        ? `Addresses at ${SANDBOX_DOMAIN} are for test keys.`
        : undefined;
    },
    async plan(mail, { principal, snapshot, now }) {
      const { from, recipients } = mail;
      const fault = await objectToSender(from.address, principal);
      if (fault !== undefined) return { fault };
      return enqueue(
        {
          tenant: principal.tenant.id,
          kind: 'transactional',
          submission: null,
          domain: parseAddress(from.address)?.domain ?? '',
          source: keptOf(mail),
          subject: mail.subject,
          recipients,
          ttl: snapshot.server.delivery.expire.default,
          environment: principal.environment,
        },
        now,
      );
    },
  };
}

/** Whom its header does not name, it went to blindly. */
function keptOf({ raw, from, subject, messageId, to, cc, recipients }: SubmittedMail): KeptEmail {
  const lists = { to: [] as Mailbox[], cc: [] as Mailbox[], bcc: [] as Mailbox[] };
  for (const address of recipients) {
    const key = address.toLowerCase();
    lists[to.has(key) ? 'to' : cc.has(key) ? 'cc' : 'bcc'].push({ address });
  }
  return {
    from,
    ...lists,
    reply_to: [],
    subject,
    text: '',
    headers: [],
    attachments: [],
    tags: [],
    raw,
    ...(messageId !== undefined && { message_id: messageId }),
  };
}
