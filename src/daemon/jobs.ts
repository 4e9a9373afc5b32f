/**
 * What the daemon does from time to time, by the monotonic clock: a wall clock that is stepped, in whichever direction,
 * neither stops a job nor runs one twice. What the database holds of the future is put right where the clock went back.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { withoutLink } from '../forms/fields.ts';
import { forgetOldSubmissions, indexSubmissions, reduceSubmissions } from '../forms/retention.ts';
import { forgetOldMessages } from '../queue/retention.ts';
import { withoutText } from '../queue/system-mail.ts';
import { withoutHeaders } from '../smtp/dsn.ts';
import { withoutReport } from '../smtp-client/tls-reports.ts';
import { forgetOldInbound } from '../smtp/retention.ts';
import type { Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';
import { withoutWords } from '../transactional/email.ts';

/** Between two runs of a job, ms. */
const EVERY_MS = 10_000;
/** What the wall clock moves beside the monotonic one by more is a step; less is what NTP corrects as it goes, ms. */
const MIN_STEP_MS = 5000;

/** By their names in the log. */
export type Jobs = Readonly<Record<string, () => Promise<void>>>;

/** Between two looks whether this daemon runs the jobs of the cluster, ms. */
const LEAD_EVERY_MS = 1000;

/**
 * Runs each job at once, and again ten seconds after it ended; of a cluster's jobs, the daemon that leads. Answers what ends
 * them; what is running goes on until it needs the database, which closes next.
 */
export function startJobs({
  clock,
  log,
  jobs,
  leads = () => true,
}: {
  readonly clock: Clock;
  readonly log: Log;
  readonly jobs: Jobs;
  readonly leads?: () => boolean;
}): () => Promise<void> {
  const stop = new AbortController();

  async function repeat(name: string, job: () => Promise<void>): Promise<void> {
    while (!stop.signal.aborted) {
      if (!leads()) {
        await clock.sleep(LEAD_EVERY_MS, stop.signal);
        continue;
      }
      await job().catch((error: unknown) => {
        // After the end the database is closed, too.
        if (!stop.signal.aborted) log.error('job.failed', { job: name, ...errorFields(error) });
      });
      await clock.sleep(EVERY_MS, stop.signal);
    }
  }

  for (const [name, job] of Object.entries(jobs)) void repeat(name, job);
  return () => {
    stop.abort();
    return Promise.resolve();
  };
}

export interface ClockWatch {
  readonly clock: Clock;
  readonly log: Log;
  /** Whether records are from the future: the clock went back while no daemon ran. */
  readonly isBehind: () => Promise<boolean>;
  /** Called once for each step back; until it succeeds. */
  readonly onStepBack: () => Promise<void>;
}

/** A job that notices steps of the wall clock. A machine that was suspended shows as a step forward. */
export function watchClock({ clock, log, isBehind, onStepBack }: ClockWatch): () => Promise<void> {
  let offset = clock.now() - clock.monotonic();
  let wentBack: boolean | undefined;
  return async () => {
    const now = clock.now() - clock.monotonic();
    const by_ms = Math.round(now - offset);
    offset = now;
    if (Math.abs(by_ms) >= MIN_STEP_MS) {
      log.warn('clock.stepped', { by_ms });
      wentBack ||= by_ms < 0;
    }
    wentBack ??= await isBehind();
    if (!wentBack) return;
    await onStepBack();
    wentBack = false;
  };
}

// What is forgotten when it is old enough (`retention` of server.yml, and of forms): the jobs, composed.

/** On every daemon: what two of them remove at once is gone once. */
export function retentionJobs(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => ServerConfig;
  readonly snapshot: () => Snapshot;
}): Jobs {
  return {
    old_submissions: forgetOldSubmissions(parts),
    stored_submissions: reduceSubmissions(parts),
    search_index: indexSubmissions(parts),
    old_messages: forgetOldMessages({ ...parts, withoutContent }),
    old_inbound: forgetOldInbound(parts),
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
    case 'tls_report':
      return withoutReport(source);
    case 'confirmation':
      return withoutLink(source);
    case 'notification':
    case 'acknowledgment':
    case 'forward':
    case 'reply':
    case 'webhook':
      return source;
  }
}
