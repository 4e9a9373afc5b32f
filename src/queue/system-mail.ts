/** Mail of the server itself to somebody it serves: a link to confirm, an alert. From `postern@<server.hostname>`. */
import { z } from 'zod';
import type { Statement } from '../store/statement.ts';
import { enqueue } from './enqueue.ts';

const source = z.object({ to: z.string(), subject: z.string(), text: z.string() });

/** `source` of a message of the kind `system`. */
export type SystemSource = z.output<typeof source>;

export interface SystemMail {
  readonly tenant: string;
  /** One address. */
  readonly to: string;
  readonly subject: string;
  /** Plain text, lines of any length. */
  readonly text: string;
}

const TTL = 2 * 86_400_000;

/** The statements that enqueue it, for the unit of what it tells of. After the commit, wake the worker. */
export function systemMail({ tenant, to, subject, text }: SystemMail, hostname: string, now: number): Statement[] {
  const letter: SystemSource = { to, subject, text };
  return enqueue(
    { tenant, kind: 'system', submission: null, domain: hostname, source: letter, recipients: [to], ttl: TTL },
    now,
  ).unit;
}

export function readSystemSource(json: string): SystemSource {
  return source.parse(JSON.parse(json));
}
