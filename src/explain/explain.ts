/** What would happen, step by step: to a post to a form, to mail that comes in for an address, to mail that goes to one. */
import { findFormById, parseFormId } from '../forms/find.ts';
import { parseAddress } from '../lib/addresses.ts';
import { formSteps } from './form.ts';
import { inboundSteps } from './inbound.ts';
import { outboundSteps } from './outbound.ts';
import { type Explanation, type ExplainParts } from './steps.ts';

/**
 * Explains an address or a form (`example.com/contact`, `c/x/y`, `frm_…`); undefined for what is neither. `tenant`: who asks,
 * where that is not the operator; it is told of addresses at its own domains alone.
 */
export type Explain = (what: string, tenant?: string) => Promise<Explanation | undefined>;

/** The function that explains. */
export function createExplain(given: ExplainParts): Explain {
  return async (what, tenant) => {
    // As DNS stands now, not as it was remembered.
    const parts = { ...given, resolver: given.resolver.fresh(), dnssec: given.dnssec?.fresh(), tenant };
    const snapshot = parts.snapshot();
    const { server, domains, unavailable } = snapshot;
    if (tenant !== undefined) {
      const owner = domains.get(parseAddress(what)?.domain ?? '')?.project.tenant;
      return owner === tenant ? { what, kind: 'inbound', steps: await inboundSteps(what, parts) } : undefined;
    }
    const id = parseFormId(what);
    const form = id && (await findFormById(id, snapshot, parts.store));
    if (form !== undefined) return { what, kind: 'form', steps: await formSteps(form, parts) };
    const address = parseAddress(what);
    const domain = what.toLowerCase() === 'postmaster' ? server.server.hostname : address?.domain;
    if (domain === undefined) return undefined;
    if (address === undefined || domain === server.server.hostname || domains.has(domain) || unavailable.has(domain))
      return { what, kind: 'inbound', steps: await inboundSteps(what, parts) };
    return { what, kind: 'outbound', steps: await outboundSteps(address.address, undefined, parts) };
  };
}
