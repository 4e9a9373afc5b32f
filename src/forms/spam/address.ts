/** What the domain of the visitor's address says. */
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import type { Reason } from './reasons.ts';

/** Whether the domain certainly takes no mail. What DNS cannot say is no. */
export type RefusesMail = (domain: string) => Promise<boolean>;

export const NO_MX_POINTS = 10;

/** The reason that a domain without mail gives. */
export function noMx(domain: string): Reason {
  return { name: 'no_mx', score: NO_MX_POINTS, detail: `${domain} takes no mail` };
}

/** The check for domains of mail addresses that are thrown away after use; it holds the list of the community. */
export function createDisposable(): (domain: string | undefined) => Reason[] {
  const known = disposableEmailBlocklistSet();
  return (domain) => {
    if (domain === undefined || !isIn(known, domain.toLowerCase())) return [];
    return [{ name: 'disposable_address', score: 9, detail: domain }];
  };
}

/** Such services have names below their own as well. */
function isIn(known: ReadonlySet<string>, domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (known.has(name)) return true;
  }
  return false;
}
