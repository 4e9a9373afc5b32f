/** What the door of mail counts. */
import { Tally } from '../lib/tally.ts';

export interface SmtpCounters {
  /** Connections that were let in, and those that were one too many. */
  readonly connections: Tally<'let_in' | 'turned_away'>;
  /** What was said of each recipient. */
  readonly recipients: Tally<'accepted' | 'rejected' | 'deferred'>;
}

export function createSmtpCounters(): SmtpCounters {
  return {
    connections: new Tally(['let_in', 'turned_away']),
    recipients: new Tally(['accepted', 'rejected', 'deferred']),
  };
}
