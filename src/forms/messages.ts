/** Puts the mail of forms into the queue: what they send is rendered when it is first tried (form-mail.ts). */
import type { Form } from '../config/snapshot.ts';
import { enqueue } from '../queue/enqueue.ts';
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
    ...enqueueFormMail({ ...message, kind: 'notification', source: { form: form.key, to: [...to] }, to }),
  ];
}

/** The statements that enqueue the same for the form's fallback, if that is mail; `insteadOf`: whom it did not reach. */
export function enqueueFallback(message: FormMessage, insteadOf: readonly string[]): Statement[] {
  const { key, fallbackTo: to } = message.form;
  if (to.length === 0) return [];
  const source = { form: key, to: [...to], insteadOf: [...insteadOf] };
  return enqueueFormMail({ ...message, kind: 'notification', source, to });
}

/** What is sent, to whom. */
type Sent =
  | { readonly kind: 'notification'; readonly source: NotificationSource }
  | { readonly kind: 'acknowledgment'; readonly source: AcknowledgmentSource }
  | { readonly kind: 'confirmation'; readonly source: ConfirmationSource };

/** The statements that enqueue a mail of the form. */
export function enqueueFormMail({
  form: { tenant, id: form, domain },
  now,
  to: recipients,
  ...message
}: FormMessage & Sent & { readonly to: readonly string[] }): Statement[] {
  return enqueue({ ...message, tenant, form, domain, recipients }, now).unit;
}
