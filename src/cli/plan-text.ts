/** What a push would do, in sentences: each change of the configuration explained by its effect on mail and visitors. */
import { counted, listed, valueText } from './output.ts';
import { valueAt } from '../config/explain.ts';
import { routeOf, type Route } from '../config/forwarding.ts';
import { parseAddress } from '../lib/addresses.ts';

/**
 * A line for each thing that the changes do; several keys of one thing share one. `after` is the whole configuration as it
 * will be, written out with its defaults.
 */
export function planLines(changes: readonly PlanChange[], after: unknown): PlanLine[] {
  const single = changes.flatMap(flattened);
  const groups = Map.groupBy(single, ({ keys }) => subjectOf(keys).join('\0'));
  return [...groups.values()].flatMap((group) => linesOf(group, { changes: single, after }));
}

/** What has lines of its own: a domain, its forwarding, each form, each template. */
function subjectOf(keys: readonly string[]): readonly string[] {
  const [area, , part] = keys;
  if (area === 'templates') return keys.slice(0, 2);
  if (area !== 'domains' && area !== 'collections') return keys;
  if (part === undefined) return keys;
  return part === 'forms' ? keys.slice(0, 4) : part === 'forwarding' ? keys.slice(0, 3) : keys;
}

/** Maps of many things, each of which has a line. */
const OF_MANY: ReadonlySet<string> = new Set(['domains', 'collections', 'templates']);
const WITHIN: ReadonlySet<string> = new Set(['forms', 'forwarding']);

/** A map that was added or removed as a whole is shown by its members: for a new project that is all of them. */
function flattened(change: PlanChange): PlanChange[] {
  const { keys, from, to, op } = change;
  const [area = '', , part = ''] = keys;
  const isOpened = (keys.length === 1 && OF_MANY.has(area)) || (keys.length === 3 && WITHIN.has(part));
  const members = op === 'change' || !isOpened ? undefined : membersOf(to ?? from);
  if (members !== undefined) {
    return members.flatMap(([key, value]) => {
      const [before, later] = op === 'add' ? [null, value] : [value, null];
      return flattened({ op, keys: [...keys, key], from: before, to: later });
    });
  }
  if (op !== 'add' || keys.length !== 2 || (area !== 'domains' && area !== 'collections')) return [change];
  const inside = (membersOf(to) ?? []).filter(([key]) => WITHIN.has(key));
  return [change, ...inside.flatMap(([key, value]) => flattened({ op, keys: [...keys, key], from: null, to: value }))];
}

function linesOf(group: readonly PlanChange[], { changes, after }: Omit<FormPlace, 'id'>): PlanLine[] {
  const [first] = group;
  if (first === undefined) return [];
  const [area, name = '', part, id] = first.keys;
  switch (area) {
    case 'domains':
    case 'collections': {
      const place = { id: `${area === 'domains' ? '' : 'c/'}${name}/${id}`, changes, after };
      if (part === undefined) return [area === 'domains' ? domainLine(name, first) : collectionLine(name, first)];
      if (part === 'forwarding') return forwardingLines({ domain: name, changes: group, after });
      if (part !== 'forms') return [keyLine(`${area === 'domains' ? '' : 'collection '}${name}`, first, 2)];
      if (first.keys.length === 4) return [first.op === 'remove' ? removedForm(place.id) : newForm(place.id, first.to)];
      return [formLine(place, group)];
    }
    case 'templates':
      return [templateLine(name, group)];
    case 'webhooks':
      return webhookLines(first);
    case 'settings':
      return settingLines(first);
    case 'project':
      return [projectLine(first)];
    default:
      return [keyLine('the configuration', first, 0)];
  }
}

function projectLine(change: PlanChange): PlanLine {
  if (change.keys.length > 1) return keyLine('project', change, 1);
  const [, name = ''] = membersOf(change.to)?.find(([key]) => key === 'name') ?? [];
  return { sign: '+', text: `new project ${valueText(name)}` };
}

/** Of a new project the settings are no change that anybody has to look at. */
function settingLines(change: PlanChange): PlanLine[] {
  const { keys, from, to } = change;
  if (keys.length === 1) return [];
  if (keys[1] !== 'rate_limit') return [keyLine('settings', change, 1)];
  const [before, later] = [from, to].map((limit) => valueText(limit ?? 60));
  return [{ sign: '~', text: `default rate limit of forms: ${before} → ${later} submissions per hour and IP address` }];
}

function domainLine(name: string, { op, from }: PlanChange): PlanLine {
  if (op === 'add') {
    return { sign: '+', text: `new domain ${name}; forms and mail start once its DNS records are verified` };
  }
  const inside = new Map(membersOf(from));
  const forms = (membersOf(inside.get('forms')) ?? []).length;
  const addresses = (membersOf(inside.get('forwarding')) ?? []).filter(([, to]) => Array.isArray(to)).length;
  const ends = [
    ...(forms > 0 ? [`${counted(forms, 'form')} stop${forms === 1 ? 's' : ''} working`] : []),
    ...(addresses > 0 ? [`${counted(addresses, 'address')} stop${addresses === 1 ? 's' : ''} forwarding`] : []),
  ];
  const effect = ends.length === 0 ? '' : `: ${ends.join(', ')}; queued mail is still sent`;
  return { sign: '-', text: `remove domain ${name}${effect}` };
}

function collectionLine(name: string, { op, from }: PlanChange): PlanLine {
  if (op === 'add') return { sign: '+', text: `new collection ${name}` };
  const forms = (membersOf(new Map(membersOf(from)).get('forms')) ?? []).length;
  return {
    sign: '-',
    text: `remove collection ${name}: ${counted(forms, 'form')} stop${forms === 1 ? 's' : ''} working`,
  };
}

function removedForm(id: string): PlanLine {
  return { sign: '-', text: `remove form ${id}: submissions are answered with 404` };
}

function templateLine(name: string, group: readonly PlanChange[]): PlanLine {
  const [first] = group;
  if (first?.keys.length === 2) {
    return first.op === 'add'
      ? { sign: '+', text: `new template ${name}` }
      : { sign: '-', text: `remove template ${name}` };
  }
  const parts = new Set(group.map(({ keys }) => TEMPLATE_PARTS.get(keys[2] ?? '') ?? keys.slice(2).join('.')));
  return { sign: '~', text: `template ${name}: changed ${[...parts].join(', ')}` };
}

const TEMPLATE_PARTS: ReadonlyMap<string, string> = new Map([
  ['text', 'text'],
  ['html', 'HTML'],
  ['html_file', 'HTML file'],
]);

function webhookLines({ from, to }: PlanChange): PlanLine[] {
  const [before, later] = [from, to].map(hooksOf);
  if (before === undefined || later === undefined) return [];
  const added = [...later.keys()].filter((url) => !before.has(url));
  const removed = [...before.keys()].filter((url) => !later.has(url));
  const other = [...later].filter(([url, hook]) => before.has(url) && before.get(url) !== hook).map(([url]) => url);
  const lines = [
    { sign: '+', words: 'new webhook', urls: added },
    { sign: '-', words: 'remove webhook', urls: removed },
    { sign: '~', words: 'webhook with changed events or secret:', urls: other },
  ] as const;
  const told = lines.flatMap(({ sign, words, urls }): PlanLine[] =>
    urls.length === 0 ? [] : [{ sign, text: `${words} ${listed(urls)}` }],
  );
  return told.length === 0 && later.size > 0 ? [{ sign: '~', text: 'webhooks: new order' }] : told;
}

/** All that is said of each, by its address. */
function hooksOf(list: unknown): ReadonlyMap<string, string> {
  const hooks: readonly unknown[] = Array.isArray(list) ? list : [];
  return new Map(hooks.map((hook) => [stringsOf(new Map(membersOf(hook)).get('url'))[0] ?? '', JSON.stringify(hook)]));
}

/** A key of which nothing more is known than its values. */
function keyLine(thing: string, { op, keys, from, to }: PlanChange, depth: number): PlanLine {
  const sign = op === 'add' ? '+' : op === 'remove' ? '-' : '~';
  return { sign, text: `${thing}: ${keys.slice(depth).join('.')} ${valueText(from)} → ${valueText(to)}` };
}

/** A key that was added (`from` is null), removed (`to` is null) or changed. */
export interface PlanChange {
  readonly op: 'add' | 'remove' | 'change';
  readonly keys: readonly string[];
  readonly from: unknown;
  readonly to: unknown;
}

export interface PlanLine {
  readonly sign: '+' | '-' | '~';
  readonly text: string;
}

/** The members of a map, or undefined where it is none. */
function membersOf(value: unknown): [string, unknown][] | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined;
}

/** A text or a list of them, as a list; what else there is counts as none. */
function stringsOf(value: unknown): string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((item) => typeof item === 'string');
}

export interface FormPlace {
  /** As the API names it: `example.com/contact`, `c/partners/signup`. */
  readonly id: string;
  /** Of the whole plan. */
  readonly changes: readonly PlanChange[];
  /** The whole configuration as it will be. */
  readonly after: unknown;
}

/** A form that was not there. */
function newForm(id: string, form: unknown): PlanLine {
  const members = new Map(membersOf(form));
  const recipients = stringsOf(members.get('to') ?? members.get('email'));
  const mails = recipients.length === 0 ? '' : `, notifies ${listed(recipients)}`;
  return { sign: '+', text: `new form ${id}: POST /${id}${mails}` };
}

/** Everything that changes of one form, on one line. */
function formLine({ id, changes, after }: FormPlace, own: readonly PlanChange[]): PlanLine {
  const texts = own.flatMap((change) => {
    const key = change.keys.slice(4).join('.');
    if (RATE_LIMITS.has(key)) return [];
    const words = CHANGE_TEXTS.get(key);
    return [words?.(change) ?? `${key} ${valueText(change.from)} → ${valueText(change.to)}`];
  });
  const limited = own.find(({ keys }) => RATE_LIMITS.has(keys.slice(4).join('.')));
  if (limited !== undefined) texts.push(rateLimit(limited.keys.slice(0, 4), { changes, after }));
  return { sign: '~', text: `form ${id}: ${texts.join('; ')}` };
}

const RATE_LIMITS: ReadonlySet<string> = new Set(['rateLimit', 'spam_protection.rate_limit']);
/** Where none of the three keys says otherwise. */
const DEFAULT_RATE_LIMIT = 60;

/** The form's own, else its spam protection's, else the project's. */
function rateLimit(form: readonly string[], { changes, after }: Pick<FormPlace, 'changes' | 'after'>): string {
  const places = [
    [...form, 'rateLimit'],
    [...form, 'spam_protection', 'rate_limit'],
    ['settings', 'rate_limit'],
  ];
  const later = places.map((place) => valueAt(after, place));
  const before = places.map((place, i) => {
    const change = changes.find(({ keys }) => keys.join('\0') === place.join('\0'));
    return change === undefined ? later[i] : change.from;
  });
  const [from, to] = [before, later].map((limits) => valueText(limits.find(isSet) ?? DEFAULT_RATE_LIMIT));
  return `rate limit ${from} → ${to} submissions per hour and IP address`;
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

type ChangeText = (change: PlanChange) => string;

const CHANGE_TEXTS: ReadonlyMap<string, ChangeText> = new Map<string, ChangeText>([
  ['to', recipients],
  ['email', recipients],
  ['replies', chosen('replies go to the visitor', 'replies no longer go to the visitor')],
  ['replyTo', ({ to }) => (isSet(to) ? `default Reply-To ${valueText(to)}` : 'no default Reply-To')],
  ['required', difference('requires', 'no longer requires')],
  ['allowed_origins', difference('accepts submissions from', 'rejects submissions from')],
  ['webhooks', difference('adds the webhook', 'removes the webhook')],
  ['spam_protection.blocklist', difference('blocks', 'no longer blocks')],
  [
    'spam_protection.level',
    ({ to }) => (to === 'strict' ? 'stricter spam filter (strict)' : `less strict spam filter (${valueText(to)})`),
  ],
  ['spam_protection.content_filter', chosen('enables the content filter', 'disables the content filter')],
  [
    'spam_protection.honeypot',
    ({ from, to }) => `honeypot ${valueText(from)} → ${valueText(to)}; change the field in your page as well`,
  ],
  ['acknowledgment', switched('sends acknowledgments', 'no longer sends acknowledgments')],
  ['acknowledgment.enabled', chosen('sends acknowledgments', 'no longer sends acknowledgments')],
  ['uploads', switched('accepts files', 'no longer accepts files')],
  ['uploads.enabled', chosen('accepts files', 'no longer accepts files')],
  [
    'redirect',
    ({ to }) => (isSet(to) ? `redirects visitors to ${valueText(to)}` : 'shows the built-in thank-you page'),
  ],
]);

function recipients({ from, to }: PlanChange): string {
  const was = isSet(from) ? ` (was ${valueText(from)})` : '';
  return isSet(to) ? `notifies ${valueText(to)}${was}` : `notifies the forwarding address or the owner${was}`;
}

function chosen(on: string, off: string): ChangeText {
  return ({ to }) => (to === true ? on : off);
}

/** A map that is on by being there, unless its `enabled` says no. */
function switched(on: string, off: string): ChangeText {
  return ({ to }) => (isSet(to) && valueAt(to, ['enabled']) !== false ? on : off);
}

/** A list: the words before what was added to it and what was removed. */
function difference(added: string, removed: string): ChangeText {
  return ({ from, to }) => {
    const [before, later] = [stringsOf(from), stringsOf(to)];
    const more = later.filter((item) => !before.includes(item));
    const less = before.filter((item) => !later.includes(item));
    const parts = [
      ...(more.length === 0 ? [] : [`${added} ${listed(more)}`]),
      ...(less.length === 0 ? [] : [`${removed} ${listed(less)}`]),
    ];
    return parts.length === 0 ? `new order: ${listed(later)}` : parts.join(', ');
  };
}

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
function forwardingLines({ domain, changes, after }: ForwardingChange): PlanLine[] {
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
    ...grouped(starts, '+', {
      one: ({ name, to }) => `mail to ${shown(name, domain)} is ${meaning(to)}`,
      many: (names) => `${counted(starts.length, 'address')} of ${domain} start forwarding: ${names}`,
    }),
    ...grouped(stops, '-', {
      one: ({ name, from }) => `mail to ${shown(name, domain)} is rejected (was ${meaning(from)})`,
      many: (names) => `${counted(stops.length, 'address')} of ${domain} stop forwarding: ${names}`,
    }),
    ...others.map(({ name, from, to }): PlanLine => {
      const was = from === undefined ? '' : ` (was ${meaning(from)})`;
      return { sign: '~', text: `mail to ${shown(name, domain)} is ${meaning(to)}${was}` };
    }),
  ];
}

interface ForwardingTexts {
  readonly one: (moved: Moved) => string;
  readonly many: (names: string) => string;
}

function grouped(moved: readonly Moved[], sign: PlanLine['sign'], { one, many }: ForwardingTexts): PlanLine[] {
  const [only, ...more] = moved;
  if (only === undefined) return [];
  return [{ sign, text: more.length === 0 ? one(only) : many(listed(moved.map(({ name }) => name))) }];
}

function shown(name: string, domain: string): string {
  return name.startsWith('*@') ? `any other address of ${domain}` : name;
}

function meaning(route: Route | undefined): string {
  if (route === 'discard') return 'discarded';
  return typeof route === 'object' ? `forwarded to ${listed(route)}` : 'rejected';
}

function routeFrom(value: unknown): Route | undefined {
  if (value === 'reject' || value === 'discard') return value;
  const addresses = stringsOf(value);
  return addresses.length === 0 ? undefined : addresses;
}
