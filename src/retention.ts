/** What is forgotten when it is old enough (`retention` of server.yml, and of forms): the jobs, composed. */
import type { ServerConfig } from './config/schema.ts';
import type { Snapshot } from './config/snapshot.ts';
import { forgetOldSubmissions } from './forms/forget.ts';
import type { Clock } from './lib/clock.ts';
import { forgetOldMessages } from './queue/forget.ts';
import { withoutText } from './queue/system-mail.ts';
import { withoutHeaders } from './smtp/dsn-source.ts';
import { forgetOldInbound } from './smtp/forget.ts';
import type { Store } from './store/store.ts';
import type { MessageRow } from './store/tables.ts';
import { withoutWords } from './transactional/email.ts';

export interface RetentionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
}

/** On every daemon: what two of them remove at once is gone once. */
export function retentionJobs(parts: RetentionParts): Readonly<Record<string, () => Promise<void>>> {
  function config(): ServerConfig {
    return parts.snapshot().server;
  }

  return {
    old_submissions: forgetOldSubmissions(parts),
    old_messages: forgetOldMessages({ ...parts, config, withoutContent }),
    old_inbound: forgetOldInbound({ ...parts, config }),
  };
}

function withoutContent({ kind, source }: Pick<MessageRow, 'kind' | 'source'>): string {
  switch (kind) {
    case 'transactional':
      return withoutWords(source);
    case 'dsn':
      return withoutHeaders(source);
    case 'system':
      return withoutText(source);
    case 'notification':
    case 'acknowledgment':
    case 'forward':
    case 'reply':
      return source;
  }
}
