/** What the visitor's mail address says, and whether it can be answered at all. */
import { DISPOSABLE } from './disposable.ts';
import type { Reason } from './reasons.ts';

/** Whether the domain certainly takes no mail. What DNS cannot say is no. */
export type RefusesMail = (domain: string) => Promise<boolean>;

/** What the domain of the address says by itself. */
export function addressReasons(domain: string | undefined): Reason[] {
  if (domain === undefined || !isDisposable(domain)) return [];
  return [{ name: 'disposable_address', score: 4, detail: domain }];
}

/** The reason that a domain without mail gives. */
export function noMx(domain: string): Reason {
  return { name: 'no_mx', score: NO_MX, detail: `${domain} takes no mail` };
}

export const NO_MX = 4;

/** Such services have names below their own as well. */
function isDisposable(domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (DISPOSABLE.has(name)) return true;
  }
  return false;
}
