/** The operator's view of the queue and the hand on it, as `queue/operate` has them. */
import { isoTime, type Clock } from '../../lib/clock.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { cancel, hold, listDeliveries, release, retryNow, showMessage, type Operated } from '../../queue/operate.ts';
import { countDeliveries } from '../../store/deliveries.ts';
import type { Store } from '../../store/store.ts';
import type { AttemptRow, DeliveryRow, DeliveryState, MessageRow } from '../../store/tables.ts';
import { json, type Answer } from '../answer.ts';
import { isJson } from '../body.ts';
import { collect } from '../collect.ts';
import { refuse, type Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import { parseJsonObject } from '../json-entries.ts';
import { readListing } from './listing.ts';

export interface AdminQueueParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Tells the queue that there may be something to do. */
  readonly wake: () => void;
}

type Outcome = Promise<Answer | Refusal>;

export interface AdminQueue {
  list(exchange: Exchange): Outcome;
  show(exchange: Exchange, id: string): Outcome;
  retry(exchange: Exchange, id: string): Outcome;
  cancel(exchange: Exchange, id: string): Outcome;
  hold(exchange: Exchange): Outcome;
  release(exchange: Exchange): Outcome;
}

const STATES: ReadonlySet<string> = new Set<DeliveryState>([
  'queued',
  'sending',
  'deferred',
  'delivered',
  'bounced',
  'expired',
  'cancelled',
  'suppressed',
  'captured',
]);
const LARGEST_BODY = 64 * 1024;

/** The handlers of `/admin/queue…`. */
export function adminQueue({ store, clock, wake }: AdminQueueParts): AdminQueue {
  async function list({ query }: Exchange): Outcome {
    const parameters = new URLSearchParams(query);
    const listing = readListing(parameters, 'dlv');
    if ('kind' in listing) return listing;
    const state = parameters.get('state') ?? undefined;
    if (state !== undefined && !isState(state)) return invalid('state', `must be one of ${[...STATES].join(', ')}`);
    const destination = domainOf(parameters.get('domain'));
    if (destination === null) return invalid('domain', 'must be a domain name such as example.com');
    const filter = { ...(state && { state }), ...(destination && { destination }) };
    const { cursor, limit } = listing;
    const page = await listDeliveries(store, { ...filter, ...(cursor && { before: cursor }), limit });
    const count = await countDeliveries(store, filter);
    return json({ deliveries: page.deliveries.map(shownDelivery), count, next_cursor: page.next });
  }

  async function show(_: Exchange, id: string): Outcome {
    const shown = await showMessage(store, id);
    if (shown === undefined)
      return refuse('NOT_FOUND', { message: `There is no message or delivery ${id.slice(0, 60)}.` });
    const deliveries = shown.deliveries.map((row) => ({ ...shownDelivery(row), tries: row.tries.map(shownAttempt) }));
    return json({ message: shownMessage(shown.message), deliveries });
  }

  async function operate(id: string, operation: typeof retryNow): Outcome {
    const operated = await operation(store, id, clock.now());
    if (operated.kind === 'done') wake();
    return answerFor(operated, id);
  }

  async function steer(exchange: Exchange, operation: typeof hold): Outcome {
    const body = await readDomain(exchange);
    if (typeof body !== 'string') return body;
    await operation(store, body);
    wake();
    return json({ destination: body, held: operation === hold });
  }

  return {
    list,
    show,
    retry: (_, id) => operate(id, retryNow),
    cancel: (_, id) => operate(id, cancel),
    hold: (exchange) => steer(exchange, hold),
    release: (exchange) => steer(exchange, release),
  };
}

function answerFor(operated: Operated, id: string): Answer | Refusal {
  switch (operated.kind) {
    case 'done':
      return json({ deliveries: operated.deliveries });
    case 'not-waiting':
      return refuse('CONFLICT', { message: `Nothing of it waits: ${[...new Set(operated.states)].join(', ')}.` });
    case 'unknown':
      return refuse('NOT_FOUND', { message: `There is no message or delivery ${id.slice(0, 60)}.` });
  }
}

function isState(text: string): text is DeliveryState {
  return STATES.has(text);
}

/** The domain; undefined where none is given, null where it is none. */
function domainOf(text: string | null): string | undefined | null {
  return text === null ? undefined : (parseDomain(text) ?? null);
}

function invalid(field: string, message: string): Refusal {
  return refuse('VALIDATION_FAILED', { errors: [{ field, code: 'TYPE_TEXT', message: `${field} ${message}.` }] });
}

/** The destination that a body `{ "domain": "example.com" }` names. */
async function readDomain({ request }: Exchange): Promise<string | Refusal> {
  if (!isJson(request.headers['content-type'])) {
    return refuse('UNSUPPORTED_MEDIA_TYPE', {
      message: 'Send application/json.',
      headers: { Accept: 'application/json' },
    });
  }
  const bytes = await collect(request, LARGEST_BODY);
  if (bytes === undefined) return refuse('BODY_TOO_LARGE');
  const { entries, refusal } = parseJsonObject(bytes.toString('utf8'), { fields: 100, field: LARGEST_BODY });
  if (refusal !== undefined) return refusal;
  const domain = domainOf(entries.find(([name]) => name === 'domain')?.[1] ?? null);
  return domain ?? invalid('domain', 'must be a domain name such as example.com');
}

function shownDelivery(row: DeliveryRow): object {
  const { id, message, tenant, recipient, destination, state, attempts, last_reply } = row;
  const { next_attempt_at, created_at, expires_at, settled_at } = row;
  return {
    id,
    message,
    tenant,
    recipient,
    destination,
    state,
    attempts,
    next_attempt_at: timeOf(next_attempt_at),
    last_reply,
    created_at: timeOf(created_at),
    expires_at: timeOf(expires_at),
    settled_at: timeOf(settled_at),
  };
}

function shownMessage({ id, tenant, kind, submission, domain, size, created_at, expires_at }: MessageRow): object {
  return { id, tenant, kind, submission, domain, size, created_at: timeOf(created_at), expires_at: timeOf(expires_at) };
}

function shownAttempt({ number, at, host, address, tls, outcome, reply }: AttemptRow): object {
  return { number, at: timeOf(at), host, address, tls, outcome, reply };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms);
}
