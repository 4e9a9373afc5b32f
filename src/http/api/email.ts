/** Mail that programs send: accepted as a whole or not at all, and shown with all that became of it. */
import type { z } from 'zod';
import type { MessageLimits } from '../../accounts/message-limits.ts';
import { mayTouch, type Principal } from '../../accounts/principal.ts';
import * as contract from '../../contract/email.ts';
import { formatMailbox } from '../../lib/addresses.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { withdraw } from '../../queue/operate.ts';
import { deliveriesOfMessage, HELD, reschedule } from '../../store/deliveries.ts';
import { recomputeDueAmong } from '../../store/destinations.ts';
import type { FreeSpace } from '../../store/database.ts';
import { countTransactional, findMessage, selectTransactional, updateSource } from '../../store/messages.ts';
import { type Store, UnmetError, writeNamed } from '../../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../../store/tables.ts';
import {
  type Fault,
  faultAt,
  messageIdOf,
  type NewEmail,
  readEmail,
  sentInFull,
  type SentInFull,
  type SentMessage,
  sentMessages,
  type Status,
} from '../../transactional/email.ts';
import { unitOf, isTooFar, type Planned, type Transactional } from '../../transactional/send.ts';
import { finishedBytes } from '../../transactional/source.ts';
import { type Answer, json } from '../answer.ts';
import { lacksPermission, type Refusal, refuse, unavailable } from '../errors.ts';
import { overPlan } from '../context.ts';
import { invalidAt } from './issues.ts';
import { type BodyOf, type Call, implement, type Outcome, pageOf, type Route } from './route.ts';

type Accepted = z.output<typeof contract.acceptedEmail>;

/** `/email…` */
export function emailRoutes(parts: EmailParts): Route[] {
  const { store, clock } = parts;

  /** Sends all of them or none; `answer` is made of those that were accepted, in their order. */
  async function send<Body extends object>(
    emails: readonly NewEmail[],
    call: Pick<Call, 'exchange' | 'principal' | 'stored'>,
    { placeOf, answer }: { placeOf: (index: number) => string; answer: (done: Accepted[]) => Body },
  ) {
    const plans = await planAll(emails, call, parts);
    if ('kind' in plans) return plans;
    const wrong = plans.findIndex((plan) => !isPlanned(plan));
    const fault = plans[wrong];
    if (fault?.kind === 'fault') return refusalFor(fault, placeOf(wrong));
    const planned = plans.filter(isPlanned);
    const done = planned.map((plan, i) => acceptedOf(plan, emails[i]));
    return commit(planned, { answer: json(answer(done)), call }, parts);
  }

  return implement(contract.emails, {
    send: (call) => send([newEmail(call.body)], call, { placeOf: () => '', answer: one }),
    sendBatch(call) {
      const { body } = call;
      const listed = Array.isArray(body);
      return send((listed ? body : body.emails).map(newEmail), call, {
        placeOf: (index) => (listed ? `${index}.` : `emails.${index}.`),
        answer: (emails) => ({ emails, count: emails.length }),
      });
    },
    async list({ principal, query: { limit, cursor } }) {
      const filter = { tenant: principal.tenant.id, domains: principal.restrictions.domain_restrictions };
      const rows = await selectTransactional(store, { ...filter, before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit);
      const emails = await sentMessages(store, page, clock.now());
      return json({ emails: emails.map(shownSummary), count: await countTransactional(store, filter), next_cursor });
    },
    async show({ principal, params: { id } }) {
      const message = await findSent(id, principal, store);
      if (!isMessage(message)) return message;
      const sent = await sentInFull(store, message, clock.now());
      return sent === undefined ? refuse('NOT_FOUND') : json(shownEmail(sent));
    },
    async source({ principal, params: { id } }) {
      const message = await findOwn(id, principal, store);
      if (!isMessage(message)) return message;
      const bytes = await finishedBytes(store, message);
      if (bytes === undefined) return refuse('NOT_FOUND', { message: 'The finished mail is not kept.' });
      // Ours are ASCII, but for addresses that are UTF-8 themselves; what programs submit may be anything.
      return json({ id, size: message.size, source: bytes.toString() });
    },
    async cancel({ principal, params: { id } }) {
      const message = await findSent(id, principal, store);
      if (!isMessage(message)) return message;
      const refusal = await cancelMail(id, parts);
      if (refusal !== undefined) return refusal;
      const sent = await sentInFull(store, message, clock.now());
      return sent === undefined ? refuse('NOT_FOUND') : json(shownEmail(sent));
    },
  });
}

/** The only one of a list. */
function one([done]: readonly Accepted[]): Accepted {
  if (done === undefined) throw new Error('no message was planned');
  return done;
}

function acceptedOf({ id, messageId }: Planned, email: NewEmail | undefined): Accepted {
  return { id, status: 'queued', to: email?.to.map(({ address }) => address) ?? [], message_id: messageId };
}

// What both shapes of the mail API do alike: accept mails, all of them in one unit, and find, cancel and move one.

export interface EmailParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly transactional: Transactional;
  readonly freeSpace: FreeSpace;
  readonly messages: MessageLimits;
  /** Tells the queue that there may be something to do. */
  readonly wake: () => void;
}

type Asked = Pick<Call, 'exchange' | 'principal' | 'stored'>;

/** Plans all of them; refused as a whole where nothing is accepted now. */
export async function planAll(
  emails: readonly NewEmail[],
  { exchange, principal }: Asked,
  { transactional, freeSpace }: EmailParts,
): Promise<(Planned | Fault)[] | Refusal> {
  const { snapshot, at: now, id: request } = exchange;
  if (freeSpace.below(snapshot.server.limits.free_disk)) return unavailable();
  return transactional.planAll(emails, { principal, snapshot, now, request });
}

/** Commits what was planned, together with the answer, where the plan of the account has room for all of it. */
export async function commit<Body>(
  plans: readonly Planned[],
  { answer, call }: { readonly answer: Answer<Body>; readonly call: Asked },
  parts: EmailParts,
): Promise<Outcome<Body>> {
  const { store, wake, messages } = parts;
  const count = plans.reduce((sum, { recipients }) => sum + recipients, 0);
  const room = await messages.roomFor(call.principal, count);
  if (room.kind !== 'room') return overPlan(room, call.exchange.at);
  try {
    // The counters first, because other units wait for their rows. The unit is written whole or not at all: one id tells.
    await writeNamed(store, plans[0]?.id, [...room.unit, ...unitOf(plans, call.stored(answer))]);
  } catch (error) {
    if (!(error instanceof UnmetError)) throw error;
    const now = await messages.roomFor(call.principal, count);
    // Somebody else took the room, or the claim of an idempotency key.
    if (now.kind !== 'room') return overPlan(now, call.exchange.at);
    throw error;
  }
  wake();
  return answer;
}

/** The refusal of a mail; `place` is that of the mail in the body, with a full stop behind it. */
export function refusalFor({ code, path, message }: Fault, place = ''): Refusal {
  if (code === 'VALIDATION_FAILED') return invalidAt(`${place}${path ?? ''}`, message);
  return refuse(code, { message });
}

export function isPlanned(plan: Planned | Fault): plan is Planned {
  return plan.kind === 'planned';
}

/**
 * The message of the principal's tenant with this id, or the refusal. Mail of the system holds links that act for whoever
 * got it, so that no account reads it; what forms and forwarding caused needs `forms.read`.
 */
async function findOwn(id: string, principal: Principal, store: Store): Promise<MessageRow | Refusal> {
  const message = await findMessage(store, id);
  const own = message?.tenant === principal.tenant.id && mayTouch(principal, message.domain);
  if (!own || message.kind === 'system') {
    return refuse('NOT_FOUND', { message: `There is no mail ${id.slice(0, 60)}.` });
  }
  if (message.kind !== 'transactional' && !principal.permissions.has('forms.read'))
    return lacksPermission('forms.read');
  return message;
}

/** The same, sent through the API. */
export async function findSent(id: string, principal: Principal, store: Store): Promise<MessageRow | Refusal> {
  const message = await findOwn(id, principal, store);
  if (!isMessage(message) || message.kind === 'transactional') return message;
  return refuse('NOT_FOUND', { message: `There is no mail ${id.slice(0, 60)}.` });
}

export function isMessage(found: MessageRow | Refusal): found is MessageRow {
  return 'id' in found;
}

/** Ends what waits of it; undefined where that is done. */
export async function cancelMail(id: string, { store, clock }: EmailParts): Promise<Refusal | undefined> {
  const done = await withdraw(store, id, clock.now());
  switch (done.kind) {
    case 'done':
      return undefined;
    case 'not-waiting':
      return refuse('CONFLICT', { message: `Nothing of it waits: ${[...new Set(done.states)].join(', ')}.` });
    case 'unknown':
      return refuse('NOT_FOUND', { message: `There is no mail ${id.slice(0, 60)}.` });
  }
}

/** Moves the first try of a mail that none was made of; undefined where that is done. */
export async function moveMail(
  message: MessageRow,
  sendAt: number,
  { store, clock, wake }: EmailParts,
): Promise<Refusal | undefined> {
  const now = clock.now();
  if (isTooFar(sendAt, now)) return refusalFor(faultAt('scheduled_at', 'must be within 30 days'));
  const rows = await deliveriesOfMessage(store, message.id);
  const due = Math.max(now, sendAt);
  const email = readEmail(message.source);
  const life = message.expires_at - Math.max(message.created_at, email.send_at ?? 0);
  const expires_at = due + life;
  const names = [...new Set(rows.map(({ destination }) => destination))].sort();
  try {
    await store.write([
      reschedule({ message: message.id, due, expires_at }, rows.length),
      updateSource({ id: message.id, source: JSON.stringify({ ...email, send_at: sendAt }), expires_at }),
      recomputeDueAmong(names),
    ]);
  } catch (error) {
    if (error instanceof UnmetError) return refuse('CONFLICT', { message: 'It is not waiting for its time any more.' });
    throw error;
  }
  wake();
  return undefined;
}

// A mail that was asked for, as the API shows it: in our words, and in those of Resend's clients.

/** As lists have it. */
function shownSummary({ message, email, status }: SentMessage): BodyOf<typeof contract.emails.list>['emails'][number] {
  return {
    id: message.id,
    message_id: email.message_id ?? messageIdOf(message.id, message.domain),
    environment: message.environment,
    status,
    from: formatMailbox(email.from),
    to: email.to.map(formatMailbox),
    cc: email.cc.map(formatMailbox),
    bcc: email.bcc.map(formatMailbox),
    reply_to: email.reply_to.map(formatMailbox),
    subject: email.subject,
    tags: email.tags,
    created_at: isoTime(message.created_at),
    send_at: email.send_at === undefined ? null : isoTime(email.send_at),
  };
}

function shownEmail(sent: SentInFull): BodyOf<typeof contract.emails.show> {
  const { email, deliveries, attempts } = sent;
  return {
    ...shownSummary(sent),
    text: email.text,
    html: email.html ?? null,
    headers: Object.fromEntries(email.headers),
    attachments: email.attachments,
    recipients: deliveries.map((row) => shownRecipient(row, attempts.get(row.id) ?? [])),
  };
}

function shownRecipient(
  { recipient, state, next_attempt_at: due, last_reply }: DeliveryRow,
  tries: readonly AttemptRow[],
) {
  return {
    address: recipient,
    state,
    next_attempt_at: due === null || due === HELD ? null : isoTime(due),
    reply: last_reply,
    attempts: tries.map(({ at, host, address, tls, outcome, reply }) => {
      return { at: isoTime(at), host, address, tls, outcome, reply };
    }),
  };
}

const LAST_EVENT = {
  scheduled: 'scheduled',
  queued: 'queued',
  sending: 'sent',
  deferred: 'delivery_delayed',
  complained: 'complained',
  bounced: 'bounced',
  expired: 'bounced',
  suppressed: 'suppressed',
  cancelled: 'canceled',
  captured: 'delivered',
  delivered: 'delivered',
} as const satisfies Readonly<Record<Status, string>>;

export function listedForResend(sent: SentMessage): BodyOf<typeof contract.resendEmails.list>['data'][number] {
  const { id, message_id, from, to, cc, bcc, reply_to, subject, created_at, send_at } = shownSummary(sent);
  const last_event = LAST_EVENT[sent.status];
  const others = { cc: orNull(cc), bcc: orNull(bcc), reply_to: orNull(reply_to) };
  return { id, message_id, from, to, ...others, subject, last_event, created_at, scheduled_at: send_at };
}

export function shownForResend(sent: SentMessage): BodyOf<typeof contract.resendEmails.show> {
  const { text, html = null, tags: words } = sent.email;
  return { object: 'email', ...listedForResend(sent), text, html, tags: words };
}

function orNull(list: readonly string[]): readonly string[] | null {
  return list.length === 0 ? null : list;
}

// Bodies that ask for mail, ours and those that Resend's clients send.

type NewBody = z.output<typeof contract.newEmail>;
type ResendBody = z.output<typeof contract.newResendEmail>;

function commonOf(
  body: Omit<NewBody, 'template'> | Omit<ResendBody, 'template'>,
): Omit<NewEmail, 'data' | 'unsubscribe'> {
  const { cc = [], bcc = [], reply_to: replyTo = [], attachments = [], headers = {}, tags = [], ...rest } = body;
  const { from, to, subject, text, html } = rest;
  return {
    from,
    to,
    cc,
    bcc,
    replyTo,
    subject,
    text,
    html,
    headers,
    tags,
    attachments: attachments.map(({ filename = '', content_type: contentType, content: bytes }) => ({
      filename,
      contentType,
      content: bytes,
    })),
  };
}

function newEmail(body: NewBody): NewEmail {
  const { template: name, project, data: variables = {}, send_at: sendAt, unsubscribe = false } = body;
  return { ...commonOf(body), template: name, project, data: variables, sendAt, unsubscribe };
}

export function newResendEmail(body: ResendBody): NewEmail {
  const { template: named, scheduled_at: sendAt } = body;
  return { ...commonOf(body), template: named?.id, data: named?.variables ?? {}, sendAt, unsubscribe: false };
}
