/**
 * A form accepts `max_per_hour` submissions from all visitors. Those beyond the limit are kept as spam and not mailed, their
 * visitors see success, and the owner of the form is emailed at most once an hour with their number.
 */
import { responsible, type Form, type Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { systemMail } from '../queue/system-mail.ts';
import { dueOverflows, forgetOverflow, noteOverflow, restartOverflow } from '../store/forms.ts';
import { OPERATOR, findTenant } from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { FormOverflowRow } from '../store/tables.ts';
import { findFormOf } from './find.ts';
import type { SpamVerdict } from './spam/filter.ts';

export interface OverflowParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

/** The first mail comes when it is plain whether there are a few or thousands, ms. */
const FIRST_AFTER_MS = 300_000;
const HOUR = 3_600_000;
const MAX_FORMS = 100;

/** The judgement of a post that is one too many in this hour. */
export function overflow({ reasons }: SpamVerdict, { maxPerHour }: Pick<Form, 'maxPerHour'>): SpamVerdict {
  const detail = `more than ${maxPerHour} submissions in an hour`;
  return { verdict: 'spam', score: 100, reasons: [...reasons, { name: 'max_per_hour', score: 100, detail }] };
}

/** The statement that counts it. */
export function countOverflow({ id: form, tenant, name }: Form, now: number): Statement {
  return noteOverflow({ form, tenant, name, mail_at: now + FIRST_AFTER_MS });
}

/** Mails the owners who are due. */
export async function mailOverflows(parts: OverflowParts): Promise<void> {
  const { store, clock, wake } = parts;
  for (const row of await dueOverflows(store, clock.now(), MAX_FORMS)) {
    const { form, count } = row;
    if (count === 0) {
      await store.write([forgetOverflow({ form })]);
      continue;
    }
    const restarted = restartOverflow({ form, count, mail_at: clock.now() + HOUR }, 1);
    try {
      await store.write([restarted, ...(await mailAbout(row, parts))]);
      wake();
    } catch (error) {
      // There is one more since, or another daemon was faster: the next look decides.
      if (!(error instanceof UnmetError)) throw error;
    }
  }
}

async function mailAbout({ form: id, tenant, name, count }: FormOverflowRow, parts: OverflowParts) {
  const { store, clock, snapshot } = parts;
  const { server } = snapshot();
  const form = await findFormOf({ tenant, id }, snapshot(), store);
  // Of other tenants the account's own address alone is known to be wanted.
  const to =
    tenant === OPERATOR ? responsible(form?.project, server).address : (await findTenant(store, tenant))?.email;
  if (to === undefined) return [];
  const limit = form === undefined ? '' : ` of ${form.maxPerHour} submissions per hour`;
  const subject = `${count} ${count === 1 ? 'submission' : 'submissions'} to the form ${id} not mailed`;
  const text = `The form "${name}" (${id}) exceeded its limit${limit} (max_per_hour) by ${count}.

These submissions were kept as spam, with the reason max_per_hour, and not mailed. To list them:

    postern submissions list ${id} --status spam

To release one, use POST /submissions/<id>/ham in the API. If this volume is normal, raise max_per_hour for the form.

You receive at most one such email per hour.
`;
  return systemMail({ tenant, to, subject, text }, server.server.hostname, clock.now());
}
