/** The submission ports, composed: what the daemon starts beside port 25 where it is told to. */
import type { Authenticator } from '../accounts/authenticate.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { CertificateKeeper } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { parseListenAddress, type Bind, type ListenAddress } from '../lib/sockets.ts';
import type { Log } from '../lib/log.ts';
import { createListener, type SmtpListener } from '../smtp/listener.ts';
import type { SmtpCounters } from '../smtp/record.ts';
import { createSubmission, type SubmissionParts } from '../smtp/submission.ts';
import type { FreeSpace } from '../store/database.ts';
import type { Store } from '../store/store.ts';
import { createSubmissions } from '../transactional/submitted.ts';

export interface OpenSubmission extends Pick<SubmissionParts, 'takeAccount' | 'messages' | 'used' | 'wake'> {
  /** As it was at the start. */
  readonly server: ServerConfig;
  readonly snapshot: () => Snapshot;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly freeSpace: FreeSpace;
  readonly authenticator: Authenticator;
  readonly certificate: CertificateKeeper | undefined;
  readonly bind: Bind;
  readonly counters: SmtpCounters;
}

export interface OpenedSubmission {
  readonly addresses: readonly ListenAddress[];
  /** Takes no more connections, lets transactions end for `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** RFC 8314 §3.3 */
const IMPLICIT_TLS = 465;

/** Listens, where this daemon has the role and is told to. Throws UserError where it cannot. */
export async function openSubmission(parts: OpenSubmission): Promise<OpenedSubmission> {
  const { server, snapshot, clock, log, certificate, bind } = parts;
  const { listen, enabled } = server.server.smtp.submission;
  if (!enabled || certificate === undefined || !server.server.roles.includes('smtp')) {
    return { addresses: [], close: () => Promise.resolve() };
  }
  const submission = createSubmission({ ...parts, submissions: createSubmissions(parts.store) });
  const listeners: SmtpListener[] = [];
  const addresses: ListenAddress[] = [];

  async function close(graceMs: number): Promise<void> {
    await Promise.all(listeners.map((listener) => listener.close(graceMs)));
  }

  function settings() {
    const { server, limits, inbound } = snapshot().server;
    const { proxy_protocol: proxies } = inbound;
    return { hostname: server.hostname, message: limits.message, limits: limits.smtp, proxies };
  }

  try {
    for (const secure of [false, true]) {
      const places = listen.map(parseListenAddress).filter(({ port }) => (port === IMPLICIT_TLS) === secure);
      if (places.length === 0) continue;
      const listener = createListener({
        ...submission,
        clock,
        log,
        certificate,
        bind,
        counters: parts.counters,
        secure,
        settings,
      });
      listeners.push(listener);
      addresses.push(...(await listener.listen(places)));
    }
  } catch (error) {
    await close(0);
    throw error;
  }
  return { addresses, close };
}
