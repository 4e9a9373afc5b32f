/**
 * Where a submission goes when mail about it reaches nobody (`fallback` of its form): all of it has failed for good, or none
 * of it is delivered after `after`. It happens once per submission, in one unit with the event that says so, and that the
 * form's webhook is told of. The row that watches over the mail comes with the mail itself, so that no crash forgets it.
 */
import type { Consent } from '../accounts/consent.ts';
import type { RevisionOf } from '../accounts/projects.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { recordEvent } from '../store/events.ts';
import { dueFallbacks, putOffFallback, useFallback } from '../store/form-options.ts';
import { writeIfMet, type Store } from '../store/store.ts';
import { findSuppression } from '../store/suppressions.ts';
import { deliveriesOfSubmission } from '../store/submission-list.ts';
import { findSubmission } from '../store/submissions.ts';
import type { DeliveryState, FallbackRow } from '../store/tables.ts';
import { enqueueFallback } from './messages.ts';
import { formOfSubmission } from './release.ts';

export interface FallbackParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly revisionOf: RevisionOf;
  readonly consent: Pick<Consent, 'ask'>;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

const MAX_AT_ONCE = 100;
const ARRIVED: ReadonlySet<DeliveryState> = new Set(['delivered', 'captured']);
const WAITS: ReadonlySet<DeliveryState> = new Set(['queued', 'sending', 'deferred']);
const FAILED: ReadonlySet<DeliveryState> = new Set(['bounced', 'expired', 'suppressed']);

/** A job to run every few seconds: looks at the mail that has failed, or is late. */
export async function useFallbacks(parts: FallbackParts): Promise<void> {
  const { store, clock } = parts;
  for (const row of await dueFallbacks(store, clock.now(), MAX_AT_ONCE)) await lookAt(row, parts);
}

async function lookAt(watched: FallbackRow, parts: FallbackParts): Promise<void> {
  const { store, clock, log, snapshot, consent, wake } = parts;
  const { submission, late_at, due_at } = watched;
  const now = clock.now();
  const row = await findSubmission(store, submission);
  const form = row?.status === 'accepted' ? await formOfSubmission(row, snapshot(), parts) : undefined;
  const mail = (await deliveriesOfSubmission(store, submission)).filter(({ kind }) => kind === 'notification');
  const missing: typeof mail = [];
  for (const one of mail) {
    if (FAILED.has(one.state) || WAITS.has(one.state)) {
      // Who wants no mail of the form has not missed any.
      const hasStopped = row !== undefined && (await findSuppression(store, { ...row, address: one.recipient }));
      if (!hasStopped) missing.push(one);
    }
  }
  const isNeeded = missing.length > 0 && !mail.some(({ state }) => ARRIVED.has(state));
  if (row === undefined || form?.config.fallback === undefined || !isNeeded) {
    await store.write([putOffFallback({ submission, due_at, next: null })]);
    return;
  }
  if (now < late_at && missing.some(({ state }) => WAITS.has(state))) {
    await store.write([putOffFallback({ submission, due_at, next: late_at })]);
    return;
  }
  const { tenant, domain, environment } = row;
  const { fallbackTo } = form;
  const failed = [...new Set(missing.map(({ recipient }) => recipient))].sort();
  const reply = missing.find(({ last_reply }) => last_reply !== null)?.last_reply ?? 'no delivery attempt yet';
  const ttl = snapshot().server.delivery.expire.default;
  const used = await writeIfMet(store, [
    useFallback({ submission, used_at: now }, 1),
    recordEvent({
      type: 'submission.fallback',
      tenant,
      at: now,
      data: { form: row.form, recipients: fallbackTo, failed, reply },
      submission,
      form: row.form,
      domain,
    }),
    ...enqueueFallback({ form, submission, ttl, environment, now }, failed),
  ]);
  // Somebody else, or another daemon, was faster.
  if (used === undefined) return;
  log.warn('submission.fallback', { submission, form: row.form, failed, reply });
  wake();
  if (environment !== 'test' && fallbackTo.length > 0) void consent.ask({ tenant: form.tenant, addresses: fallbackTo });
}
