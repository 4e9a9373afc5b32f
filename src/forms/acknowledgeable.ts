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

/** The address that the form may acknowledge to, or undefined. Counts against the caps of the client and the form. */
export async function acknowledgeableAddress(
  form: Form,
  { fields, control, ip }: Visitor,
  { store, limits }: Acknowledgeable,
): Promise<string | undefined> {
  if (form.config.acknowledgment?.enabled !== true) return undefined;
  const address = emailOf(fields, form.config) ?? replyToOf(control);
  if (address === undefined || isRole(address) || isOurs(address, form)) return undefined;
  const { tenant } = form;
  if ((await isSuppressed(store, tenant, address)) || (await isRefused(store, address))) return undefined;
  const client = await limits.take(`acknowledged:${tenant}:${clientBucket(ip)}`, PER_CLIENT);
  if (!client.allowed) return undefined;
  const { allowed } = await limits.take(`acknowledged:${form.id}`, PER_FORM);
  return allowed ? address : undefined;
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
