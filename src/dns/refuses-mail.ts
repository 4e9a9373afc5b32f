/** Whether a domain certainly takes no mail: asked in passing, so within a short time, and silence proves nothing. */
import { withDeadline } from '../lib/abort.ts';
import type { Resolver } from './resolver.ts';

const DEADLINE_MS = 1500;

/**
 * True where the domain (A-labels) has a null MX (RFC 7505), does not exist, or has neither MX nor address (RFC 5321 §5.1).
 * Never rejects; what DNS cannot say, or not in time, is false.
 */
export async function refusesMail(domain: string, resolver: Pick<Resolver, 'mx' | 'addresses'>): Promise<boolean> {
  try {
    return await withDeadline(DEADLINE_MS, `MX ${domain}`, ask(domain, resolver));
  } catch {
    return false;
  }
}

async function ask(domain: string, resolver: Pick<Resolver, 'mx' | 'addresses'>): Promise<boolean> {
  const answer = await resolver.mx(domain);
  switch (answer.kind) {
    case 'found':
      return answer.records.every(({ exchange }) => exchange === '');
    case 'nxdomain':
      return true;
    case 'nodata': {
      const { kind } = await resolver.addresses(domain);
      return kind === 'nodata' || kind === 'nxdomain';
    }
    case 'failed':
      return false;
  }
}
