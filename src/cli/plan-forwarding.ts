/** What a change of forwarding means for whoever writes to an address. */
import { valueAt } from '../config/explain.ts';
import { routeOf, type Route } from '../config/forwarding.ts';
import { parseAddress } from '../lib/addresses.ts';
import { membersOf, stringsOf, type PlanChange, type PlanLine } from './plan-data.ts';
import { counted, listed } from './words.ts';

export interface ForwardingChange {
  readonly domain: string;
  /** Of its addresses. */
  readonly changes: readonly PlanChange[];
  /** The whole configuration as it will be. */
  readonly after: unknown;
}

interface Moved {
  readonly name: string;
  /** Where its mail went and will go; undefined where the address is not known. */
  readonly from: Route | undefined;
  readonly to: Route | undefined;
}

/** Addresses that begin or stop to forward share a line; each of the others has its own. */
export function forwardingLines({ domain, changes, after }: ForwardingChange): PlanLine[] {
  const later = Object.fromEntries(
    (membersOf(valueAt(after, ['domains', domain, 'forwarding'])) ?? []).map(([key, value]) => [
      key,
      routeFrom(value) ?? [],
    ]),
  );
  const moved = changes.map(({ keys, from, to }): Moved => {
    const name = keys[3] ?? '';
    // What an address loses it may find again: without its tag, or in the catch-all.
    const found = routeOf(later, domain, name.startsWith('*@') ? '' : (parseAddress(name)?.local ?? ''));
    return { name, from: routeFrom(from), to: to === null ? found : routeFrom(to) };
  });
  const starts = moved.filter(({ from, to }) => from === undefined && typeof to === 'object');
  const stops = moved.filter(({ from, to }) => typeof from === 'object' && to === undefined);
  const others = moved.filter((one) => !starts.includes(one) && !stops.includes(one));
  return [
    ...together(starts, '+', {
      one: ({ name, to }) => `mail to ${shown(name, domain)} ${meaning(to)}`,
      many: (names) => `${counted(starts.length, 'address')} of ${domain} forward from now on: ${names}`,
    }),
    ...together(stops, '-', {
      one: ({ name, from }) => `mail to ${shown(name, domain)} is refused (now it ${meaning(from)})`,
      many: (names) => `${counted(stops.length, 'address')} of ${domain} stop forwarding: ${names}`,
    }),
    ...others.map(({ name, from, to }): PlanLine => {
      const was = from === undefined ? '' : ` (now it ${meaning(from)})`;
      return { sign: '~', text: `mail to ${shown(name, domain)} ${meaning(to)}${was}` };
    }),
  ];
}

interface Words {
  readonly one: (moved: Moved) => string;
  readonly many: (names: string) => string;
}

function together(moved: readonly Moved[], sign: PlanLine['sign'], { one, many }: Words): PlanLine[] {
  const [only, ...more] = moved;
  if (only === undefined) return [];
  return [{ sign, text: more.length === 0 ? one(only) : many(listed(moved.map(({ name }) => name))) }];
}

function shown(name: string, domain: string): string {
  return name.startsWith('*@') ? `any other address of ${domain}` : name;
}

function meaning(route: Route | undefined): string {
  if (route === 'discard') return 'is thrown away';
  return typeof route === 'object' ? `goes to ${listed(route)}` : 'is refused';
}

function routeFrom(value: unknown): Route | undefined {
  if (value === 'reject' || value === 'discard') return value;
  const addresses = stringsOf(value);
  return addresses.length === 0 ? undefined : addresses;
}
