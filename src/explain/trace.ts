/**
 * The whole way of one thing, from the request (or the message that came in) to the last reply: found from any id on the
 * way. Only what is kept is told; events and attempts are forgotten after their time.
 */
import { z } from 'zod';
import { attemptsOfMessage } from '../store/attempts.ts';
import { deliveriesOfMessages, findDelivery } from '../store/deliveries.ts';
import { findInbound } from '../store/inbound.ts';
import { findMessage, findMessages } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import { findSubmission } from '../store/submissions.ts';
import type { EventRow, MessageRow, SubmissionRow } from '../store/tables.ts';
import type { InboundRow } from '../store/tables-inbound.ts';
import {
  eventsOfMessages,
  eventsOfRequest,
  eventsOfSubmission,
  findEvent,
  messagesOfSubmission,
  postsOfEvents,
} from '../store/trace.ts';
import { timeline, type Entry } from './timeline.ts';

export interface Trace {
  /** As it was asked. */
  readonly id: string;
  /** `req_…`, where what it caused has told of it. */
  readonly request: string | null;
  readonly submission: string | null;
  readonly messages: readonly string[];
  /** Oldest first. */
  readonly timeline: readonly Entry[];
}

/** What an id leads to. */
interface Roots {
  readonly submissions?: readonly SubmissionRow[];
  readonly inbound?: InboundRow | undefined;
  readonly messages?: readonly MessageRow[];
  /** Of all deliveries only this one. */
  readonly delivery?: string;
  readonly events?: readonly EventRow[];
}

/** Follows a request, submission, message, delivery, event or inbound message by its id, or a Message-ID of ours; undefined where nothing is known of it. */
export async function trace(store: Store, id: string): Promise<Trace | undefined> {
  const roots = await rootsOf(store, id);
  return roots && tell(store, id, roots);
}

async function rootsOf(store: Store, id: string): Promise<Roots | undefined> {
  const [, ours] = /^<?([0-9a-z]{26})@[^>]+>?$/.exec(id) ?? [];
  if (ours !== undefined) return fromMessage(store, `msg_${ours}`);
  switch (id.slice(0, 4)) {
    case 'req_':
      return fromEvents(store, await eventsOfRequest(store, id));
    case 'sub_':
      return fromSubmission(store, id);
    case 'msg_':
      return fromMessage(store, id);
    case 'dlv_': {
      const delivery = await findDelivery(store, id);
      const roots = delivery && (await fromMessage(store, delivery.message));
      return roots && { ...roots, delivery: id };
    }
    case 'evt_': {
      const event = await findEvent(store, id);
      return event && fromEvents(store, [event]);
    }
    case 'inb_': {
      const inbound = await findInbound(store, id);
      return inbound && { inbound, messages: await messagesOf(store, readIds(inbound.messages)) };
    }
    default:
      return undefined;
  }
}

async function fromEvents(store: Store, events: readonly EventRow[]): Promise<Roots | undefined> {
  const [event] = events;
  if (event === undefined) return undefined;
  if (event.submission !== null) {
    const roots = await fromSubmission(store, event.submission);
    if (roots !== undefined) return roots;
  }
  const ids = [...new Set(events.flatMap(({ message }) => message ?? []))];
  const [only] = ids;
  if (only !== undefined && ids.length === 1) return (await fromMessage(store, only)) ?? { events };
  return { events, messages: await messagesOf(store, ids) };
}

async function fromSubmission(store: Store, id: string): Promise<Roots | undefined> {
  const submission = await findSubmission(store, id);
  return submission && { submissions: [submission], messages: await messagesOfSubmission(store, id) };
}

async function fromMessage(store: Store, id: string): Promise<Roots | undefined> {
  const message = await findMessage(store, id);
  if (message === undefined) return undefined;
  const submission = message.submission === null ? undefined : await findSubmission(store, message.submission);
  const came = cameAs(message);
  const inbound = came === undefined ? undefined : await findInbound(store, came);
  return { messages: [message], inbound, submissions: submission === undefined ? [] : [submission] };
}

const source = z.object({ inbound: z.string().optional(), raw: z.string().optional() });

/** `inb_…`, where the message is made of one that came in by SMTP: to be forwarded, as an answer, or from a program. */
function cameAs({ kind, source: json }: MessageRow): string | undefined {
  if (kind !== 'forward' && kind !== 'reply' && kind !== 'transactional') return undefined;
  const { inbound, raw } = source.parse(JSON.parse(json));
  return inbound ?? raw;
}

async function messagesOf(store: Store, ids: readonly string[]): Promise<MessageRow[]> {
  return [...(await findMessages(store, ids)).values()];
}

function readIds(json: string): string[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nobody but smtp/accept writes it
  return JSON.parse(json) as string[];
}

async function tell(store: Store, id: string, roots: Roots): Promise<Trace> {
  const { submissions = [], messages = [], inbound, delivery } = roots;
  const ids = messages.map((message) => message.id);
  const accepted = await Promise.all(submissions.map((submission) => eventsOfSubmission(store, submission)));
  const told = [
    // Also of a message that is forgotten already.
    ...(roots.events ?? []),
    ...accepted.flat().filter(({ message }) => message === null || ids.includes(message)),
    ...(await eventsOfMessages(store, ids)),
  ];
  const events = [...new Map(told.map((event) => [event.id, event])).values()];
  const tenants = Map.groupBy(events, ({ tenant }) => tenant);
  const posts = await Promise.all(
    Array.from(tenants, ([tenant, own]) =>
      postsOfEvents(
        store,
        tenant,
        own.map((event) => event.id),
      ),
    ),
  );
  const deliveries = (await deliveriesOfMessages(store, ids)).filter(
    (row) => delivery === undefined || row.id === delivery,
  );
  const attempts = await Promise.all(ids.map((message) => attemptsOfMessage(store, message)));
  return {
    id,
    request: events.find(({ request }) => request !== null)?.request ?? null,
    submission: submissions[0]?.id ?? messages[0]?.submission ?? null,
    messages: ids,
    timeline: timeline({
      submissions,
      inbound,
      messages,
      deliveries,
      attempts: attempts.flat(),
      events,
      posts: posts.flat(),
    }),
  };
}
