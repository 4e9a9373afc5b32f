/** What a change of a form means for its owner and its visitors. */
import { valueAt } from '../config/explain.ts';
import { membersOf, stringsOf, type PlanChange, type PlanLine } from './plan-data.ts';
import { listed, valueText } from './words.ts';

export interface FormPlace {
  /** As the API names it: `example.com/contact`, `c/partners/signup`. */
  readonly id: string;
  /** Of the whole plan. */
  readonly changes: readonly PlanChange[];
  /** The whole configuration as it will be. */
  readonly after: unknown;
}

/** A form that was not there. */
export function newForm(id: string, form: unknown): PlanLine {
  const members = new Map(membersOf(form));
  const recipients = stringsOf(members.get('to') ?? members.get('email'));
  const mails = recipients.length === 0 ? '' : `, which mails ${listed(recipients)}`;
  return { sign: '+', text: `form ${id} is new: POST /${id}${mails}` };
}

/** Everything that changes of one form, on one line. */
export function formLine({ id, changes, after }: FormPlace, own: readonly PlanChange[]): PlanLine {
  const told = own.flatMap((change) => {
    const key = change.keys.slice(4).join('.');
    if (RATE_LIMITS.has(key)) return [];
    const words = WORDS.get(key);
    return [words?.(change) ?? `${key} ${valueText(change.from)} → ${valueText(change.to)}`];
  });
  const limited = own.find(({ keys }) => RATE_LIMITS.has(keys.slice(4).join('.')));
  if (limited !== undefined) told.push(rateLimit(limited.keys.slice(0, 4), { changes, after }));
  return { sign: '~', text: `form ${id}: ${told.join('; ')}` };
}

const RATE_LIMITS: ReadonlySet<string> = new Set(['rateLimit', 'spam_protection.rate_limit']);
/** Where none of the three keys says otherwise. */
const USUAL_LIMIT = 60;

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
  const [from, to] = [before, later].map((limits) => valueText(limits.find(isSet) ?? USUAL_LIMIT));
  return `rate limit ${from} → ${to} submissions an hour from one address`;
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

type Words = (change: PlanChange) => string;

const WORDS: ReadonlyMap<string, Words> = new Map<string, Words>([
  ['name', ({ from, to }) => `is called ${valueText(to)} (now ${valueText(from)})`],
  ['to', recipients],
  ['email', recipients],
  ['template', ({ from, to }) => `uses the template ${valueText(to)} (now ${valueText(from)})`],
  ['replies', ({ to }) => (to === true ? 'answers go to the visitor' : 'answers no longer go to the visitor')],
  ['replyTo', ({ to }) => (isSet(to) ? `other answers go to ${valueText(to)}` : 'other answers go to the sender')],
  ['required', ({ from, to }) => difference({ from, to, came: 'demands', went: 'no longer demands' })],
  [
    'allowed_origins',
    ({ from, to }) => difference({ from, to, came: 'takes posts from pages of', went: 'refuses posts from pages of' }),
  ],
  ['webhooks', ({ from, to }) => difference({ from, to, came: 'posts to', went: 'no longer posts to' })],
  ['spam_protection.blocklist', ({ from, to }) => difference({ from, to, came: 'blocks', went: 'no longer blocks' })],
  [
    'spam_protection.level',
    ({ to }) => (to === 'strict' ? 'takes more for spam (strict)' : `takes less for spam (${valueText(to)})`),
  ],
  [
    'spam_protection.content_filter',
    ({ to }) => (to === true ? 'judges what is written' : 'no longer judges what is written'),
  ],
  [
    'spam_protection.honeypot',
    ({ from, to }) => `the honeypot is ${valueText(to)} (now ${valueText(from)}), which its page has to follow`,
  ],
  ['acknowledgment', switched('enabled', 'thanks the visitor by mail', 'no longer thanks the visitor by mail')],
  ['acknowledgment.enabled', ({ to }) => (to === true ? 'thanks' : 'no longer thanks') + ' the visitor by mail'],
  ['uploads', switched('enabled', 'takes files', 'no longer takes files')],
  ['uploads.enabled', ({ to }) => (to === true ? 'takes files' : 'no longer takes files')],
  ['redirect', ({ to }) => (isSet(to) ? `sends visitors on to ${valueText(to)}` : 'shows our thank-you page')],
]);

function recipients({ from, to }: PlanChange): string {
  const was = isSet(from) ? ` (now ${valueText(from)})` : '';
  return isSet(to) ? `mails ${valueText(to)}${was}` : `mails whom forwarding names, else the owner${was}`;
}

/** A map that is on by being there, unless its `key` says no. */
function switched(key: string, on: string, off: string): Words {
  return ({ to }) => (isSet(to) && valueAt(to, [key]) !== false ? on : off);
}

interface Difference {
  readonly from: unknown;
  readonly to: unknown;
  /** Before those that came and those that went. */
  readonly came: string;
  readonly went: string;
}

function difference({ from, to, came, went }: Difference): string {
  const [before, later] = [stringsOf(from), stringsOf(to)];
  const more = later.filter((item) => !before.includes(item));
  const less = before.filter((item) => !later.includes(item));
  const parts = [
    ...(more.length === 0 ? [] : [`${came} ${listed(more)}`]),
    ...(less.length === 0 ? [] : [`${went} ${listed(less)}`]),
  ];
  return parts.length === 0 ? `another order: ${listed(later)}` : parts.join(', ');
}
