/**
 * Proxies that nobody trusts: `X-Forwarded-For` from an address that is not in `server.http.trusted_proxies` counts for
 * nothing, so that all visitors behind it share one address and its limits. Anybody can send the header, too: what is
 * remembered and logged is bounded.
 */
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';

export interface ForwardedWatch {
  /** This address has sent the header, and is not trusted. */
  note(peer: string): void;
  /** Those of the last hour, as far as they are remembered. */
  peers(): readonly string[];
}

const HOUR_MS = 3_600_000;
const MAX_PEERS = 20;

/** Logs each of them once an hour. */
export function watchForwarded({ clock, log }: { readonly clock: Clock; readonly log: Log }): ForwardedWatch {
  const since = new Map<string, number>();

  function forgetOld(): void {
    const now = clock.monotonic();
    for (const [peer, at] of since) if (now - at >= HOUR_MS) since.delete(peer);
  }

  return {
    note(peer) {
      forgetOld();
      if (since.has(peer) || since.size >= MAX_PEERS) return;
      since.set(peer, clock.monotonic());
      log.warn('http.forwarded_untrusted', { ip: peer });
    },
    peers() {
      forgetOld();
      return [...since.keys()];
    },
  };
}
