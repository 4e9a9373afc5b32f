/** The mail that a submission causes: who gets it, and its rows for the queue. It is rendered when it is first tried (form-mail.ts). */
import { clientBucket, type Limits } from '../accounts/rate-limits.ts';
import { routeOf } from '../config/forwarding.ts';
import type { Form } from '../config/snapshot.ts';
import { canonicalMailbox, parseAddress } from '../lib/addresses.ts';
import { counterOf } from '../lib/ids.ts';
import { enqueue, type Enqueued } from '../queue/enqueue.ts';
import { isRefused } from '../store/consents.ts';
import { noteDue } from '../store/destinations.ts';
import { armFallback } from '../store/form-options.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import { isSuppressed } from '../store/suppressions.ts';
import {
  emailOf,
  replyToOf,
  type AcknowledgmentSource,
  type ConfirmationSource,
  type Control,
  type Field,
  type NotificationSource,
} from './fields.ts';
import { senderAddress } from './form-mail.ts';

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

// Mail to the visitor, whom anybody may have named: who may get it, and why not.

const HOUR = 3_600_000;
const PER_CLIENT = { count: 20, windowMs: HOUR };
const PER_FORM = { count: 500, windowMs: HOUR };

/**
 * Of RFC 2142 those that run a network, and names of programs and lists. Those that people of a small firm answer to
 * (`info@`, `sales@`, `office@`) are visitors like any other.
 */
const ROLES = new Set(
  (
    'abuse administrator all bounce bounces daemon devnull do-not-reply donotreply everyone ftp hostmaster list listserv ' +
    'mailer mailer-daemon majordomo newsletter no-reply nobody noc noreply null postmaster root security spam sysadmin ' +
    'undisclosed-recipients unsubscribe usenet uucp webmaster www www-data'
  ).split(' '),
);

/** To whom mail for the visitor is sent, or why to nobody; `off` where the form sends none. */
export type Addressee =
  | { readonly kind: 'to'; readonly address: string }
  | { readonly kind: 'withheld'; readonly reason: string }
  | { readonly kind: 'off' };

export const OFF: Addressee = { kind: 'off' };

interface AddresseeParts {
  readonly store: Store;
  readonly limits: Pick<Limits, 'take'>;
}

/** What was submitted, and the address that it came from. */
interface Visit {
  readonly form: Form;
  readonly fields: readonly Field[];
  readonly control: Control;
  readonly ip: string;
}

/**
 * Whom an acknowledgment, or the link that confirms a submission, may be sent to. Anybody may have entered the address, so
 * it gets one in 24 hours (held by the database in the unit that accepts), few are sent per client and form, and none to
 * addresses that people share or programs read (RFC 3834 §2), that refused mail of this server, or that would make a loop.
 */
export async function addresseeOf(visit: Visit, { store, limits }: AddresseeParts): Promise<Addressee> {
  const { form, ip } = visit;
  if (!form.config.double_opt_in && form.config.acknowledgment?.enabled !== true) return OFF;
  const address = visitorOf(visit);
  if (address === undefined) return withheld('the visitor gave no address');
  if (isRole(address)) return withheld('the address is a role address');
  if (isOurs(address, form)) return withheld('the address belongs to the form or its domain');
  const { tenant } = form;
  if (await isSuppressed(store, tenant, address)) return withheld('the address is on the suppression list');
  if (await isRefused(store, address)) return withheld('the address has declined mail from this server');
  const client = await limits.take(`acknowledged:${tenant}:${clientBucket(ip)}`, PER_CLIENT);
  if (!client.allowed) return withheld(`the visitor has reached the limit of ${PER_CLIENT.count} an hour`);
  const { allowed } = await limits.take(`acknowledged:${counterOf(form)}`, PER_FORM);
  return allowed ? { kind: 'to', address } : withheld(`the form has reached the limit of ${PER_FORM.count} an hour`);
}

/** The address that the visitor gave. */
export function visitorOf({
  fields,
  control,
  form,
}: Omit<Visit, 'ip' | 'control'> & { control: Pick<Control, 'replyTo'> }): string | undefined {
  return emailOf(fields, form.config) ?? replyToOf(control);
}

/** `source` of the acknowledgment to the visitor. */
export function acknowledgmentTo(address: string, { key, config, to }: Form): AcknowledgmentSource {
  return { form: key, to: address, replyTo: config.replyTo ?? to[0] };
}

export function withheld(reason: string): Addressee {
  return { kind: 'withheld', reason };
}

function isRole(address: string): boolean {
  const [local = ''] = canonicalMailbox(address).split('@');
  return ROLES.has(local) || local.startsWith('owner-') || local.endsWith('-request') || local.endsWith('-bounces');
}

/** The recipient's own address, our sender's, or one that we forward ourselves. */
function isOurs(address: string, { to, domain, config, project }: Form): boolean {
  const lower = address.toLowerCase();
  const sender = senderAddress(config, domain);
  if ([...to, sender].some((own) => own.toLowerCase() === lower)) return true;
  const parsed = parseAddress(address);
  const forwarding = parsed === undefined ? undefined : project?.config.domains[parsed.domain]?.forwarding;
  return (
    parsed !== undefined && forwarding !== undefined && routeOf(forwarding, parsed.domain, parsed.local) !== undefined
  );
}
