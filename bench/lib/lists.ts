/** The lists of the API, as the operator asks for them. Each is measured with a million rows, and its plans read no large table whole. */
import { RARE_WORD } from './fill.ts';

/** In ms. */
const MAX_LIST_MS = 200;
const MAX_SEARCH_MS = 500;
const DAY_MS = 86_400_000;

/** Tables that grow with each submission or message, as alternatives of a regular expression: no list reads one of them whole. */
export const LARGE =
  'submissions|messages|deliveries|attempts|events|event_counts|inbound_log|submission_documents|submission_files';

/** A name, how long it may take, and the address; `round` counts from 0, for what is kept from one request to the next. */
export type List = readonly [name: string, mostMs: number, path: (round: number) => string];

/** The first page, as long as it is by default. */
function list(name: string, path: string, query: Readonly<Record<string, string>> = {}): List {
  const search = new URLSearchParams(query);
  return [name, 'q' in query ? MAX_SEARCH_MS : MAX_LIST_MS, () => `${path}?${search.toString()}`];
}

function inbox(name: string, query: Readonly<Record<string, string>>): List {
  return list(`submissions ${name}`, '/submissions', query);
}

function figures(name: string, interval: string, days: number): List {
  const from = new Date(Date.now() - days * DAY_MS).toISOString();
  const search = new URLSearchParams({ interval, scope: 'server', from });
  return [name, MAX_LIST_MS, () => `/analytics?${search.toString()}`];
}

/** The day begins a little earlier each time: the figures of a day are kept for seconds. */
function overviewFrom(round: number): string {
  return `/overview?from=${encodeURIComponent(new Date(Date.now() - DAY_MS - round * 1000).toISOString())}`;
}

/** Each is one line: add yours. */
export const LISTS: readonly List[] = [
  ['overview', MAX_LIST_MS, overviewFrom],
  figures('figures of 7 days', 'hour', 7),
  figures('figures of 12 months', 'month', 365),
  inbox('of all forms', {}),
  inbox('of one form', { form: 'shop3.example/form13' }),
  inbox('of a domain', { domain: 'shop3.example' }),
  inbox('unread', { status: 'accepted', unread: 'true' }),
  inbox('spam', { status: 'spam' }),
  inbox('pending', { status: 'pending' }),
  inbox('with files', { files: 'true' }),
  inbox('of a month', {
    from: new Date(Date.now() - 200 * DAY_MS).toISOString(),
    to: new Date(Date.now() - 170 * DAY_MS).toISOString(),
  }),
  inbox('with a rare word', { q: RARE_WORD }),
  inbox('with a common word', { q: 'lemon' }),
  inbox('with two common words', { q: 'anna lemon' }),
  inbox('with the beginning of a word', { q: 'cust' }),
  inbox('with an address', { q: 'anna.500004@customer4.example' }),
  inbox('with a word, of one form, spam', { q: 'cake', form: 'shop3.example/form13', status: 'spam' }),
  inbox('with no such word', { q: 'nobodywrotethis' }),
  list('counts of submissions', '/submissions/counts'),
  list('messages', '/messages'),
  list('messages that bounced', '/messages', { state: 'bounced' }),
  list('messages by text', '/messages', { q: 'submission 5' }),
  list('messages by a text that none has', '/messages', { q: 'nobodywrotethis' }),
  list('events', '/events'),
  list('events of a type', '/events', { type: 'email.bounced' }),
  list('inbound', '/inbound'),
  list('inbound that was rejected', '/inbound', { outcome: 'rejected' }),
  list('inbound for a recipient', '/inbound', { recipient: 'info@shop3.example' }),
  list('deliveries in the queue', '/admin/queue'),
  list('destinations', '/admin/queue/destinations'),
  list('forms', '/forms'),
  list('accounts', '/admin/tenants'),
];
