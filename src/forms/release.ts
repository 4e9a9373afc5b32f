/**
 * What the owner of a form decides about a submission: that it is no spam, that it is, that its mail shall come
 * once more. Each is one unit, so that status, count, event and mail never contradict each other.
 */
import type { Consent } from '../accounts/consent.ts';
import type { RevisionOf } from '../accounts/projects.ts';
import { collectionOf, formsOfDomain, type Form, type Project, type Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { endWaiting } from '../store/messages.ts';
import { recomputeDueAmong } from '../store/destinations.ts';
import { recordEvent } from '../store/events.ts';
import { deleteOptIn } from '../store/form-options.ts';
import { counterOf } from '../lib/ids.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { deliveriesOfSubmission } from '../store/submission-list.ts';
import type { Statement } from '../store/statement.ts';
import {
  acceptLater,
  countSubmission,
  findSubmission,
  keepSubmission,
  markSubmission,
  uncountSubmission,
} from '../store/submissions.ts';
import type { SubmissionRow } from '../store/tables.ts';
import { findFormOf } from './find.ts';
import { enqueueNotification } from './messages.ts';
import type { Learning } from './spam/filter.ts';

export interface ReleaseParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
  readonly revisionOf: RevisionOf;
  readonly consent: Consent;
  /** The spam filter learns from what owners decide. */
  readonly learning: Pick<Learning, 'learn'>;
}

/** Who decides, under which configuration. */
export interface Decision {
  readonly snapshot: Snapshot;
  /** Of the key: mail of `test` is never delivered. */
  readonly environment: 'live' | 'test';
}

export type Decided =
  /** `changed`: false where that was so already. */
  | { readonly kind: 'done'; readonly changed: boolean }
  /** Nobody knows any more who is to get the mail. */
  | { readonly kind: 'form-gone' }
  /** Only its metadata is left. */
  | { readonly kind: 'content-gone' };

export type Resent =
  | Decided
  /** It was removed just now. */
  | { readonly kind: 'submission-gone' }
  /** No recipient of the form has agreed to get mail. */
  | { readonly kind: 'unconfirmed' }
  /** It is spam as long as nobody releases it. */
  | { readonly kind: 'spam' }
  /** Its visitor has not confirmed it, and nobody released it. */
  | { readonly kind: 'pending' };

/**
 * Accepts what was kept back: it counts, and its notification goes out, unless one did before. No acknowledgment: the
 * visitor would wonder, so long afterwards.
 */
export async function releaseSubmission(row: SubmissionRow, decision: Decision, parts: ReleaseParts): Promise<Decided> {
  if (row.status === 'accepted') return { kind: 'done', changed: false };
  if (row.stored === 'dropped') return { kind: 'content-gone' };
  const form = await formOfSubmission(row, decision.snapshot, parts);
  if (form === undefined) return { kind: 'form-gone' };
  const { store, clock, wake, consent } = parts;
  const now = clock.now();
  const isNotified = (await deliveriesOfSubmission(store, row.id)).some(
    ({ kind, state }) => kind === 'notification' && state !== 'cancelled',
  );
  const unit = [
    acceptLater({ id: row.id, from: row.status, at: now }, 1),
    deleteOptIn({ submission: row.id }),
    recordEvent({ ...about(row, now), type: 'submission.accepted', data: { form: row.form, released: true } }),
    ...(isNotified ? [] : notify(row, form, { ...decision, now })),
    countSubmission({ form: counterOf({ tenant: row.tenant, id: row.form }) }),
  ];
  const changed = await decide(row, false, { unit, parts });
  if (changed) {
    wake();
    if (row.environment !== 'test') void consent.ask({ tenant: form.tenant, addresses: form.to });
  }
  return { kind: 'done', changed };
}

/** Calls it spam: it counts no more, and what is still to be sent about it is cancelled. */
export async function markAsSpam(
  row: SubmissionRow,
  parts: Pick<ReleaseParts, 'store' | 'clock' | 'wake' | 'learning'>,
): Promise<Decided> {
  const { store, clock, wake } = parts;
  if (row.status === 'spam') {
    // The filter was right, and the owner says so: that is learned, once.
    if (row.learned !== 'spam') await decide(row, true, { unit: [], parts });
    return { kind: 'done', changed: false };
  }
  const at = clock.now();
  const waiting = (await deliveriesOfSubmission(store, row.id)).filter(
    ({ state }) => state === 'queued' || state === 'deferred',
  );
  const reply = 'cancelled: its submission was marked as spam';
  const destinations = [...new Set(waiting.map(({ destination }) => destination))].sort();
  const unit = [
    markSubmission({ id: row.id, from: row.status, status: 'spam' }, 1),
    recordEvent({
      ...about(row, at),
      type: 'submission.spam',
      data: { form: row.form, score: row.spam_score, reasons: [], marked: true },
    }),
    ...waiting.map(({ id }) => endWaiting({ id, state: 'cancelled', reply, at })),
    deleteOptIn({ submission: row.id }),
    ...(row.status === 'accepted'
      ? [uncountSubmission({ form: counterOf({ tenant: row.tenant, id: row.form }) })]
      : []),
    recomputeDueAmong({ names: destinations }),
  ];
  const changed = await decide(row, true, { unit, parts });
  if (changed) wake();
  return { kind: 'done', changed };
}

/** Sends its notification once more, as a new message to whom the form names today. */
export async function resendSubmission(row: SubmissionRow, decision: Decision, parts: ReleaseParts): Promise<Resent> {
  if (row.status !== 'accepted') return { kind: row.status };
  if (row.stored === 'dropped') return { kind: 'content-gone' };
  const form = await formOfSubmission(row, decision.snapshot, parts);
  if (form === undefined) return { kind: 'form-gone' };
  const question = { tenant: form.tenant, addresses: form.to };
  if (![...(await parts.consent.statuses(question)).values()].includes('confirmed')) return { kind: 'unconfirmed' };
  const mail = notify(row, form, { ...decision, now: parts.clock.now() });
  if (!(await done(parts.store.write([keepSubmission({ id: row.id }, 1), ...mail]))))
    return { kind: 'submission-gone' };
  parts.wake();
  return { kind: 'done', changed: true };
}

function notify(row: SubmissionRow, form: Form, { snapshot, environment, now }: Decision & { now: number }) {
  const ttl = snapshot.server.delivery.expire.default;
  const isTest = row.environment === 'test' || environment === 'test';
  return enqueueNotification({ form, submission: row.id, ttl, environment: isTest ? 'test' : 'live', now });
}

function about({ id, tenant, domain }: SubmissionRow, at: number) {
  return { tenant, at, submission: id, domain };
}

const MAX_ATTEMPTS = 5;

/** Writes the decision, and what is learned from it; false where somebody else has decided meanwhile. */
async function decide(
  row: SubmissionRow,
  isSpam: boolean,
  { unit, parts }: { readonly unit: readonly Statement[]; readonly parts: Pick<ReleaseParts, 'store' | 'learning'> },
): Promise<boolean> {
  const { store, learning } = parts;
  for (let attempt = 1; ; attempt++) {
    const learned = await learning.learn(row, isSpam);
    const isWritten = await done(store.write([...unit, ...learned.statements]));
    if (isWritten) learned.committed();
    if (isWritten || attempt === MAX_ATTEMPTS) return isWritten;
    // Where the submission is as it was, another decision was learned at the same time: then that one counts as well.
    const current = await findSubmission(store, row.id);
    if (current === undefined || current.status !== row.status || current.learned !== row.learned) return false;
  }
}

/** False where somebody else did it meanwhile. */
async function done(writing: Promise<unknown>): Promise<boolean> {
  try {
    await writing;
    return true;
  } catch (error) {
    if (error instanceof UnmetError) return false;
    throw error;
  }
}

/** The form as it is now, else as the revision that accepted the submission has it. */
export async function formOfSubmission(
  row: Pick<SubmissionRow, 'tenant' | 'form' | 'revision'>,
  snapshot: Snapshot,
  parts: Pick<ReleaseParts, 'store' | 'revisionOf'>,
): Promise<Form | undefined> {
  const { tenant, form: id, revision } = row;
  const current = await findFormOf({ tenant, id }, snapshot, parts.store);
  const config = current === undefined && revision !== '' ? (await parts.revisionOf(revision))?.config : undefined;
  if (config === undefined) return current;
  const { server } = snapshot;
  const project: Project = { revision, slug: config.project.slug, tenant, source: 'push', config };
  const [first = '', second = '', third] = id.split('/');
  if (third === undefined) {
    const domain = config.domains[first];
    return domain && formsOfDomain({ name: first, config: domain, project, server }).get(second);
  }
  const collection = config.collections[second];
  return collection && collectionOf({ name: second, tenant, project, config: collection, server }).forms.get(third);
}
