/**
 * Puts a message into the queue: rows for the caller's own unit, so that what caused the mail and the mail itself are on
 * the disk together or not at all. After that commit, wake the worker.
 */
import { parseAddress } from '../lib/addresses.ts';
import { environmentOf, newId } from '../lib/ids.ts';
import { noteDue } from '../store/destinations.ts';
import { recordEvent } from '../store/events.ts';
import { insertDelivery, insertMessage } from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import type { MessageKind } from '../store/tables.ts';
import { SANDBOX } from './sandbox.ts';

export interface NewMessage {
  readonly tenant: string;
  readonly kind: MessageKind;
  /** The submission that it tells of. */
  readonly submission: string | null;
  /** Of the submission. */
  readonly form?: string;
  /** The domain whose key signs it. */
  readonly domain: string;
  /** For the renderer of its kind; stored as JSON. */
  readonly source: object;
  /** Envelope recipients. */
  readonly recipients: readonly string[];
  /** How long it is tried, ms. */
  readonly ttl: number;
  /** Default: `live`. */
  readonly environment?: 'live' | 'test';
  /** When it is to be sent first, ms; default: at once. */
  readonly sendAt?: number | undefined;
  /** `req_…`: the request that asked for it. */
  readonly request?: string | undefined;
  /** Where it is known already, for lists. */
  readonly subject?: string | undefined;
}

export interface Enqueued {
  readonly id: string;
  /** How many recipients it has, each once. */
  readonly recipients: number;
  /** All of `rows`, then the statements of `dues`. */
  readonly unit: Statement[];
  /** What belongs to this message alone, its own row first. */
  readonly rows: Statement[];
  /** When its destinations are due: `noteDue` of each, sorted by name and last in a unit, because many messages share them. */
  readonly dues: readonly { readonly name: string; readonly due: number }[];
}

/** Kinds of mail that come in large numbers, which wait while there is other mail for the same destination. */
const BULK: ReadonlySet<MessageKind> = new Set(['transactional', 'forward', 'tls_report']);
/** What is kept of a subject beside the message. */
const MAX_SUBJECT = 300;

/** The statements that enqueue the message. Throws TypeError where there is no recipient or one is no address. */
export function enqueue(message: NewMessage, now: number): Enqueued {
  const { tenant, kind, submission, form, domain, sendAt: due = now, request } = message;
  const subject = message.subject === undefined ? null : message.subject.slice(0, MAX_SUBJECT);
  // Whatever caused it: nothing of a test partition leaves.
  const environment = environmentOf(tenant) === 'test' ? 'test' : (message.environment ?? 'live');
  const id = newId('msg', now);
  const recipients = distinct(message.recipients).map(({ address, domain: mailDomain }) => {
    return { address, destination: environment === 'test' ? SANDBOX : mailDomain };
  });
  const destinations = [...new Set(recipients.map(({ destination }) => destination))].sort();
  const shared = { tenant, created_at: now, expires_at: due + message.ttl };
  const turn = { bulk: BULK.has(kind) ? 1 : 0, flow: form ?? kind };
  const source = JSON.stringify(message.source);
  const to = recipients.map(({ address }) => address);
  const data = { kind, recipients: to, ...(environment === 'test' && { environment }) };
  const rows: Statement[] = [
    insertMessage({ id, kind, submission, domain, source, destinations: destinations.length, environment, ...shared }),
    ...recipients.map(({ address: recipient, destination }) =>
      insertDelivery({ id: newId('dlv', now), message: id, recipient, destination, due, subject, ...turn, ...shared }),
    ),
    recordEvent({ type: 'email.queued', tenant, at: now, data, message: id, domain, request, submission, form }),
  ];
  const dues = destinations.map((name) => ({ name, due }));
  return { id, recipients: recipients.length, rows, dues, unit: [...rows, ...dues.map((each) => noteDue(each))] };
}

function distinct(texts: readonly string[]) {
  const addresses = texts.map((text) => {
    const address = parseAddress(text);
    if (address === undefined) throw new TypeError(`not an email address: ${JSON.stringify(text)}`);
    return address;
  });
  if (addresses.length === 0) throw new TypeError('a message needs a recipient');
  return [...new Map(addresses.map((address) => [address.address, address])).values()];
}
