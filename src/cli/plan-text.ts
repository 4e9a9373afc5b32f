/** What a push would do, in sentences: each change of the configuration explained by its effect on mail and visitors. */
import { counted, listed, valueText } from './output.ts';
import { valueAt } from '../config/explain.ts';
import { routeOf, type Route } from '../config/forwarding.ts';
import { parseAddress } from '../lib/addresses.ts';

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

interface Plan {
  readonly changes: readonly PlanChange[];
  /** The whole configuration as it will be. */
  readonly after: unknown;
}

/**
 * A line for each thing that the changes do; several keys of one thing share one. `after` is the whole configuration as it
 * will be, written out with its defaults.
 */
export function planLines(changes: readonly PlanChange[], after: unknown): PlanLine[] {
  const single = changes.flatMap(flattened);
  const groups = Map.groupBy(single, ({ keys }) => subjectOf(keys).join('\0'));
  return [...groups.values()].flatMap((group) => linesOf(group, { changes: single, after }));
}

const PLACES: ReadonlySet<string> = new Set(['domains', 'collections']);
/** Parts of a place whose members have lines of their own. */
const WITHIN: ReadonlySet<string> = new Set(['forms', 'forwarding']);

/** What has a line of its own: a domain, its forwarding, each form, each template. */
function subjectOf(keys: readonly string[]): readonly string[] {
  const [area = '', , part] = keys;
  if (area === 'templates') return keys.slice(0, 2);
  if (!PLACES.has(area)) return keys;
  return part === 'forms' ? keys.slice(0, 4) : part === 'forwarding' ? keys.slice(0, 3) : keys;
}

/** A map that was added or removed as a whole is shown by its members: for a new project that is all of them. */
function flattened(change: PlanChange): PlanChange[] {
  const { keys, from, to, op } = change;
  const [area = '', , part = ''] = keys;
  const isOfMany = keys.length === 1 && (PLACES.has(area) || area === 'templates');
  const isMap = isOfMany || (keys.length === 3 && WITHIN.has(part));
  const isNewPlace = op === 'add' && keys.length === 2 && PLACES.has(area);
  if (op === 'change' || !(isMap || isNewPlace)) return [change];
  const inside = membersOf(to ?? from).flatMap(([key, value]) => {
    const [before, later] = op === 'add' ? [null, value] : [value, null];
    return isMap || WITHIN.has(key) ? flattened({ op, keys: [...keys, key], from: before, to: later }) : [];
  });
  return isMap ? inside : [change, ...inside];
}

function linesOf(group: readonly PlanChange[], plan: Plan): PlanLine[] {
  const [first] = group;
  if (first === undefined) return [];
  const { keys, from, to } = first;
  const [area, name = '', part, id] = keys;
  switch (area) {
    case 'domains':
    case 'collections': {
      const isDomain = area === 'domains';
      const form = `${isDomain ? '' : 'c/'}${name}/${id}`;
      if (part === undefined) return [placeLine(isDomain ? 'domain' : 'collection', first)];
      if (part === 'forwarding') return forwardingLines(name, group, plan);
      if (part !== 'forms') return [keyLine(isDomain ? name : `collection ${name}`, first, 2)];
      return [keys.length === 4 ? wholeFormLine(form, first) : formLine(form, group, plan)];
    }
    case 'templates':
      return [templateLine(name, group)];
    case 'webhooks':
      return webhookLines(first);
    case 'settings':
      // Of a new project the settings are no change that anybody has to look at.
      if (keys.length === 1) return [];
      if (name !== 'rate_limit') return [keyLine('settings', first, 1)];
      return [{ sign: '~', text: `default rate limit of forms: ${rateLimitText(from, to)}` }];
    case 'project':
      if (keys.length > 1) return [keyLine('project', first, 1)];
      return [{ sign: '+', text: `new project ${valueText(valueAt(to, ['name']))}` }];
    default:
      return [keyLine('the configuration', first, 0)];
  }
}

function placeLine(kind: 'domain' | 'collection', { op, keys: [, name], from }: PlanChange): PlanLine {
  const isDomain = kind === 'domain';
  if (op === 'add') {
    const starts = isDomain ? '; forms and mail start once its DNS records are verified' : '';
    return { sign: '+', text: `new ${kind} ${name}${starts}` };
  }
  const forms = membersOf(valueAt(from, ['forms'])).length;
  const addresses = membersOf(valueAt(from, ['forwarding'])).filter(([, to]) => Array.isArray(to)).length;
  const ends = [
    ...(forms > 0 ? [`${counted(forms, 'form')} stop${forms === 1 ? 's' : ''} working`] : []),
    ...(addresses > 0 ? [`${counted(addresses, 'address')} stop${addresses === 1 ? 's' : ''} forwarding`] : []),
  ];
  const effect = ends.length === 0 ? '' : `: ${ends.join(', ')}${isDomain ? '; queued mail is still sent' : ''}`;
  return { sign: '-', text: `remove ${kind} ${name}${effect}` };
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
  ['html', 'HTML'],
  ['html_file', 'HTML file'],
]);

function webhookLines({ from, to }: PlanChange): PlanLine[] {
  const [before, later] = [hooksOf(from), hooksOf(to)];
  const lines = [
    ['+', 'new webhook', [...later.keys()].filter((url) => !before.has(url))],
    ['-', 'remove webhook', [...before.keys()].filter((url) => !later.has(url))],
    [
      '~',
      'webhook with changed events or secret:',
      [...later.keys()].filter((url) => before.has(url) && before.get(url) !== later.get(url)),
    ],
  ] as const;
  const changed = lines.flatMap(([sign, words, urls]): PlanLine[] =>
    urls.length === 0 ? [] : [{ sign, text: `${words} ${listed(urls)}` }],
  );
  return changed.length === 0 && later.size > 0 ? [{ sign: '~', text: 'webhooks: new order' }] : changed;
}

/** All that is said of each, by its address. */
function hooksOf(list: unknown): ReadonlyMap<string, string> {
  const hooks: readonly unknown[] = Array.isArray(list) ? list : [];
  return new Map(hooks.map((hook) => [String(valueAt(hook, ['url'])), JSON.stringify(hook)]));
}

/** A key of which nothing more is known than its values. */
function keyLine(thing: string, { op, keys, from, to }: PlanChange, depth: number): PlanLine {
  const sign = op === 'add' ? '+' : op === 'remove' ? '-' : '~';
  return { sign, text: `${thing}: ${keys.slice(depth).join('.')} ${valueText(from)} → ${valueText(to)}` };
}

/** The members of a map; what else there is has none. */
function membersOf(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
}

/** A text or a list of them, as a list; what else there is counts as none. */
function stringsOf(value: unknown): string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((item) => typeof item === 'string');
}

/** A form that is new or was removed; `id` is `example.com/contact` or `c/partners/signup`. */
function wholeFormLine(id: string, { op, to: form }: PlanChange): PlanLine {
  if (op === 'remove') return { sign: '-', text: `remove form ${id}: submissions are answered with 404` };
  const recipients = stringsOf(valueAt(form, ['to']) ?? valueAt(form, ['email']));
  const mails = recipients.length === 0 ? '' : `, notifies ${listed(recipients)}`;
  return { sign: '+', text: `new form ${id}: POST /${id}${mails}` };
}

/** Everything that changes of one form, on one line. */
function formLine(id: string, own: readonly PlanChange[], plan: Plan): PlanLine {
  const { true: limits = [], false: others = [] } = Object.groupBy(own, ({ keys }) =>
    RATE_LIMITS.has(keys.slice(4).join('.')) ? 'true' : 'false',
  );
  const texts = others.map((change) => {
    const key = change.keys.slice(4).join('.');
    return CHANGE_TEXTS.get(key)?.(change) ?? `${key} ${valueText(change.from)} → ${valueText(change.to)}`;
  });
  const limited = limits.slice(0, 1).map(({ keys }) => `rate limit ${rateLimit(keys.slice(0, 4), plan)}`);
  return { sign: '~', text: `form ${id}: ${[...texts, ...limited].join('; ')}` };
}

const RATE_LIMITS: ReadonlySet<string> = new Set(['rateLimit', 'spam_protection.rate_limit']);

/** The form's own, else its spam protection's, else the project's. */
function rateLimit(form: readonly string[], { changes, after }: Plan): string {
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
  return rateLimitText(before.find(isSet), later.find(isSet));
}

const DEFAULT_RATE_LIMIT = 60;

function rateLimitText(from: unknown, to: unknown): string {
  const [before, later] = [from, to].map((limit) => valueText(limit ?? DEFAULT_RATE_LIMIT));
  return `${before} → ${later} submissions per hour and IP address`;
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

type ChangeText = (change: PlanChange) => string;

const CHANGE_TEXTS: ReadonlyMap<string, ChangeText> = new Map<string, ChangeText>([
  ['to', recipients],
  ['email', recipients],
  ['replies', switched('replies go to the visitor', 'replies no longer go to the visitor')],
  ['replyTo', ({ to }) => (isSet(to) ? `default Reply-To ${valueText(to)}` : 'no default Reply-To')],
  ['required', difference('requires', 'no longer requires')],
  ['allowed_origins', difference('accepts submissions from', 'rejects submissions from')],
  ['webhooks', difference('adds the webhook', 'removes the webhook')],
  ['spam_protection.blocklist', difference('blocks', 'no longer blocks')],
  [
    'spam_protection.level',
    ({ to }) => (to === 'strict' ? 'stricter spam filter (strict)' : `less strict spam filter (${valueText(to)})`),
  ],
  ['spam_protection.content_filter', switched('enables the content filter', 'disables the content filter')],
  [
    'spam_protection.honeypot',
    ({ from, to }) => `honeypot ${valueText(from)} → ${valueText(to)}; change the field in your page as well`,
  ],
  ['spam_protection.challenge', challenge],
  [
    'spam_protection.challenge.provider',
    ({ to }) => `challenge: ${valueText(to)}; change the widget in your page as well`,
  ],
  ['spam_protection.challenge.secret', () => 'new captcha secret'],
  ['acknowledgment', switched('sends acknowledgments', 'no longer sends acknowledgments')],
  ['acknowledgment.enabled', switched('sends acknowledgments', 'no longer sends acknowledgments')],
  ['uploads', switched('accepts files', 'no longer accepts files')],
  ['uploads.enabled', switched('accepts files', 'no longer accepts files')],
  [
    'redirect',
    ({ to }) => (isSet(to) ? `redirects visitors to ${valueText(to)}` : 'shows the built-in thank-you page'),
  ],
]);

/** Without its secret. */
function challenge({ to }: PlanChange): string {
  if (!isSet(to) || to === 'none') return 'no challenge';
  return `challenge: ${valueText(valueAt(to, ['provider']) ?? to)}; pages without it can no longer submit`;
}

function recipients({ from, to }: PlanChange): string {
  const was = isSet(from) ? ` (was ${valueText(from)})` : '';
  return isSet(to) ? `notifies ${valueText(to)}${was}` : `notifies the forwarding address or the owner${was}`;
}

/** A flag; or a map, which is on by being there, unless its `enabled` says no. */
function switched(on: string, off: string): ChangeText {
  return ({ to }) => (isSet(to) && to !== false && valueAt(to, ['enabled']) !== false ? on : off);
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

/** Addresses that begin or stop to forward share a line; each of the others has its own. */
function forwardingLines(domain: string, changes: readonly PlanChange[], { after }: Plan): PlanLine[] {
  const map = membersOf(valueAt(after, ['domains', domain, 'forwarding']));
  const later = Object.fromEntries(map.map(([key, value]) => [key, routeFrom(value) ?? []]));
  const moves = changes.map((change) => {
    const name = change.keys[3] ?? '';
    // What an address loses it may find again: without its tag, or in the catch-all.
    const found = routeOf(later, domain, name.startsWith('*@') ? '' : (parseAddress(name)?.local ?? ''));
    const [from, to] = [routeFrom(change.from), change.to === null ? found : routeFrom(change.to)];
    const starts = from === undefined && typeof to === 'object';
    const stops = typeof from === 'object' && to === undefined;
    const who = name.startsWith('*@') ? `any other address of ${domain}` : name;
    const was = from === undefined ? '' : ` (was ${meaning(from)})`;
    return { name, sign: starts ? '+' : stops ? '-' : '~', text: `mail to ${who} is ${meaning(to)}${was}` } as const;
  });
  return (['+', '-', '~'] as const).flatMap((sign): PlanLine[] => {
    const own = moves.filter((move) => move.sign === sign);
    if (sign === '~' || own.length < 2) return own.map(({ text }) => ({ sign, text }));
    const names = listed(own.map(({ name }) => name));
    const verb = sign === '+' ? 'start' : 'stop';
    return [{ sign, text: `${counted(own.length, 'address')} of ${domain} ${verb} forwarding: ${names}` }];
  });
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
