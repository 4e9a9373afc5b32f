/**
 * Where the mail of an address of ours goes: the address itself, else without its `+tag`, else the catch-all; and the
 * check that no such way leads back to where it began.
 */
import { parseAddress } from '../lib/addresses.ts';
import type { DomainConfig } from './schema.ts';

export type Route = DomainConfig['forwarding'][string];
type Forwarding = DomainConfig['forwarding'];

/** What `forwarding` says of `local@domain`, or undefined; locals are compared without case. */
export function routeOf(forwarding: Forwarding, domain: string, local: string): Route | undefined {
  const key = ruleFor(forwarding, domain, local);
  return key === undefined ? undefined : forwarding[key];
}

/** Whether mail for the domain is meant to come here. */
export function takesMail({ forwarding, forms }: DomainConfig): boolean {
  return Object.keys(forwarding).length > 0 || Object.values(forms).some((form) => form.reply_relay === true);
}

/** A loop of forwarding. */
export interface Loop {
  readonly domain: string;
  /** The key of `forwarding` at which the loop was found. */
  readonly key: string;
  /** The addresses on the way, the first again at the end. */
  readonly way: readonly string[];
}

/** Every loop within these domains once, at the first of its keys in the order of the files. */
export function forwardingLoops(domains: ReadonlyMap<string, Forwarding>): Loop[] {
  const settled = new Set<string>();
  const loops: Loop[] = [];
  for (const [domain, forwarding] of domains) {
    for (const key of Object.keys(forwarding)) walk({ domain, key });
  }
  return loops;

  /** Depth first with a stack of its own: a chain of 20,000 addresses is a long way for the call stack. */
  function walk(start: Step): void {
    const stack: Frame[] = [];
    const depth = new Map<string, number>();
    enter(start);
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const next = frame.next.pop();
      if (next === undefined) {
        settled.add(name(frame.step));
        depth.delete(name(frame.step));
        stack.pop();
      } else {
        const begin = depth.get(name(next));
        if (begin === undefined) enter(next);
        else loops.push({ ...start, ...next, way: [...stack.slice(begin).map(({ step }) => step.key), next.key] });
      }
    }

    function enter(step: Step): void {
      if (settled.has(name(step))) return;
      depth.set(name(step), stack.length);
      stack.push({ step, next: stepsFrom(domains, step).reverse() });
    }
  }
}

interface Step {
  readonly domain: string;
  readonly key: string;
}

interface Frame {
  readonly step: Step;
  readonly next: Step[];
}

function name({ domain, key }: Step): string {
  return `${domain} ${key}`;
}

function stepsFrom(domains: ReadonlyMap<string, Forwarding>, { domain, key }: Step): Step[] {
  const route = domains.get(domain)?.[key];
  if (typeof route !== 'object') return [];
  return route.flatMap((target) => {
    const parsed = parseAddress(target);
    const forwarding = parsed === undefined ? undefined : domains.get(parsed.domain);
    if (parsed === undefined || forwarding === undefined) return [];
    const next = ruleFor(forwarding, parsed.domain, parsed.local);
    return next === undefined ? [] : [{ domain: parsed.domain, key: next }];
  });
}

/** The key of `forwarding` that decides over `local@domain`: the address, else that without its `+tag`, else the catch-all. */
export function ruleFor(forwarding: Forwarding, domain: string, local: string): string | undefined {
  const folded = local.toLowerCase();
  const candidates = [`${folded}@${domain}`, `${folded.replace(/\+.*$/, '')}@${domain}`, `*@${domain}`];
  return candidates.find((key) => Object.hasOwn(forwarding, key));
}
