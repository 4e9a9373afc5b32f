/**
 * How much of the door one client may have: connections at a time, errors in each of them, and errors a minute over all of
 * them while no mail was taken from it: many senders share the address of a large provider. An IPv6 /64 is one client.
 */
import { clientBucket } from '../accounts/rate-limits.ts';
import type { Clock } from '../lib/clock.ts';

export interface ConnectionLimits {
  /** The reply to a connection that is one too many, or the function that ends one that may come in. */
  enter(ip: string): { readonly refusal: string } | { readonly leave: () => void };
  /** Counts an error, the session's `count`th; false: that was one too many. */
  addError(ip: string, count: number): boolean;
  /** A message was taken. */
  addMessage(ip: string): void;
  /** Whether it is crowded: then nobody may dawdle. */
  isCrowded(): boolean;
}

export interface Limits {
  readonly connections: number;
  readonly per_address: number;
  readonly errors: number;
}

interface Visitor {
  connections: number;
  errors: number;
  /** When its errors are forgiven, on the monotonic clock. */
  until: number;
  /** Until when its errors shut nobody else out, on the monotonic clock. */
  trustedUntil: number;
}

const WINDOW_MS = 60_000;
/** For so long a message that was taken speaks for the address. */
const TRUST_MS = 3_600_000;
/** From this share of all connections on it is crowded. */
const CROWD = 0.7;

export function createConnectionLimits(limits: () => Limits, clock: Clock): ConnectionLimits {
  const visitors = new Map<string, Visitor>();
  let connections = 0;
  /** When it was last looked who can be forgotten. */
  let forgotAt = -Infinity;

  function visitorOf(bucket: string): Visitor {
    const now = clock.monotonic();
    let visitor = visitors.get(bucket);
    if (visitor === undefined)
      visitors.set(bucket, (visitor = { connections: 0, errors: 0, until: now, trustedUntil: now }));
    if (visitor.until <= now) {
      visitor.errors = 0;
      visitor.until = now + WINDOW_MS;
    }
    return visitor;
  }

  /** Of those who are not here only they are remembered who have erred lately, or brought mail. */
  function forget(): void {
    const now = clock.monotonic();
    if (now - forgotAt < WINDOW_MS) return;
    forgotAt = now;
    for (const [bucket, visitor] of visitors) if (isForgettable(visitor, now)) visitors.delete(bucket);
  }

  function isShutOut({ errors, trustedUntil }: Visitor): boolean {
    return errors >= limits().errors && trustedUntil <= clock.monotonic();
  }

  return {
    enter(ip) {
      const most = limits();
      const bucket = clientBucket(ip);
      if (visitors.size > 4 * most.connections) forget();
      const visitor = visitorOf(bucket);
      if (isShutOut(visitor)) return { refusal: '421 4.7.0 too many errors, come back in a minute' };
      if (visitor.connections >= most.per_address) {
        return { refusal: '421 4.7.0 too many connections from your address' };
      }
      if (connections >= most.connections) return { refusal: '421 4.3.2 too many connections, come back later' };
      visitor.connections++;
      connections++;
      let here = true;
      return {
        leave() {
          if (!here) return;
          here = false;
          visitor.connections--;
          connections--;
          if (visitor.errors === 0 && isForgettable(visitor, clock.monotonic())) visitors.delete(bucket);
        },
      };
    },
    addError(ip, count) {
      const visitor = visitorOf(clientBucket(ip));
      visitor.errors++;
      return count < limits().errors && !isShutOut(visitor);
    },
    addMessage(ip) {
      visitorOf(clientBucket(ip)).trustedUntil = clock.monotonic() + TRUST_MS;
    },
    isCrowded: () => connections > limits().connections * CROWD,
  };
}

function isForgettable({ connections, errors, until, trustedUntil }: Visitor, now: number): boolean {
  return connections === 0 && (errors === 0 || until <= now) && trustedUntil <= now;
}
