/**
 * Where the mail of an address of ours goes: the address itself, else without its `+tag`, else the catch-all; and the
 * check that no such way leads back to where it began.
 */
import { parseAddress, type Address } from '../lib/addresses.ts';
import type { DomainConfig } from './schema.ts';

export type Route = DomainConfig['forwarding'][string];
type Forwarding = DomainConfig['forwarding'];

/** What `forwarding` says of `local@domain`, or undefined; locals are compared without case. */
export function routeOf(forwarding: Forwarding, domain: string, local: string): Route | undefined {
  const key = ruleFor(forwarding, domain, local);
  return key === undefined ? undefined : forwarding[key];
}

/** A key of a domain's `forwarding`. */
interface Step {
  readonly domain: string;
  readonly key: string;
}

/** A loop of forwarding, found at this key. */
export interface Loop extends Step {
  /** The addresses on the way, the first again at the end. */
  readonly way: readonly string[];
}

/** Every loop within these domains once, at the first of its keys in the order of the files. */
export function forwardingLoops(domains: ReadonlyMap<string, Forwarding>): Loop[] {
  return walkForwarding(domains).loops;
}

/** Every key behind all that it leads to, and the loops on the way. */
function walkForwarding(domains: ReadonlyMap<string, Forwarding>): { order: Iterable<Step>; loops: Loop[] } {
  const settled = new Map<string, Step>();
  const loops: Loop[] = [];
  for (const [domain, forwarding] of domains) {
    for (const key of Object.keys(forwarding)) walk({ domain, key });
  }
  return { order: settled.values(), loops };

  /** Depth first with a stack of its own: a chain of 20,000 addresses is a long way for the call stack. */
  function walk(start: Step): void {
    const stack: { readonly step: Step; readonly next: Step[] }[] = [];
    const depth = new Map<string, number>();
    enter(start);
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const next = frame.next.pop();
      if (next === undefined) {
        settled.set(name(frame.step), frame.step);
        depth.delete(name(frame.step));
        stack.pop();
      } else {
        const begin = depth.get(name(next));
        if (begin === undefined) enter(next);
        else loops.push({ ...next, way: [...stack.slice(begin).map(({ step }) => step.key), next.key] });
      }
    }

    function enter(step: Step): void {
      if (settled.has(name(step))) return;
      depth.set(name(step), stack.length);
      stack.push({ step, next: stepsFrom(domains, step).reverse() });
    }
  }
}

/** Recipients of one forwarding address. */
export const MAX_TARGETS = 20;
/** Deliveries that one message causes, all of its recipients together. */
export const MAX_DELIVERIES = 100;

/** Where mail for these addresses ends: what the map says of each, of what that leads to, and so on. Each address once. */
export function followForwarding(
  start: readonly Address[],
  routeFor: (address: Address) => Route | undefined,
): { readonly targets: readonly string[]; readonly discarded: boolean } {
  const seen = new Set<string>();
  const targets = new Set<string>();
  const ahead = [...start].reverse();
  let discarded = false;
  for (let address = ahead.pop(); address !== undefined; address = ahead.pop()) {
    const key = address.address.toLowerCase();
    if (seen.has(key)) continue;
    seen.add(key);
    const route = routeFor(address);
    if (typeof route === 'object') ahead.push(...route.flatMap((target) => parseAddress(target) ?? []).reverse());
    else if (route === 'discard') discarded = true;
    else targets.add(address.address);
  }
  return { targets: [...targets], discarded };
}

/**
 * Counts, within these domains, to how many addresses mail for each address goes in the end; what is more than
 * MAX_DELIVERIES is one more than that. Every key is looked at once, however many lead to it; there must be no loop.
 */
export function fanOutOf(domains: ReadonlyMap<string, Forwarding>): (addresses: readonly string[]) => number {
  const known = new Map<string, ReadonlySet<string>>();
  for (const step of walkForwarding(domains).order) {
    const route = domains.get(step.domain)?.[step.key];
    known.set(name(step), typeof route === 'object' ? union(route) : new Set());
  }
  return (addresses) => union(addresses).size;

  function union(addresses: readonly string[]): ReadonlySet<string> {
    const all = new Set<string>();
    for (const text of addresses) {
      const step = stepAt(domains, text);
      const ends = step === undefined ? [text.toLowerCase()] : (known.get(name(step)) ?? []);
      for (const end of ends) if (all.size <= MAX_DELIVERIES) all.add(end);
    }
    return all;
  }
}

function name({ domain, key }: Step): string {
  return `${domain} ${key}`;
}

function stepsFrom(domains: ReadonlyMap<string, Forwarding>, { domain, key }: Step): Step[] {
  const route = domains.get(domain)?.[key];
  return typeof route === 'object' ? route.flatMap((target) => stepAt(domains, target) ?? []) : [];
}

/** The key that decides over an address, where it is one of these domains. */
function stepAt(domains: ReadonlyMap<string, Forwarding>, address: string): Step | undefined {
  const { local = '', domain = '' } = parseAddress(address) ?? {};
  const forwarding = domains.get(domain);
  const key = forwarding && ruleFor(forwarding, domain, local);
  return key === undefined ? undefined : { domain, key };
}

/** The key of `forwarding` that decides over `local@domain`: the address, else that without its `+tag`, else the catch-all. */
export function ruleFor(forwarding: Forwarding, domain: string, local: string): string | undefined {
  const folded = local.toLowerCase();
  const candidates = [`${folded}@${domain}`, `${folded.replace(/\+.*$/, '')}@${domain}`, `*@${domain}`];
  return candidates.find((key) => Object.hasOwn(forwarding, key));
}
