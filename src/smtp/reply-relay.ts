/** Takes answers to reply addresses, and passes them on under the form's name (mail/relay.ts). */
import { z } from 'zod';
import type { Limits } from '../accounts/rate-limits.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { fieldsOf, messageIdOf, readAuthor, splitHeader } from '../mail/header.ts';
import { isAutomatic } from '../mail/automatic.ts';
import { relayHeader } from '../mail/forward.ts';
import { replyAddress, type Conversation } from '../mail/own-addresses.ts';
import type { Source } from '../queue/transport.ts';
import { domainStatus } from '../store/domains.ts';
import { createEditedSource, type SourceParts } from './forward-source.ts';
import { enqueued, type Intake } from './accept.ts';

export interface ReplyRelayParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Pick<Limits, 'take'>;
  /** The conversation that the notification began; undefined where it is forgotten. */
  readonly conversationOf: (notification: string) => Promise<Conversation | undefined>;
  /** How long an answer is tried, ms. */
  readonly ttl: () => number;
}

const source = z.object({
  raw: z.string(),
  notification: z.string(),
  to: z.enum(['visitor', 'owner']),
  /** Of the sender, as it is shown. */
  name: z.string(),
  recipients: z.array(z.string()),
});

/** Two machines that answer each other without saying so end here. */
const MAX = { count: 30, windowMs: 3_600_000 };

export function createReplyRelay({ clock, log, limits, conversationOf, ttl }: ReplyRelayParts): Intake<'reply'> {
  return async (mail, { ticket, tenant, domain }) => {
    const conversation = await conversationOf(ticket.message);
    if (conversation?.domain !== domain || conversation.tenant !== tenant) {
      const reply = '550 5.1.1 this conversation has ended: the submission has been deleted';
      return { refusal: { reply, reason: 'conversation_over' } };
    }
    const { header } = await splitHeader(mail.pieces());
    const fields = fieldsOf(header);
    if (mail.sender === '' || isAutomatic(fields)) {
      log.info('reply.automatic_ignored', { ip: mail.ip, sender: mail.sender, submission: conversation.submission });
      return {};
    }
    const room = await limits.take(`reply:${conversation.submission}`, MAX);
    if (!room.allowed) {
      const reply = '451 4.7.1 too many replies in this conversation, try again later';
      return { refusal: { reply, reason: 'rate_limited' } };
    }
    const { submission, environment, name, visitor, owners } = conversation;
    const { message: notification, to } = ticket;
    const recipients = to === 'visitor' ? [visitor] : [...owners];
    const author = readAuthor(fields);
    const writer = author.kind === 'one' ? author.name : undefined;
    const shown = to === 'visitor' ? name : `${writer ?? visitor} via ${name}`;
    const data: z.output<typeof source> = { raw: mail.id, notification, to, name: shown, recipients };
    const message = { tenant, kind: 'reply', submission, domain, source: data, recipients, ttl: ttl() } as const;
    return enqueued({ ...message, environment }, clock.now());
  };
}

/** The source of messages of the kind `reply`. */
export function createReplySource({ store, signing }: SourceParts): Source {
  const edited = createEditedSource({
    store,
    signing,
    edit(header, message) {
      const { domain, created_at: date } = message;
      const { notification, to, name, recipients } = source.parse(JSON.parse(message.source));
      // Its answer goes the other way.
      const back = { message: notification, to: to === 'visitor' ? 'owner' : 'visitor' } as const;
      return relayHeader(header, {
        from: { name, address: replyAddress(back, domain, signing.secret) },
        to: recipients.map((address) => ({ address })),
        messageId: messageIdOf(message),
        date,
      });
    },
  });
  return {
    async prepare(message, kept) {
      const { domain, tenant } = message;
      if ((await domainStatus(store, tenant, domain)) === 'failed') {
        throw new Error(
          `the DNS records of ${domain} have been wrong for too long: its mail waits until they are correct`,
        );
      }
      return edited.prepare(message, kept);
    },
  };
}
