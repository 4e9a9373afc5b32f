/**
 * Who may be sent an acknowledgment. It goes to an address that a stranger typed, so it must be no use for annoying
 * anybody: one per mailbox in 24 hours (held by the database in the unit that accepts), few per client and form, none to
 * addresses that people share or programs read (RFC 3834 §2), none to who refused mail of this server, none into a loop.
 */
import { clientBucket, type Limits } from '../access/limits.ts';
import { routeOf } from '../config/forwarding.ts';
import type { Form } from '../config/snapshot.ts';
import { canonicalMailbox, parseAddress } from '../lib/addresses.ts';
import { isRefused } from '../store/consents.ts';
import { counterOf } from '../store/form-counters.ts';
import { isSuppressed } from '../store/suppressions.ts';
import type { Store } from '../store/store.ts';
import { emailOf, replyToOf, type Control, type Field } from './fields.ts';
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

export interface Acknowledgeable {
  readonly store: Store;
  readonly limits: Pick<Limits, 'take'>;
}

export interface Visitor {
  readonly fields: readonly Field[];
  readonly control: Control;
  readonly ip: string;
}

/** To whom a submission is acknowledged, or why to nobody; `off` where its form acknowledges nothing. */
export type Acknowledgee =
  | { readonly kind: 'to'; readonly address: string }
  | { readonly kind: 'withheld'; readonly reason: string }
  | { readonly kind: 'off' };

/** Whom the form may acknowledge to. Counts against the caps of the client and the form. */
export async function acknowledgeeOf(
  form: Form,
  { fields, control, ip }: Visitor,
  { store, limits }: Acknowledgeable,
): Promise<Acknowledgee> {
  if (form.config.acknowledgment?.enabled !== true) return { kind: 'off' };
  const address = emailOf(fields, form.config) ?? replyToOf(control);
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

function withheld(reason: string): Acknowledgee {
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
