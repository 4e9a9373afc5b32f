/**
 * Limits of a client (an IP address or IPv6 /64): connections at a time, errors in each of them, and errors a minute over all of
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

interface Client {
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
  const clients = new Map<string, Client>();
  let connections = 0;
  /** When it was last looked who can be forgotten. */
  let forgotAt = -Infinity;

  function clientOf(bucket: string): Client {
    const now = clock.monotonic();
    let client = clients.get(bucket);
    if (client === undefined)
      clients.set(bucket, (client = { connections: 0, errors: 0, until: now, trustedUntil: now }));
    if (client.until <= now) {
      client.errors = 0;
      client.until = now + WINDOW_MS;
    }
    return client;
  }

  /** Of those who are not here only they are remembered who have erred lately, or brought mail. */
  function forget(): void {
    const now = clock.monotonic();
    if (now - forgotAt < WINDOW_MS) return;
    forgotAt = now;
    for (const [bucket, client] of clients) if (isForgettable(client, now)) clients.delete(bucket);
  }

  function isShutOut({ errors, trustedUntil }: Client): boolean {
    return errors >= limits().errors && trustedUntil <= clock.monotonic();
  }

  return {
    enter(ip) {
      const most = limits();
      const bucket = clientBucket(ip);
      if (clients.size > 4 * most.connections) forget();
      const client = clientOf(bucket);
      if (isShutOut(client)) return { refusal: '421 4.7.0 too many errors, try again in a minute' };
      if (client.connections >= most.per_address) {
        return { refusal: '421 4.7.0 too many connections from your address' };
      }
      if (connections >= most.connections) return { refusal: '421 4.3.2 too many connections, try again later' };
      client.connections++;
      connections++;
      let here = true;
      return {
        leave() {
          if (!here) return;
          here = false;
          client.connections--;
          connections--;
          if (client.errors === 0 && isForgettable(client, clock.monotonic())) clients.delete(bucket);
        },
      };
    },
    addError(ip, count) {
      const client = clientOf(clientBucket(ip));
      client.errors++;
      return count < limits().errors && !isShutOut(client);
    },
    addMessage(ip) {
      clientOf(clientBucket(ip)).trustedUntil = clock.monotonic() + TRUST_MS;
    },
    isCrowded: () => connections > limits().connections * CROWD,
  };
}

function isForgettable({ connections, errors, until, trustedUntil }: Client, now: number): boolean {
  return connections === 0 && (errors === 0 || until <= now) && trustedUntil <= now;
}
