/**
 * Reads what came back to our return paths, and lets it count: the delivery that seemed to have arrived has bounced, an
 * address without a mailbox gets no more mail of its tenant, and a complaint ends it at once. Automatic answers count for
 * nothing. What it means and that it was read are one unit, so that it counts once.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Report } from '../mail/report-shapes.ts';
import type { BounceRow, DeliveryRow, MessageRow } from '../store/tables.ts';
import { claimBounce, deleteBounce, postponeBounce } from '../store/inbound.ts';
import { deliveriesOfMessage } from '../store/deliveries.ts';
import { findMessage } from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { isFailure, replyOf, tie, bounced, complained, isComplaint, type LateBounce } from './bounce-outcome.ts';
import { isAboutUs, policyAlert } from './policy-alert.ts';
import type { ReportReader } from './report-reader.ts';

export interface ReadingParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly reader: ReportReader;
  /** There is mail to send. */
  readonly wake: () => void;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** When reading is begun again that never ended. */
export const BOUNCE_LEASE = 5 * MINUTE;
const MAX_TRIES = 3;
const MAX_AT_ONCE = 1000;

/** What a report is about. */
interface Case {
  readonly row: BounceRow;
  readonly message: MessageRow;
  readonly deliveries: readonly DeliveryRow[];
}

/** Answers the job that reads what is due. */
export function createBounceReading(parts: ReadingParts): () => Promise<void> {
  const { store, clock, log, reader } = parts;

  async function readOne(row: BounceRow): Promise<void> {
    const message = await findMessage(store, row.message);
    if (message === undefined) return forget(row, 'message_gone');
    const report = await reader.read(row.head);
    if (report === undefined) {
      log.warn('bounce.unreadable', { inbound: row.inbound, message: row.message, tries: row.tries });
      return row.tries < MAX_TRIES ? undefined : forget(row, 'unreadable');
    }
    // Not before: while the report was read the word of the server that took the mail may have been written down.
    const deliveries = await deliveriesOfMessage(store, message.id);
    const unit = await consequences(report, { row, message, deliveries });
    if (unit === 'later') return postpone(row);
    if (unit.length === 0) return forget(row, report.kind);
    const { inbound } = row;
    await store.write([deleteBounce({ inbound, message: message.id }, 1), ...unit]);
    log.info('bounce.recorded', { inbound, message: message.id, kind: report.kind });
    parts.wake();
  }

  async function consequences(report: Report, about: Case): Promise<readonly Statement[] | 'later'> {
    switch (report.kind) {
      case 'bounce':
        return bounces(report, about);
      case 'complaint':
        return complaints(report, about);
      case 'automatic':
      case 'unknown':
        return [];
    }
  }

  async function bounces(report: Extract<Report, { kind: 'bounce' }>, { row, message, deliveries }: Case) {
    const late = new Map<string, LateBounce>();
    const isYoung = clock.now() - row.created_at < DAY;
    for (const reported of report.recipients.filter(isFailure)) {
      const tied = tie(deliveries, [reported.original, reported.address]);
      // It came back before the word of the one who took it was written down.
      if (tied !== undefined && isOpen(tied.delivery) && isYoung) return 'later';
      if (tied?.delivery.state !== 'delivered' || late.has(tied.delivery.id)) continue;
      late.set(tied.delivery.id, { ...tied, message, reported });
    }
    const now = clock.now();
    const unit = [...late.values()].flatMap((each) => bounced(each, now));
    const policy = [...late.values()].find(({ reported }) => isAboutUs(reported.meaning.class));
    if (policy === undefined) return unit;
    const { recipient } = policy.delivery;
    const notWanted = { message, recipient, reply: replyOf(policy.reported), when: 'later' } as const;
    return [...unit, ...(await policyAlert(notWanted, parts, now))];
  }

  async function complaints(report: Extract<Report, { kind: 'complaint' }>, { message, deliveries }: Case) {
    if (!isComplaint(report.feedback)) return [];
    const named = report.recipients.length === 0 ? [''] : report.recipients;
    const tied = named.flatMap((address) => tie(deliveries, [address]) ?? []);
    const distinct = new Map(tied.map(({ delivery }) => [delivery.id, delivery]));
    const units = Array.from(distinct.values(), (delivery) => complained(store, { message, delivery }, clock.now()));
    return (await Promise.all(units)).flat();
  }

  /** A minute later, then after as long again as it has waited. */
  async function postpone({ inbound, message, created_at }: BounceRow): Promise<void> {
    const now = clock.now();
    await store.write([postponeBounce({ inbound, message, due: now + Math.max(MINUTE, now - created_at) })]);
  }

  async function forget({ inbound, message }: BounceRow, reason: string): Promise<void> {
    await store.write([deleteBounce({ inbound, message })]);
    log.info('bounce.ignored', { inbound, message, reason });
  }

  async function next(): Promise<boolean> {
    const now = clock.now();
    const row = await claimBounce(store, { now, until: now + BOUNCE_LEASE });
    if (row === undefined) return false;
    if (row.tries > MAX_TRIES) {
      await forget(row, 'unreadable');
      return true;
    }
    try {
      await readOne(row);
    } catch (error) {
      // Somebody else has read it, or counted another one of the same delivery: it is looked at again.
      if (!(error instanceof UnmetError)) throw error;
      log.warn('bounce.failed', { inbound: row.inbound, message: row.message, ...errorFields(error) });
    }
    return true;
  }

  return async () => {
    try {
      for (let count = 0; count < MAX_AT_ONCE && (await next()); count++);
    } finally {
      await reader.close();
    }
  };
}

function isOpen({ state }: DeliveryRow): boolean {
  return state === 'queued' || state === 'sending' || state === 'deferred';
}
