/** Whom a mail is from: somebody at a domain of the tenant whose DNS says so, and that the key may use. */
import { accountIdOf, mayTouch, type Principal } from '../accounts/principal.ts';
import type { Project } from '../config/snapshot.ts';
import { parseAddress, parseMailbox, type Mailbox } from '../lib/addresses.ts';
import { LruMap } from '../lib/lru.ts';
import { domainStatus, sendingDomains } from '../store/domains.ts';
import type { Store } from '../store/store.ts';
import { fault, type Fault } from './email.ts';

export interface Sender {
  readonly from: Mailbox;
  readonly domain: string;
}

interface SenderRequest {
  readonly from: Mailbox | undefined;
  readonly project: Project | undefined;
  readonly principal: Principal;
  readonly now: number;
}

/** Answers the sender of a mail, or why there is none. */
export type SenderOf = (request: SenderRequest) => Promise<Sender | Fault>;

/** For so long a domain that may be sent from is taken to be one still: a quarter of row 13 of the bench, POST. */
const KNOWN_MS = 1000;
const MAX_KNOWN = 1000;

/**
 * The sender that was asked for, else that of the project's settings, else `noreply@` the first domain that may: of the
 * project, or where it has none of the account.
 */
export function createSenderOf(store: Store): SenderOf {
  /** When each tenant's domain was looked up. */
  const known = new LruMap<number>(MAX_KNOWN);
  return async ({ from: asked, project, principal, now }) => {
    const from = asked ?? parseMailbox(project?.config.settings.from ?? '');
    if (from === undefined) return usualSender(project, principal, store);
    const domain = parseAddress(from.address)?.domain ?? '';
    const name = `${principal.tenant.id} ${domain}`;
    const isKnown = Math.abs(now - (known.get(name) ?? -Infinity)) < KNOWN_MS;
    if (isKnown && mayTouch(principal, domain)) return { from, domain };
    const wrong = await sendingFault(domain, principal, store);
    if (wrong === undefined) known.set(name, now);
    return wrong ?? { from, domain };
  };
}

/** Why the principal may not send as this domain, or nothing. */
export async function sendingFault(domain: string, principal: Principal, store: Store): Promise<Fault | undefined> {
  if (!mayTouch(principal, domain)) {
    return fault('AUTH_DOMAIN_NOT_ALLOWED', `The API key may not send as ${domain}.`);
  }
  const status = await domainStatus(store, accountIdOf(principal), domain);
  if (status === 'verified' || status === 'degraded') return undefined;
  // What a test key added needs no records: its mail does not leave.
  const isTest = principal.environment === 'test';
  if (isTest && (await domainStatus(store, principal.tenant.id, domain)) !== undefined) return undefined;
  return fault(
    'DOMAIN_NOT_VERIFIED',
    status === undefined
      ? `${domain} is not a domain of this account: add it and publish its records.`
      : `The DNS records of ${domain} are ${status === 'pending' ? 'not published yet' : 'broken'}: to list them, use GET /domains/${domain} or postern domains setup ${domain}.`,
  );
}

async function usualSender(project: Project | undefined, principal: Principal, store: Store): Promise<Sender | Fault> {
  const domains = await sendingDomains(store, accountIdOf(principal));
  const usable = domains.filter((name) => mayTouch(principal, name));
  const own = project?.config.domains ?? {};
  const domain = usable.find((name) => Object.hasOwn(own, name)) ?? usable[0];
  if (domain !== undefined) return { from: { address: `noreply@${domain}` }, domain };
  return fault('DOMAIN_NOT_VERIFIED', 'There is no verified domain to send from.');
}
