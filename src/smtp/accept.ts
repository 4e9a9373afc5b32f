/**
 * The policy of port 25: whom mail is accepted for, and what becomes of a whole message: it is authenticated, and committed
 * with all that follows from it in one unit, many of which share a sync. 250 is said after that commit.
 */
import type { Consent } from '../accounts/consent.ts';
import type { ServerConfig } from '../config/schema.ts';
import { mailauthResolver, type Resolver } from '../dns/resolver.ts';
import { Budget } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { createBufferCollector } from '../lib/gc.ts';
import { authorRefusal, dmarcRefusal, type Refusal, writeAuthResults } from '../mail/auth-results.ts';
import { authenticate, createMemory } from '../mail/authenticate.ts';
import { receivedLine } from '../mail/header.ts';
import { enqueue, type NewMessage } from '../queue/enqueue.ts';
import type { FreeSpace } from '../store/sqlite.ts';
import { noteDue } from '../store/destinations.ts';
import type { InboundRow } from '../store/tables.ts';
import { insertInbound, RAW_CHUNK_BYTES } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import type { ForwardSource } from './forward-source.ts';
import {
  createRecorder,
  DISK_FULL,
  logReply,
  type Chunks,
  type InboundMessage,
  type ReceiveParts,
  type RecorderParts,
} from './receive.ts';
import { decideServed, type Accepted, type Directory } from './recipients.ts';
import type { SmtpPolicy } from './session.ts';

export interface AuthenticationOutcome {
  /** Header lines that say what was found, each with its CRLF. */
  readonly headers: string;
  /** For whoever forwards it or answers its sender. */
  readonly verdicts: string;
  /** Why it is not accepted. */
  readonly refusal?: Refusal | undefined;
}

/** Finds out who really sent it. Never rejects for what the message or DNS says. */
export type MailAuthenticator = (mail: InboundMessage) => Promise<AuthenticationOutcome>;

/** What becomes of the message for one recipient. */
export interface IntakeResult {
  /** For the unit that takes the message: all of it is committed with 250, or nothing. */
  readonly rows?: readonly Statement[];
  /** Destinations that are then due, as `enqueue` answers them. */
  readonly dues?: readonly { readonly name: string; readonly due: number }[];
  /** The messages (`msg_…`) that read the chunks of this one until they are sent. */
  readonly messages?: readonly string[];
  /** Its own bytes are read later. */
  readonly keepsBytes?: boolean;
  /** Why it is not accepted after all, for anybody. */
  readonly refusal?: Refusal;
}

/** Takes the message for one recipient of its kind. Where it rejects the client hears 451, and keeps the mail. */
export type Intake<Kind extends Accepted['kind']> = (
  mail: InboundMessage,
  recipient: Extract<Accepted, { readonly kind: Kind }>,
) => Promise<IntakeResult>;

export interface SmtpPolicyParts extends RecorderParts {
  /** As of now. */
  readonly directory: () => Directory;
  readonly freeSpace: FreeSpace;
  readonly authenticate: MailAuthenticator;
  readonly takeBounce: Intake<'bounce'>;
  readonly takeReturned: Intake<'srs'>;
  readonly takeReply: Intake<'reply'>;
  readonly takeReport: Intake<'report'>;
  /** Asks the targets of a tenant to agree to its mail, where they have to. Never rejects. */
  readonly ask: Consent['ask'];
  /** There is mail to send. */
  readonly wake: () => void;
}

export function createSmtpPolicy(parts: SmtpPolicyParts): SmtpPolicy {
  const { directory, store } = parts;
  return {
    ...policyBasis(parts, () => directory().snapshot.server.limits),
    name: 'inbound',
    record: createRecorder(parts, 'inbound'),
    decide: (address, sender) => decideServed({ address, sender }, directory(), store),
    accept: createAccept({ ...parts, authenticate: limitConcurrency(parts.authenticate) }),
    maxRecipients: () => directory().snapshot.server.limits.smtp.recipients,
  };
}

/** What is the same for inbound mail and for submission. */
export function policyBasis(
  { store, clock, log, freeSpace }: Pick<SmtpPolicyParts, 'store' | 'clock' | 'log' | 'freeSpace'>,
  limits: () => ServerConfig['limits'],
): Pick<SmtpPolicy, 'store' | 'clock' | 'log' | 'usedBuffers' | 'limits' | 'outage'> {
  return {
    store,
    clock,
    log,
    usedBuffers: createBufferCollector(),
    limits: () => ({ message: limits().message, hops: limits().smtp.hops }),
    outage: () => (freeSpace.below(limits().free_disk) ? DISK_FULL : undefined),
  };
}

function createAccept(parts: SmtpPolicyParts): ReceiveParts['accept'] {
  const { store, clock, log, directory } = parts;

  async function take(mail: InboundMessage, recipient: Accepted): Promise<IntakeResult> {
    switch (recipient.kind) {
      case 'forward': {
        const { tenant, domain, targets: recipients, original } = recipient;
        const { default: ttl } = directory().snapshot.server.delivery.expire;
        const about = { tenant, domain, recipients, ttl, subject: mail.subject };
        return enqueueForward({ inbound: mail.id, original, sender: mail.sender }, about, clock.now());
      }
      case 'discard':
        return {};
      case 'bounce':
        return parts.takeBounce(mail, recipient);
      case 'srs':
        return parts.takeReturned(mail, recipient);
      case 'reply':
        return parts.takeReply(mail, recipient);
      case 'report':
        return parts.takeReport(mail, recipient);
    }
  }

  function logged(mail: InboundMessage, reply: string): Statement[] {
    const { ip, helo, sender } = mail;
    return mail.recipients.flatMap(({ kind: reason, original: recipient, tenant, domain }) => {
      const inbound = reason === 'discard' ? undefined : mail.id;
      return logReply({ ip, helo, sender, recipient, tenant, domain, reply, reason, inbound }, mail.at);
    });
  }

  async function discard(mail: InboundMessage, chunks: Chunks): Promise<string> {
    const { ip, sender, size } = mail;
    const reply = '250 2.0.0 accepted';
    await store.write([...chunks.dropped(), ...logged(mail, reply)]);
    log.info('inbound.discarded', { ip, sender, size });
    return reply;
  }

  async function commit(mail: InboundMessage, chunks: Chunks): Promise<string | Refusal> {
    const { id, ip, sender, size } = mail;
    const authentication = await parts.authenticate(mail);
    if (authentication.refusal !== undefined) return authentication.refusal;
    const taken = await Promise.all(mail.recipients.map((recipient) => take(mail, recipient)));
    const refusal = taken.find((each) => each.refusal !== undefined)?.refusal;
    if (refusal !== undefined) return refusal;
    const messages = taken.flatMap((each) => each.messages ?? []);
    const isKept = messages.length > 0 || taken.some(({ keepsBytes }) => keepsBytes === true);
    const reply = `250 2.0.0 accepted as ${id}`;
    const { hostname } = directory().snapshot.server.server;
    const trace = receivedLine({ ...mail, hostname }) + authentication.headers;
    await store.write([
      insertInbound(inboundRow(mail, { trace, verdicts: authentication.verdicts, messages })),
      ...(isKept ? chunks.last() : chunks.dropped()),
      ...taken.flatMap(({ rows = [] }) => rows),
      ...logged(mail, reply),
      ...duesOf(taken),
    ]);
    log.info('inbound.accepted', { inbound: id, ip, sender, size });
    parts.wake();
    for (const recipient of mail.recipients) {
      if (recipient.kind !== 'forward') continue;
      void parts.ask({ tenant: recipient.tenant, addresses: recipient.targets });
    }
    return reply;
  }

  return async (mail, chunks) => {
    const isDiscarded = mail.recipients.every(({ kind }) => kind === 'discard');
    const done = await (isDiscarded ? discard(mail, chunks) : commit(mail, chunks));
    if (typeof done === 'string' && parts.counters !== undefined)
      parts.counters.recipients.accepted += mail.recipients.length;
    return done;
  };
}

/** What came in goes on. */
export function enqueueForward(
  source: ForwardSource,
  about: Pick<NewMessage, 'tenant' | 'domain' | 'recipients' | 'ttl' | 'subject'>,
  now: number,
): IntakeResult {
  return enqueued({ ...about, kind: 'forward', submission: null, source }, now);
}

/** A message that reads the chunks of the one that causes it. */
export function enqueued(message: NewMessage, now: number): IntakeResult {
  const { id, rows, dues } = enqueue(message, now);
  return { rows, dues, messages: [id] };
}

/** The row of a message that is accepted. */
export function inboundRow(
  { id, sender, recipients: accepted, ip, helo, tls, size, encoding, at }: InboundMessage,
  { messages, ...found }: Pick<InboundRow, 'trace' | 'verdicts'> & { readonly messages: readonly string[] },
): InboundRow {
  const recipients = JSON.stringify(accepted.map(({ original }) => original));
  const mail = { id, sender, recipients, ip, helo, tls, size, encoding, created_at: at };
  return { ...mail, ...found, messages: JSON.stringify(messages) };
}

/** Rows that many messages share, in one order and last (queue/enqueue). */
function duesOf(taken: readonly IntakeResult[]): Statement[] {
  const dues = new Map<string, number>();
  for (const { name, due } of taken.flatMap((each) => each.dues ?? []))
    dues.set(name, Math.min(due, dues.get(name) ?? Infinity));
  return [...dues].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, due]) => noteDue({ name, due }));
}

/** DNS has this long to say who a message is from, ms; RFC 5321 has clients wait ten minutes for the reply. */
const AUTHENTICATION_MS = 10_000;

/** Asks DNS who the message is from, and what its author's domain wants of mail that is not. */
export function createAuthenticator({
  config,
  clock,
  resolver,
}: {
  readonly config: () => ServerConfig;
  readonly clock: Clock;
  readonly resolver: Resolver;
}): MailAuthenticator {
  const ask = mailauthResolver(resolver);
  const memory = createMemory();
  return async (mail) => {
    const { ip, helo, sender, isOwn } = mail;
    const { server, inbound } = config();
    const { verdicts, headers, author } = await authenticate(mail.pieces(), {
      ip,
      helo,
      sender,
      isOwn,
      mta: server.hostname,
      trusted: inbound.arc.trusted,
      ask,
      clock,
      timeoutMs: AUTHENTICATION_MS,
      memory,
    });
    const isReturned = sender === '' && mail.recipients.every(({ kind }) => kind === 'bounce' || kind === 'srs');
    const refusal = isOwn
      ? undefined
      : (authorRefusal(author, { isReturned }) ?? dmarcRefusal(verdicts, inbound.dmarc));
    return { headers, verdicts: writeAuthResults(verdicts), refusal };
  };
}

/**
 * Large messages are read back from the store to be authenticated: so many at a time, so that memory stays bounded. Enough
 * that DNS servers which take their time hold up nobody for long.
 */
const MAX_AT_ONCE = 16;

/** At most MAX_AT_ONCE messages at a time; one of a single chunk never waits. */
export function limitConcurrency(authenticate: MailAuthenticator): MailAuthenticator {
  const turns = new Budget(MAX_AT_ONCE);
  return async (mail) => {
    if (mail.size <= RAW_CHUNK_BYTES) return authenticate(mail);
    await turns.take(1);
    return authenticate(mail).finally(() => turns.give(1));
  };
}
