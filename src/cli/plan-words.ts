/** What a push would do, in sentences: each change of the configuration told by what it means for mail and for visitors. */
import { membersOf, stringsOf, type PlanChange, type PlanLine } from './plan-data.ts';
import { formLine, newForm, type FormPlace } from './plan-forms.ts';
import { forwardingLines } from './plan-forwarding.ts';
import { counted, listed, valueText } from './words.ts';

/**
 * A line for each thing that the changes do; several keys of one thing share one. `after` is the whole configuration as it
 * will be, written out with its defaults.
 */
export function planLines(changes: readonly PlanChange[], after: unknown): PlanLine[] {
  const single = changes.flatMap(singled);
  const groups = Map.groupBy(single, ({ keys }) => thingOf(keys).join('\0'));
  return [...groups.values()].flatMap((group) => linesOf(group, { changes: single, after }));
}

/** What is told in lines of its own: a domain, its forwarding, each form, each template. */
function thingOf(keys: readonly string[]): readonly string[] {
  const [area, , part] = keys;
  if (area === 'templates') return keys.slice(0, 2);
  if (area !== 'domains' && area !== 'collections') return keys;
  if (part === undefined) return keys;
  return part === 'forms' ? keys.slice(0, 4) : part === 'forwarding' ? keys.slice(0, 3) : keys;
}

/** Maps of many things, each of which is told. */
const OF_MANY: ReadonlySet<string> = new Set(['domains', 'collections', 'templates']);
const WITHIN: ReadonlySet<string> = new Set(['forms', 'forwarding']);

/** A map that came or went as a whole is told by what is in it: of a new project that is all of it. */
function singled(change: PlanChange): PlanChange[] {
  const { keys, from, to, op } = change;
  const [area = '', , part = ''] = keys;
  const isOpened = (keys.length === 1 && OF_MANY.has(area)) || (keys.length === 3 && WITHIN.has(part));
  const members = op === 'change' || !isOpened ? undefined : membersOf(to ?? from);
  if (members !== undefined) {
    return members.flatMap(([key, value]) => {
      const [before, later] = op === 'add' ? [null, value] : [value, null];
      return singled({ op, keys: [...keys, key], from: before, to: later });
    });
  }
  if (op !== 'add' || keys.length !== 2 || (area !== 'domains' && area !== 'collections')) return [change];
  const inside = (membersOf(to) ?? []).filter(([key]) => WITHIN.has(key));
  return [change, ...inside.flatMap(([key, value]) => singled({ op, keys: [...keys, key], from: null, to: value }))];
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
      if (first.keys.length === 4) return [first.op === 'remove' ? goneForm(place.id) : newForm(place.id, first.to)];
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
  return { sign: '+', text: `the project ${valueText(name)} is new` };
}

/** Of a new project the settings are no change that anybody has to look at. */
function settingLines(change: PlanChange): PlanLine[] {
  const { keys, from, to } = change;
  if (keys.length === 1) return [];
  if (keys[1] !== 'rate_limit') return [keyLine('settings', change, 1)];
  const [before, later] = [from, to].map((limit) => valueText(limit ?? 60));
  return [
    { sign: '~', text: `rate limit of forms that set none: ${before} → ${later} submissions an hour from one address` },
  ];
}

function domainLine(name: string, { op, from }: PlanChange): PlanLine {
  if (op === 'add') {
    return { sign: '+', text: `domain ${name} is new: its forms and its mail wait until its DNS records stand` };
  }
  const inside = new Map(membersOf(from));
  const forms = (membersOf(inside.get('forms')) ?? []).length;
  const addresses = (membersOf(inside.get('forwarding')) ?? []).filter(([, to]) => Array.isArray(to)).length;
  const ends = [
    ...(forms > 0 ? [`${counted(forms, 'form')} of it end${forms === 1 ? 's' : ''}`] : []),
    ...(addresses > 0 ? [`${counted(addresses, 'address')} stop${addresses === 1 ? 's' : ''} forwarding`] : []),
  ];
  const effect = ends.length === 0 ? '' : `: ${ends.join(', ')}; what waits is still sent`;
  return { sign: '-', text: `domain ${name} is no longer served${effect}` };
}

function collectionLine(name: string, { op, from }: PlanChange): PlanLine {
  if (op === 'add') return { sign: '+', text: `collection ${name} is new` };
  const forms = (membersOf(new Map(membersOf(from)).get('forms')) ?? []).length;
  return {
    sign: '-',
    text: `collection ${name} is gone: ${counted(forms, 'form')} of it take${forms === 1 ? 's' : ''} no more posts`,
  };
}

function goneForm(id: string): PlanLine {
  return { sign: '-', text: `form ${id} is gone: posts to it are answered 404` };
}

function templateLine(name: string, group: readonly PlanChange[]): PlanLine {
  const [first] = group;
  if (first?.keys.length === 2) {
    return first.op === 'add'
      ? { sign: '+', text: `template ${name} is new` }
      : { sign: '-', text: `template ${name} is gone` };
  }
  const parts = new Set(group.map(({ keys }) => TEMPLATE_PARTS.get(keys[2] ?? '') ?? keys.slice(2).join('.')));
  return { sign: '~', text: `template ${name}: other ${[...parts].join(', ')}` };
}

const TEMPLATE_PARTS: ReadonlyMap<string, string> = new Map([
  ['text', 'text'],
  ['html', 'HTML'],
  ['html_file', 'HTML file'],
]);

function webhookLines({ from, to }: PlanChange): PlanLine[] {
  const [before, later] = [from, to].map(hooksOf);
  if (before === undefined || later === undefined) return [];
  const came = [...later.keys()].filter((url) => !before.has(url));
  const went = [...before.keys()].filter((url) => !later.has(url));
  const other = [...later].filter(([url, hook]) => before.has(url) && before.get(url) !== hook).map(([url]) => url);
  if (later.size > 0 && came.length + went.length + other.length === 0)
    return [{ sign: '~', text: 'webhooks: another order' }];
  return [
    ...(came.length === 0 ? [] : [{ sign: '+', text: `events are posted to ${listed(came)}` } as const]),
    ...(went.length === 0 ? [] : [{ sign: '-', text: `no more events are posted to ${listed(went)}` } as const]),
    ...(other.length === 0 ? [] : [{ sign: '~', text: `other events or another secret: ${listed(other)}` } as const]),
  ];
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
