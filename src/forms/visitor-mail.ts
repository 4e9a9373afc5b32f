/** Mail to a visitor, whom anybody may have named: who may get it, and why not. */
import { clientBucket, type Limits } from '../accounts/rate-limits.ts';
import { routeOf } from '../config/forwarding.ts';
import type { Form } from '../config/snapshot.ts';
import { canonicalMailbox, parseAddress } from '../lib/addresses.ts';
import { counterOf } from '../lib/ids.ts';
import { isRefused } from '../store/consents.ts';
import type { Store } from '../store/store.ts';
import { isSuppressed } from '../store/suppressions.ts';
import { emailOf, replyToOf, type AcknowledgmentSource, type Control, type Field } from './fields.ts';
import { senderAddress } from './form-mail.ts';

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

export interface AddresseeParts {
  readonly store: Store;
  readonly limits: Pick<Limits, 'take'>;
}

/** What was submitted, and the address that it came from. */
export interface Visit {
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
  if (isOurs(address, form)) return withheld('the address is one of the form or its domain');
  const { tenant } = form;
  if (await isSuppressed(store, tenant, address)) return withheld('the address is on the suppression list');
  if (await isRefused(store, address)) return withheld('the address wants no mail of this server');
  const client = await limits.take(`acknowledged:${tenant}:${clientBucket(ip)}`, PER_CLIENT);
  if (!client.allowed) return withheld(`the visitor has caused ${PER_CLIENT.count} within an hour`);
  const { allowed } = await limits.take(`acknowledged:${counterOf(form)}`, PER_FORM);
  return allowed ? { kind: 'to', address } : withheld(`the form has caused ${PER_FORM.count} within an hour`);
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
