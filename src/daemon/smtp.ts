/** Mail that comes in, composed: port 25 and the submission ports, where this daemon's roles say so. */
import { randomBytes } from 'node:crypto';
import type { Consent } from '../accounts/consent.ts';
import type { RevisionOf } from '../accounts/projects.ts';
import type { Limits } from '../accounts/rate-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Domains } from '../domains/domains.ts';
import { conversationOf } from '../forms/form-mail.ts';
import type { CertificateKeeper } from '../lib/certificate.ts';
import { parseListenAddress, type Bind, type ListenAddress } from '../lib/sockets.ts';
import type { LoopbackAddress } from '../smtp-client/route.ts';
import { createReportIntake, createReportReading } from '../smtp/aggregate-reports.ts';
import { createBounceReading, createBounces } from '../smtp/bounces.ts';
import { createAuthenticator, createSmtpPolicy } from '../smtp/accept.ts';
import { SmtpListener, type ListenerOptions } from '../smtp/listener.ts';
import type { SmtpPolicy } from '../smtp/session.ts';
import { openDirectory, type Directory } from '../smtp/recipients.ts';
import type { SmtpCounters } from '../smtp/receive.ts';
import { createReplyRelay } from '../smtp/reply-relay.ts';
import { createAggregateReader, createBounceReader } from '../smtp/report-reader.ts';
import { sweepInbound } from '../smtp/retention.ts';
import { openSrsKeys } from '../smtp/srs-keys.ts';
import { createSubmission, type SubmissionParts } from '../smtp/submission.ts';
import { createSubmissions } from '../transactional/submitted.ts';

export interface SmtpParts extends Omit<SubmissionParts, 'submissions'> {
  /** As it was at the start. */
  readonly server: ServerConfig;
  readonly config: () => ServerConfig;
  readonly resolver: Resolver;
  readonly domains: Pick<Domains, 'status'>;
  readonly consent: Pick<Consent, 'ask'>;
  readonly limits: Pick<Limits, 'take'>;
  /** This daemon's part of what all daemons together allow; undefined where there is no other. */
  readonly share: ((count: number) => number) | undefined;
  readonly revisionOf: RevisionOf;
  /** STARTTLS is not offered without one. */
  readonly certificate: CertificateKeeper | undefined;
  readonly bind: Bind;
  readonly counters: SmtpCounters;
}

export interface Smtp {
  /** Port 25 first. */
  readonly addresses: readonly ListenAddress[];
  /** The first of them, as our own mail finds it. */
  readonly loopback: LoopbackAddress | undefined;
  /** What it does by the clock. */
  readonly jobs: Readonly<Record<string, () => Promise<void>>>;
  /** Takes no more connections, lets transactions end for `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** RFC 8314 §3.3 */
const IMPLICIT_TLS = 465;

/** The configuration, with this daemon's part of the connections of a client. */
function divided(config: () => ServerConfig, share: (count: number) => number): () => ServerConfig {
  return () => {
    const all = config();
    const { smtp } = all.limits;
    return { ...all, limits: { ...all.limits, smtp: { ...smtp, per_address: share(smtp.per_address) } } };
  };
}

/** Listens, where this daemon has the role. Throws UserError where it cannot. */
export async function openSmtp(parts: SmtpParts): Promise<Smtp> {
  const { server, config, store, clock, log, certificate, bind, counters, share } = parts;
  const { roles, smtp } = server.server;
  if (!roles.includes('smtp')) return { addresses: [], loopback: undefined, jobs: {}, close: () => Promise.resolve() };
  const srs = await openSrsKeys({ store, clock });
  const reader = createBounceReader({ clock, log });
  const aggregateReader = createAggregateReader({ clock, log });
  const loopbackSecret = randomBytes(24).toString('base64url');
  const listeners: SmtpListener[] = [];

  const ownConfig = share === undefined ? config : divided(config, share);

  function listen(
    own: Pick<ListenerOptions, 'policy' | 'login' | 'loopbackSecret' | 'secure'>,
    places: readonly ListenAddress[],
  ): Promise<ListenAddress[]> {
    const listener = new SmtpListener({ clock, log, certificate, bind, counters, config: ownConfig, ...own });
    listeners.push(listener);
    return listener.listen(places);
  }

  async function close(graceMs: number): Promise<void> {
    await Promise.all(listeners.map((listener) => listener.close(graceMs)));
    await Promise.all([reader.close(), aggregateReader.close()]);
  }

  try {
    const policy = createPolicy(parts, await openDirectory(parts, srs));
    const addresses = await listen({ policy, loopbackSecret }, smtp.listen.map(parseListenAddress));
    const [first] = addresses;
    if (smtp.submission.enabled && certificate !== undefined) {
      const submission = createSubmission({ ...parts, submissions: createSubmissions(store) });
      const places = smtp.submission.listen.map(parseListenAddress);
      for (const [secure, some] of Map.groupBy(places, ({ port }) => port === IMPLICIT_TLS)) {
        addresses.push(...(await listen({ ...submission, secure }, some)));
      }
    }
    return {
      addresses,
      loopback: first && { ...first, mark: loopbackSecret },
      jobs: {
        inbound: sweepInbound({ store, clock, config }),
        bounces: createBounceReading({ ...parts, reader }),
        reports: createReportReading({ ...parts, reader: aggregateReader }),
        srs: srs.renew,
      },
      close,
    };
  } catch (error) {
    await close(0);
    throw error;
  }
}

function createPolicy(parts: SmtpParts, directory: () => Directory): SmtpPolicy {
  const { config } = parts;

  function ttl(): number {
    return config().delivery.expire.default;
  }

  return createSmtpPolicy({
    ...parts,
    ...createBounces({ ...parts, directory, ttl }),
    directory,
    takeReport: createReportIntake(parts),
    takeReply: createReplyRelay({ ...parts, conversationOf: (id) => conversationOf(id, parts), ttl }),
    authenticate: createAuthenticator(parts),
    ask: parts.consent.ask,
  });
}
