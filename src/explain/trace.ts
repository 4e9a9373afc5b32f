/**
 * The whole way of one thing, from the request (or the message that came in) to the last reply: found from any id on the
 * way. Only what is kept is told; events and attempts are forgotten after their time.
 */
import { z } from 'zod';
import { findInbound } from '../store/inbound.ts';
import {
  attemptsOfMessage,
  deliveriesOfMessages,
  findDelivery,
  findMessage,
  findMessages,
  HELD,
  SUSPENDED,
} from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import { findSubmission } from '../store/submissions.ts';
import type { EventRow, MessageRow, SubmissionRow, AttemptRow, DeliveryRow, InboundRow } from '../store/tables.ts';
import {
  eventsOfMessages,
  eventsOfRequest,
  eventsOfSubmission,
  findEvent,
  messagesOfSubmission,
} from '../store/events.ts';
import { postsOfEvents, type Posted } from '../store/webhook-deliveries.ts';
import { isoTime } from '../lib/clock.ts';
import { readAuthResults } from '../mail/auth-results.ts';

interface Trace {
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

/**
 * Follows a request, submission, message, delivery, event or inbound message by its id, or a Message-ID of ours; undefined
 * where nothing is known of it. `tenant`: who looks, where that is not the operator; what is of others is left out.
 */
export async function trace(store: Store, id: string, tenant?: string): Promise<Trace | undefined> {
  const roots = await rootsOf(store, id);
  if (roots === undefined) return undefined;
  const { submissions = [], messages = [], inbound, delivery } = roots;
  const ids = messages.map(idOf);
  const accepted = await Promise.all(submissions.map((submission) => eventsOfSubmission(store, submission)));
  const all = [
    // Also of a message that is forgotten already.
    ...(roots.events ?? []),
    ...accepted.flat().filter(({ message }) => message === null || ids.includes(message)),
    ...(await eventsOfMessages(store, ids)),
  ];
  const events = [...new Map(all.map((event) => [event.id, event])).values()].filter(
    (event) => tenant === undefined || event.tenant === tenant,
  );
  const tenants = [...Map.groupBy(events, (event) => event.tenant)];
  const posts = await Promise.all(tenants.map(([owner, own]) => postsOfEvents(store, owner, own.map(idOf))));
  const deliveries = (await deliveriesOfMessages(store, ids)).filter(
    (row) => delivery === undefined || row.id === delivery,
  );
  const attempts = await Promise.all(ids.map((message) => attemptsOfMessage(store, message)));
  const recipients = new Map(deliveries.map((row) => [row.id, row.recipient]));
  const timeline = [
    ...submissions.flatMap((row) => submissionEntries(row, events)),
    ...events.flatMap((row) => requestEntry(row) ?? []),
    ...(inbound === undefined ? [] : [inboundEntry(inbound, tenant === undefined)]),
    ...messages.map((row) => messageEntry(row, deliveries)),
    ...events.map(eventEntry),
    ...attempts.flat().flatMap((row) => attemptEntry(row, recipients.get(row.delivery)) ?? []),
    ...deliveries.flatMap((row) => endEntry(row) ?? []),
    ...posts.flat().map(postEntry),
  ].sort((a, b) => a.at - b.at || ORDER.indexOf(a.step) - ORDER.indexOf(b.step));
  return {
    id,
    request: events.find(({ request }) => request !== null)?.request ?? null,
    submission: submissions[0]?.id ?? messages[0]?.submission ?? null,
    messages: ids,
    timeline,
  };
}

function idOf({ id }: { readonly id: string }): string {
  return id;
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
    case 'whd_':
    case 'dlv_': {
      const delivery = await findDelivery(store, id);
      if (delivery === undefined) return undefined;
      if (delivery.event !== null) return rootsOf(store, delivery.event);
      const roots = await fromMessage(store, delivery.message);
      return roots && { ...roots, delivery: id };
    }
    case 'evt_': {
      const event = await findEvent(store, id);
      return event && fromEvents(store, [event]);
    }
    case 'inb_': {
      const inbound = await findInbound(store, id);
      return inbound && { inbound, messages: await messagesOf(store, strings.parse(JSON.parse(inbound.messages))) };
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
  // The message may be made of one that came in by SMTP: to be forwarded, as an answer, or from a program.
  const isMadeOfInbound = ['forward', 'reply', 'transactional'].includes(message.kind);
  const { inbound: forwarded, raw } = isMadeOfInbound ? source.parse(JSON.parse(message.source)) : {};
  const came = forwarded ?? raw;
  const inbound = came === undefined ? undefined : await findInbound(store, came);
  return { messages: [message], inbound, submissions: submission === undefined ? [] : [submission] };
}

const source = z.object({ inbound: z.string().optional(), raw: z.string().optional() });
const strings = z.array(z.string());

async function messagesOf(store: Store, ids: readonly string[]): Promise<MessageRow[]> {
  return [...(await findMessages(store, ids)).values()];
}

/** Of what happened in one millisecond: causes before effects. */
const ORDER = ['request', 'inbound', 'judged', 'message', 'attempt', 'end', 'event', 'webhook', 'waits'] as const;

interface Entry {
  /** ms; of `waits` a time to come. */
  readonly at: number;
  readonly step: (typeof ORDER)[number];
  /** Of what it happened to. */
  readonly id: string;
  readonly text: string;
}

function submissionEntries(row: SubmissionRow, events: readonly EventRow[]): Entry[] {
  const { id, created_at: at, form, ip, user_agent, referer, environment, status, spam_score, spam_reasons } = row;
  const request = events.find((event) => event.submission === id && event.request !== null)?.request;
  const circumstances = [
    user_agent === '' ? '' : ` with ${user_agent}`,
    referer === '' ? '' : ` on ${referer}`,
    typeof request === 'string' ? ` as ${request}` : '',
    environment === 'test' ? ' (test)' : '',
  ].join('');
  const reasons = reasonData.parse(JSON.parse(spam_reasons)).map(({ name, score }) => `${name} (${score})`);
  const why = reasons.length === 0 ? '' : `: ${reasons.join(', ')}`;
  // Why the visitor got no mail, where the form sends some.
  const came = events.filter(({ submission, type }) => submission === id && /\.(?:accepted|pending)$/.test(type));
  const unsent = came.map(({ data }) => acceptedData.parse(JSON.parse(data)));
  const withheld = unsent.flatMap(({ acknowledgment_withheld: acknowledgment, confirmation_withheld: link }) => [
    ...(acknowledgment === undefined ? [] : [`no acknowledgment: ${acknowledgment}`]),
    ...(link === undefined ? [] : [`no confirmation link: ${link}`]),
  ]);
  return [
    { at, step: 'request', id, text: `posted to ${form}${ip === '' ? '' : ` from ${ip}`}${circumstances}` },
    { at, step: 'judged', id, text: `${status}, ${spam_score} points${why}` },
    ...withheld.map((text): Entry => ({ at, step: 'judged', id, text })),
  ];
}

const reasonData = z.array(z.object({ name: z.string(), score: z.number() }));
const acceptedData = z.object({
  acknowledgment_withheld: z.string().optional(),
  confirmation_withheld: z.string().optional(),
});
const fallbackData = z.object({ recipients: z.array(z.string()), failed: z.array(z.string()), reply: z.string() });

/** Mail that a program asked for: it has no submission that says so. */
function requestEntry({ created_at: at, submission, request }: EventRow): Entry | undefined {
  if (request === null || submission !== null) return undefined;
  return { at, step: 'request', id: request, text: 'mail requested through the API' };
}

/** `isWhole`: with its recipients, who may be of several accounts. */
function inboundEntry(
  { id, created_at: at, sender, recipients, ip, helo, tls, size, verdicts }: InboundRow,
  isWhole: boolean,
): Entry {
  // Mail that a program submits with its key is not judged.
  const found = verdicts === '{}' ? 'with an API key' : foundOf(verdicts);
  const whom = isWhole ? ` for ${strings.parse(JSON.parse(recipients)).join(', ')}` : '';
  const text = `received from <${sender}>${whom}, via ${helo} [${ip}] over ${tls ?? 'clear text'}, ${size} bytes: ${found}`;
  return { at, step: 'inbound', id, text };
}

function foundOf(verdicts: string): string {
  const { spf, dkim, dmarc, arc } = readAuthResults(verdicts);
  const signatures = dkim.map(({ result, domain }) => `${result} (${domain})`).join(' ') || 'none';
  return `SPF ${spf.result}, DKIM ${signatures}, DMARC ${dmarc.result}, ARC ${arc.result}`;
}

function messageEntry(
  { id, created_at: at, kind, domain, environment }: MessageRow,
  deliveries: readonly DeliveryRow[],
): Entry {
  const to = deliveries
    .filter(({ message }) => message === id)
    .map(({ recipient }) => recipient)
    .sort();
  const test = environment === 'test' ? ' (test: not delivered)' : '';
  return { at, step: 'message', id, text: `${kind} from ${domain} to ${to.join(', ')}${test}` };
}

function eventEntry({ id, created_at: at, type, message, submission, data }: EventRow): Entry {
  const subject = message ?? submission;
  const text = subject === null ? type : `${type} of ${subject}`;
  if (type !== 'submission.fallback') return { at, step: 'event', id, text };
  const { recipients, failed, reply } = fallbackData.parse(JSON.parse(data));
  const to = recipients.length === 0 ? 'the webhook' : recipients.join(', ');
  return { at, step: 'event', id, text: `${text}: to ${to}, because mail to ${failed.join(', ')} failed: ${reply}` };
}

/** Of a delivery that is not traced: nothing. */
function attemptEntry(row: AttemptRow, recipient: string | undefined): Entry | undefined {
  if (recipient === undefined) return undefined;
  const { delivery: id, number, at, host, address, tls, tls_policy, tls_result, outcome, reply } = row;
  const where = host === null ? '' : ` at ${host} [${address ?? '?'}] over ${tls ?? 'clear text'}`;
  const policy = tls_policy === null ? '' : ` (${tls_policy}: ${tls_result ?? 'not reached'})`;
  return { at, step: 'attempt', id, text: `attempt ${number} for ${recipient}: ${outcome}${where}${policy}: ${reply}` };
}

/** How a delivery ended, or what it waits for. */
function endEntry({
  id,
  recipient,
  state,
  settled_at,
  next_attempt_at,
  expires_at,
  last_reply,
}: DeliveryRow): Entry | undefined {
  if (settled_at !== null) {
    const words = state === 'delivered' || last_reply === null ? '' : `: ${last_reply}`;
    return { at: settled_at, step: 'end', id, text: `${recipient} ${state}${words}` };
  }
  if (next_attempt_at === null) {
    const words = last_reply === null ? '' : `: ${last_reply}`;
    return { at: expires_at, step: 'waits', id, text: `${recipient} is ${state} until then at the latest${words}` };
  }
  const waits = { at: next_attempt_at, step: 'waits', id } as const;
  if (next_attempt_at === HELD) return { ...waits, text: `${recipient} is ${state}, held by the operator` };
  const reason = last_reply === SUSPENDED ? `: ${last_reply}` : '';
  return { ...waits, text: `${recipient} is ${state}, next attempt then${reason}` };
}

function postEntry({
  id,
  event,
  url,
  state,
  attempts,
  created_at,
  last_attempt_at,
  next_attempt_at,
  ...last
}: Posted): Entry {
  const said = last.last_status === null ? (last.last_result ?? 'no answer') : String(last.last_status);
  const next = next_attempt_at === null ? '' : `, next attempt ${isoTime(next_attempt_at)}`;
  const tried =
    attempts === 0 ? 'no attempt yet' : `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}, last response ${said}`;
  const text = `${event ?? 'a test'} to ${url}: ${state}, ${tried}${next}`;
  return { at: last_attempt_at ?? created_at, step: 'webhook', id, text };
}
