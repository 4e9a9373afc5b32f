/** How much of the door one client may have: connections at a time, and errors a minute over all of them. An IPv6 /64 is one client. */
import { clientBucket } from '../access/client-bucket.ts';
import type { Clock } from '../lib/clock.ts';

export interface DoorLimits {
  /** The reply to a connection that is one too many, or the function that ends one that may come in. */
  enter(ip: string): { readonly refusal: string } | { readonly leave: () => void };
  /** Counts an error; false: that was one too many. */
  err(ip: string): boolean;
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
}

const WINDOW_MS = 60_000;
/** From this share of all connections on it is crowded. */
const CROWD = 0.7;

export function createDoorLimits(limits: () => Limits, clock: Clock): DoorLimits {
  const visitors = new Map<string, Visitor>();
  let connections = 0;

  function visitorOf(bucket: string): Visitor {
    const now = clock.monotonic();
    let visitor = visitors.get(bucket);
    if (visitor === undefined) visitors.set(bucket, (visitor = { connections: 0, errors: 0, until: now }));
    if (visitor.until <= now) {
      visitor.errors = 0;
      visitor.until = now + WINDOW_MS;
    }
    return visitor;
  }

  /** Of those who are not here only they are remembered who have erred lately. */
  function forget(): void {
    const now = clock.monotonic();
    for (const [bucket, { connections, errors, until }] of visitors)
      if (connections === 0 && (errors === 0 || until <= now)) visitors.delete(bucket);
  }

  return {
    enter(ip) {
      const most = limits();
      const bucket = clientBucket(ip);
      if (visitors.size > 4 * most.connections) forget();
      const visitor = visitorOf(bucket);
      if (visitor.errors >= most.errors) return { refusal: '421 4.7.0 too many errors, come back in a minute' };
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
          if (visitor.connections === 0 && visitor.errors === 0) visitors.delete(bucket);
        },
      };
    },
    err(ip) {
      const visitor = visitorOf(clientBucket(ip));
      visitor.errors++;
      return visitor.errors < limits().errors;
    },
    isCrowded: () => connections > limits().connections * CROWD,
  };
}
