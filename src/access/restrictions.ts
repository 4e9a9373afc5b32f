/** The restrictions of a key: how they are written, and when one set is at least as tight as another. */
import { networkWithin } from '../dns/networks.ts';
import { mayTouch, type Principal, type Restrictions } from './principal.ts';

/** What a new key is refused for: it would be more than its maker. */
export interface TooMuch {
  readonly kind: 'too much';
  /** A sentence that names what. */
  readonly message: string;
}

/**
 * The restrictions of a key that this principal makes: those that are asked for, which must be at least as tight as its
 * own; its own where none are asked for.
 */
export function narrowRestrictions(maker: Principal, wanted: Restrictions): Restrictions | TooMuch {
  const held = maker.restrictions;
  const fault =
    outsideNetworks(held, wanted) ??
    outsideDomains(maker, wanted) ??
    above('rate_limit', held, wanted) ??
    above('burst_limit', held, wanted) ??
    outlives(held, wanted);
  return fault === undefined ? { ...held, ...wanted } : { kind: 'too much', message: fault };
}

function outsideNetworks({ ip_whitelist: own }: Restrictions, { ip_whitelist: wanted = [] }: Restrictions) {
  const outside = own && wanted.find((network) => !networkWithin(network, own));
  return outside && `This key may not be used from all of ${outside}, and a key that it makes may not either.`;
}

function outsideDomains(maker: Principal, { domain_restrictions: wanted = [] }: Restrictions) {
  const outside = wanted.find((domain) => !mayTouch(maker, domain));
  return outside && `This key may not be used for ${outside}, and a key that it makes may not either.`;
}

function above(name: 'rate_limit' | 'burst_limit', held: Restrictions, wanted: Restrictions) {
  const own = held[name];
  return own !== undefined && (wanted[name] ?? own) > own
    ? `The ${name} of this key is ${own}; a key that it makes may have no more.`
    : undefined;
}

function outlives({ expires_at: own }: Restrictions, { expires_at: wanted = own }: Restrictions) {
  return own !== undefined && wanted !== undefined && Date.parse(wanted) > Date.parse(own)
    ? `This key expires at ${own}; a key that it makes may not outlive it.`
    : undefined;
}
