/**
 * Double opt-in: a submission to a form with `double_opt_in` is pending until its visitor confirms it by a mailed link.
 * The mail holds nothing that was typed but the address, and an address gets one in 24 hours (accept.ts), so that it is
 * useless to a spammer. The link also confirms what the same client has sent to the form in the name of the same mailbox:
 * a message that was corrected and sent again needs no second mail, and nobody else's posts are confirmed by it. What
 * nobody confirms is dropped when the link has expired.
 */
import type { Consent, Confirmable, ConfirmKind } from '../accounts/consent.ts';
import { LINK_LIFE_MS, newToken, refusal } from '../accounts/consent.ts';
import type { RevisionOf } from '../accounts/projects.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Form, Snapshot } from '../config/snapshot.ts';
import { message } from '../languages/languages.ts';
import type { Clock } from '../lib/clock.ts';
import { counterOf } from '../lib/ids.ts';
import { isRefused } from '../store/consents.ts';
import { recordEvent } from '../store/events.ts';
import { confirmedWith, deleteOptIn, expiredOptIns, insertOptIn } from '../store/form-options.ts';
import type { Statement } from '../store/statement.ts';
import { writeIfMet, type Store } from '../store/store.ts';
import { acceptLater, countSubmission, findSubmission, removeOldSubmissions, sizesOf } from '../store/submissions.ts';
import type { SubmissionRow, TokenRow } from '../store/tables.ts';
import { readControl, readFields } from './fields.ts';
import { acknowledgmentTo, enqueueFormMail, enqueueNotification, visitorOf, type FormMessage } from './messages.ts';
import { formOfSubmission } from './release.ts';

export interface OptInParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
  readonly revisionOf: RevisionOf;
  readonly consent: Pick<Consent, 'ask' | 'release'>;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

/** Whose submission it is. */
export interface Visitor {
  /** In canonical form. */
  readonly mailbox: string;
  /** Whom it came from, as a hash. */
  readonly client: string;
  /** Where the link is mailed to; undefined where that must not be. */
  readonly to: string | undefined;
}

/** So many submissions one link confirms. */
const MAX_CONFIRMED = 20;
const MAX_DROPPED = 200;

/** The statements that make a submission wait for its visitor, and mail the link. */
export function startOptIn(mail: FormMessage, { mailbox, client, to }: Visitor, server: ServerConfig): Statement[] {
  const { form, submission, now } = mail;
  const { id, tenant } = form;
  const row = insertOptIn({ submission, tenant, form: id, mailbox, client, expires_at: now + LINK_LIFE_MS });
  if (to === undefined) return [row];
  const { link, statement } = newToken({ kind: 'submission', tenant, subject: submission }, server, now);
  const source = { form: form.key, to, link };
  return [row, statement, ...enqueueFormMail({ ...mail, kind: 'confirmation', source, to: [to] })];
}

/** The links that it mails. */
export function optInConfirmation(parts: OptInParts): ConfirmKind {
  return async ({ subject }: TokenRow) => {
    const { store, snapshot } = parts;
    const row = await findSubmission(store, subject);
    const form = row && (await formOfSubmission(row, snapshot(), parts));
    if (row === undefined || form === undefined || row.status === 'spam') return undefined;
    const site = form.audience.domain ?? form.domain;
    const names = { form: form.name, site };
    const visitor = visitorOf({ form, fields: readFields(row.fields), control: readControl(row.control) });
    // It was confirmed and delivered, and only its metadata is left.
    if (visitor === undefined) return undefined;
    const confirmable: Confirmable = {
      language: form.config.theme?.language,
      form,
      ...refusal(
        { address: visitor, isRefused: await isRefused(store, visitor) },
        { ...parts, release: parts.consent.release },
      ),
      question: {
        heading: message('optin.question', names),
        text: [message('optin.text', names)],
        button: message('optin.button'),
      },
      done: { heading: message('optin.done'), text: [message('optin.doneText', names)] },
      isDone: row.status !== 'pending',
      confirm: () => confirmAll(row, form, parts),
    };
    return confirmable;
  };
}

/** Accepts the submission, and what else the same client has sent in the name of the same mailbox. */
async function confirmAll({ id, environment }: SubmissionRow, form: Form, parts: OptInParts): Promise<void> {
  const { store, consent, wake } = parts;
  for (const row of await confirmedWith(store, id, MAX_CONFIRMED)) {
    await writeIfMet(store, confirmation(row, form, { ...parts, isLinked: row.id === id }));
  }
  wake();
  if (environment !== 'test') void consent.ask({ tenant: form.tenant, addresses: form.to });
}

/** The unit that accepts a pending submission; unmet where somebody has decided about it meanwhile. */
function confirmation(
  row: SubmissionRow,
  form: Form,
  { clock, snapshot, isLinked }: OptInParts & { readonly isLinked: boolean },
): Statement[] {
  const { id: submission, tenant, domain, environment } = row;
  const now = clock.now();
  const { expire } = snapshot().server.delivery;
  const mail = { form, submission, environment, now };
  const visitor = visitorOf({ form, fields: readFields(row.fields), control: readControl(row.control) });
  const unit = [
    acceptLater({ id: submission, from: 'pending', at: now }, 1),
    deleteOptIn({ submission }),
    recordEvent({
      type: 'submission.accepted',
      tenant,
      at: now,
      data: { form: row.form, confirmed: true },
      submission,
      form: row.form,
      domain,
    }),
    ...enqueueNotification({ ...mail, ttl: expire.default }),
  ];
  if (isLinked && visitor !== undefined && form.config.acknowledgment?.enabled === true) {
    const source = acknowledgmentTo(visitor, form);
    const ttl = expire.acknowledgment;
    unit.push(...enqueueFormMail({ ...mail, ttl, kind: 'acknowledgment', source, to: [visitor] }));
  }
  return [...unit, countSubmission({ form: counterOf({ tenant, id: row.form }) })];
}

/** Drops what nobody confirmed in time. */
export async function dropUnconfirmed({ store, clock }: Pick<OptInParts, 'store' | 'clock'>): Promise<void> {
  const expired = await expiredOptIns(store, clock.now(), MAX_DROPPED);
  if (expired.length > 0) await store.write(removeOldSubmissions(await sizesOf(store, expired)));
}
