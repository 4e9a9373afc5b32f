/** The lists of the API as the store reads them. Each is measured with a million rows, and its plan reads no large table whole. */
import { OPERATOR } from '../../src/store/tenants.ts';
import type { Store } from '../../src/store/store.ts';
import {
  countInbox,
  countSubmissions,
  listSubmissions,
  type SubmissionFilter,
} from '../../src/store/submission-list.ts';
import { countMessages, listMessageIds, type ListedKind } from '../../src/store/message-list.ts';
import { listEvents } from '../../src/store/analytics.ts';
import { listInboundLog } from '../../src/store/inbound.ts';
import { RARE_WORD } from './fill.ts';

/** In ms. */
const MAX_LIST_MS = 200;
const MAX_SEARCH_MS = 500;

/** A name, how long it may take, and the reading of a page and its count. */
export type List = readonly [name: string, mostMs: number, read: (store: Store) => Promise<unknown>];

const KINDS: readonly ListedKind[] = ['notification', 'transactional', 'forward'];

function inbox(name: string, filter: Omit<SubmissionFilter, 'tenant'>): List {
  const all = { tenant: OPERATOR, ...filter };
  return [
    `submissions ${name}`,
    filter.text === undefined ? MAX_LIST_MS : MAX_SEARCH_MS,
    async (store) => {
      const { count } = await listSubmissions(store, all, { limit: 50 });
      if (count === undefined) await countSubmissions(store, all);
    },
  ];
}

/** Each is one line: add yours. */
export const LISTS: readonly List[] = [
  inbox('of all forms', {}),
  inbox('of one form', { form: 'shop3.example/form13' }),
  inbox('of a domain', { isWanted: (_, domain) => domain === 'shop3.example' }),
  inbox('unread', { status: 'accepted', unread: true }),
  inbox('spam', { status: 'spam' }),
  inbox('pending', { status: 'pending' }),
  inbox('with files', { files: true }),
  inbox('of a month', { from: Date.now() - 200 * 86_400_000, until: Date.now() - 170 * 86_400_000 }),
  inbox('with a rare word', { text: RARE_WORD }),
  inbox('with a common word', { text: 'lemon' }),
  inbox('with two common words', { text: 'anna lemon' }),
  inbox('with the beginning of a word', { text: 'cust' }),
  inbox('with an address', { text: 'anna.500004@customer4.example' }),
  inbox('with a word, of one form, spam', { text: 'cake', form: 'shop3.example/form13', status: 'spam' }),
  inbox('with no such word', { text: 'nobodywrotethis' }),
  ['counts of submissions', MAX_LIST_MS, (store) => countInbox(store, { tenant: OPERATOR })],
  ['messages', MAX_LIST_MS, (store) => listMessageIds(store, { tenant: OPERATOR, kinds: KINDS }, { limit: 50 })],
  [
    'messages that bounced',
    MAX_LIST_MS,
    (store) => listMessageIds(store, { tenant: OPERATOR, kinds: KINDS, state: 'bounced' }, { limit: 50 }),
  ],
  [
    'messages by text',
    MAX_SEARCH_MS,
    (store) => listMessageIds(store, { tenant: OPERATOR, kinds: KINDS, text: 'submission 5' }, { limit: 50 }),
  ],
  ['count of messages', MAX_LIST_MS, (store) => countMessages(store, { tenant: OPERATOR, kinds: KINDS })],
  [
    'events',
    MAX_LIST_MS,
    (store) => listEvents(store, OPERATOR, { from: 0, until: Date.now(), before: 'evt_~', limit: 50 }),
  ],
  ['inbound', MAX_LIST_MS, (store) => listInboundLog(store, { tenant: OPERATOR }, { limit: 50 })],
];
