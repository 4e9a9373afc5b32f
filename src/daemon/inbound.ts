/** Inbound SMTP, composed: what the daemon starts where its roles say so. */
import { createSecretKey, randomBytes } from 'node:crypto';
import type { Consent } from '../accounts/consent.ts';
import type { Domains } from '../domains/domains.ts';
import type { Limits } from '../accounts/rate-limits.ts';
import type { RevisionOf } from '../accounts/projects.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { mailauthResolver } from '../dns/mailauth.ts';
import type { Resolver } from '../dns/resolver.ts';
import { createConversations } from '../forms/relay.ts';
import type { CertificateKeeper } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { parseListenAddress, type Bind, type ListenAddress } from '../lib/sockets.ts';
import type { Log } from '../lib/log.ts';
import { authenticate } from '../mail/authenticate.ts';
import { openReturnPath } from '../mail/return-path.ts';
import { createMemory } from '../mail/checks.ts';
import { receivedLine } from '../mail/received.ts';
import { openReplyAddress } from '../mail/relay.ts';
import { openSrs } from '../mail/srs.ts';
import { authorRefusal, dmarcRefusal, writeAuthResults } from '../mail/auth-results.ts';
import type { LoopbackAddress } from '../smtp-client/route.ts';
import { createBounceReading } from '../smtp/bounce-reading.ts';
import { createBounces } from '../smtp/bounces.ts';
import { createSmtpPolicy, type MailAuthenticator } from '../smtp/accept.ts';
import type { SmtpPolicy } from '../smtp/session.ts';
import { createListener } from '../smtp/listener.ts';
import type { Directory } from '../smtp/recipients.ts';
import { createReportReader } from '../smtp/report-reader.ts';
import { createReplyRelay } from '../smtp/reply-relay.ts';
import { openSrsKeys, type SrsKeys } from '../smtp/srs-keys.ts';
import { sweepInbound } from '../smtp/retention.ts';
import type { SmtpCounters } from '../smtp/record.ts';
import type { FreeSpace } from '../store/free-space.ts';
import { obtainSecret } from '../store/secrets.ts';
import type { Store } from '../store/store.ts';

export interface InboundParts {
  /** As it was at the start. */
  readonly server: ServerConfig;
  readonly snapshot: () => Snapshot;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Resolver;
  readonly domains: Pick<Domains, 'status'>;
  readonly consent: Pick<Consent, 'ask'>;
  readonly freeSpace: FreeSpace;
  readonly limits: Pick<Limits, 'take'>;
  readonly revisionOf: RevisionOf;
  /** STARTTLS is not offered without one. */
  readonly certificate: CertificateKeeper | undefined;
  readonly bind: Bind;
  readonly counters: SmtpCounters;
  /** There is mail to send. */
  readonly wake: () => void;
}

export interface Inbound {
  readonly addresses: readonly ListenAddress[];
  /** The first of them, as our own mail finds it. */
  readonly door: LoopbackAddress | undefined;
  /** What it does by the clock. */
  readonly jobs: Readonly<Record<string, () => Promise<void>>>;
  /** Takes no more connections, lets transactions end for `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const CLOSED: Inbound = { addresses: [], door: undefined, jobs: {}, close: () => Promise.resolve() };

/** DNS has this long to say who a message is from, ms; RFC 5321 has clients wait ten minutes for the reply. */
const AUTHENTICATION_MS = 10_000;

/** Listens, where this daemon has the role. Throws UserError where it cannot. */
export async function openInbound(parts: InboundParts): Promise<Inbound> {
  const { server, snapshot, store, clock, log, certificate, bind } = parts;
  const sweep = sweepInbound({ store, clock, keep: () => snapshot().server.retention.events });
  if (!server.server.roles.includes('smtp')) return CLOSED;
  const srs = await openSrsKeys({ store, clock });
  const loopbackSecret = randomBytes(24).toString('base64url');
  const listener = createListener({
    clock,
    log,
    certificate,
    bind,
    counters: parts.counters,
    settings() {
      const { server, limits, inbound } = snapshot().server;
      return {
        hostname: server.hostname,
        message: limits.message,
        limits: limits.smtp,
        proxies: inbound.proxy_protocol,
      };
    },
    policy: createPolicy(parts, await openDirectory(parts, srs)),
    loopbackSecret,
  });
  const addresses = await listener.listen(server.server.smtp.listen.map(parseListenAddress));
  const [first] = addresses;
  const reader = createReportReader({ clock, log });
  const bounces = createBounceReading({ ...parts, config: () => snapshot().server, reader });
  return {
    addresses,
    door: first && { ...first, mark: loopbackSecret },
    jobs: { inbound: sweep, bounces, srs: srs.renew },
    async close(graceMs) {
      await listener.close(graceMs);
      await reader.close();
    },
  };
}

/** What decides over recipients, as it is at each call. */
export async function openDirectory(
  { snapshot, store, clock, domains }: Pick<InboundParts, 'snapshot' | 'store' | 'clock' | 'domains'>,
  srs: SrsKeys,
): Promise<() => Directory> {
  const secret = createSecretKey(await obtainSecret(store, 'return-path', clock.now()));
  return () => {
    const { hostname } = snapshot().server.server;
    return {
      snapshot: snapshot(),
      status: (domain) => domains.status(domain),
      openReturnPath: (address) => openReturnPath(address, secret),
      openSrs: (address) => openSrs(address, { secrets: srs.secrets(), hostname, now: clock.now() }),
      openReply: (address) => openReplyAddress(address, secret),
    };
  };
}

function createPolicy(parts: InboundParts, directory: () => Directory): SmtpPolicy {
  const { snapshot, clock, resolver } = parts;

  function hostname(): string {
    return snapshot().server.server.hostname;
  }

  function config(): ServerConfig {
    return snapshot().server;
  }

  function ttl(): number {
    return snapshot().server.delivery.expire.default;
  }

  return createSmtpPolicy({
    ...parts,
    ...createBounces({ ...parts, directory, ttl }),
    directory,
    takeReply: createReplyRelay({ ...parts, conversationOf: createConversations({ ...parts, config }), ttl }),
    authenticate: createAuthenticator({ config: () => snapshot().server, clock, resolver }),
    received: (mail) => receivedLine({ ...mail, hostname: hostname() }),
    ttl,
    ask: parts.consent.ask,
  });
}

interface AuthenticatorParts {
  readonly config: () => ServerConfig;
  readonly clock: Clock;
  readonly resolver: Resolver;
}

/** Asks DNS who the message is from, and what its author's domain wants of mail that is not. */
function createAuthenticator({ config, clock, resolver }: AuthenticatorParts): MailAuthenticator {
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
