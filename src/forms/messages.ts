/** Puts the mail of forms into the queue: what they send is rendered when it is first tried (form-mail.ts). */
import type { Form } from '../config/snapshot.ts';
import { enqueue, type Enqueued } from '../queue/enqueue.ts';
import { noteDue } from '../store/destinations.ts';
import { armFallback } from '../store/form-options.ts';
import type { Statement } from '../store/statement.ts';
import type { AcknowledgmentSource, ConfirmationSource, NotificationSource } from './fields.ts';

export interface FormMessage {
  readonly form: Form;
  /** Its id. */
  readonly submission: string;
  readonly ttl: number;
  readonly environment: 'live' | 'test';
  readonly now: number;
}

/** The statements that enqueue the mail to the form's recipients, and that watch over it where the form has a fallback. */
export function enqueueNotification(message: FormMessage): Statement[] {
  const { form, submission, now } = message;
  const { to, config } = form;
  const { fallback } = config;
  return [
    ...(fallback === undefined ? [] : [armFallback({ submission, late_at: now + fallback.after })]),
    ...notifications(message, { form: form.key, to: [...to] }),
  ];
}

/** The statements that enqueue the same for the form's fallback, if that is mail; `insteadOf`: whom it did not reach. */
export function enqueueFallback(message: FormMessage, insteadOf: readonly string[]): Statement[] {
  const { key, fallbackTo: to } = message.form;
  if (to.length === 0) return [];
  return notifications(message, { form: key, to: [...to], insteadOf: [...insteadOf] });
}

/** A mail for each recipient, because each has links of its own. */
function notifications(message: FormMessage, source: Omit<NotificationSource, 'recipient'>): Statement[] {
  const mails = [...new Set(source.to)].map((recipient) =>
    formMail({ ...message, kind: 'notification', source: { ...source, recipient }, to: [recipient] }),
  );
  // What many units share comes last, in one order.
  const dues = new Map(mails.flatMap((mail) => mail.dues.map((due) => [due.name, due] as const)));
  const sorted = [...dues.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return [...mails.flatMap(({ rows }) => rows), ...sorted.map((due) => noteDue(due))];
}

/** What is sent, to whom. */
type Sent =
  | { readonly kind: 'notification'; readonly source: NotificationSource }
  | { readonly kind: 'acknowledgment'; readonly source: AcknowledgmentSource }
  | { readonly kind: 'confirmation'; readonly source: ConfirmationSource };

type FormMail = FormMessage & Sent & { readonly to: readonly string[] };

/** The statements that enqueue a mail of the form. */
export function enqueueFormMail(mail: FormMail): Statement[] {
  return formMail(mail).unit;
}

function formMail({ form: { tenant, id: form, domain }, now, to: recipients, ...message }: FormMail): Enqueued {
  return enqueue({ ...message, tenant, form, domain, recipients }, now);
}
