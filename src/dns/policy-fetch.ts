/** Reads an MTA-STS policy as senders do (RFC 8461 §3.3), through the guarded door: its name is the domain owner's choice. */
import { createHttpDoor } from './http-door.ts';
import type { FetchedPolicy } from './mta-sts.ts';
import type { Resolver } from './answers.ts';

const WHOLE_MS = 5000;

/** Never rejects. */
export function createPolicyFetch(options: {
  readonly resolver: Pick<Resolver, 'addresses'>;
  readonly userAgent: string;
}): (url: string) => Promise<FetchedPolicy> {
  const door = createHttpDoor({ ...options, allowPrivate: () => false, connectMs: WHOLE_MS, wholeMs: WHOLE_MS });
  return async (url) => {
    const reply = await door.request({ method: 'GET', url });
    return reply.kind === 'refused' ? { kind: 'failed', reason: `it ${reply.reason}` } : reply;
  };
}
