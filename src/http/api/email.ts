/** Mail that programs send, in our shape and in Resend's: accepted whole or not at all, and shown with all that became of it. */
import type { z } from 'zod';
import { checkQuota } from '../../accounts/message-limits.ts';
import { mayTouch } from '../../accounts/principal.ts';
import * as contract from '../../contract/email.ts';
import { formatMailbox } from '../../lib/addresses.ts';
import { messageIdOf } from '../../mail/header.ts';
import { withdraw } from '../../queue/operate.ts';
import { recomputeDueAmong } from '../../store/destinations.ts';
import {
  countTransactional,
  deliveriesOfMessage,
  findMessage,
  HELD,
  reschedule,
  selectTransactional,
  updateSource,
} from '../../store/messages.ts';
import { UnknownOutcomeError, UnmetError, writeIfMet } from '../../store/store.ts';
import type { MessageRow } from '../../store/tables.ts';
import {
  type Fault,
  faultAt,
  readEmail,
  sentInFull,
  type SentMessage,
  sentMessages,
  type Status,
} from '../../transactional/email.ts';
import { isTooFar, planAll, type Planned, unitOf } from '../../transactional/send.ts';
import { finishedBytes } from '../../transactional/source.ts';
import { header, overPlan } from '../context.ts';
import { lacksPermission, type Refusal, refuse, unavailable } from '../answer.ts';
import {
  invalidAt,
  type Call,
  type Success,
  implement,
  success,
  notFound,
  type Outcome,
  pageOf,
  type Route,
  type Services,
} from './route.ts';
import { nothingWaits } from './queue.ts';

type EmailCall = Pick<Call, 'context' | 'principal' | 'stored'>;
type OfOne = Pick<Call<unknown, unknown, 'id'>, 'principal' | 'params'>;

/** `/email…`, and `/emails…`: the published SDK of Resend works with this server as its base address. */
export function emailRoutes(services: Services): Route[] {
  const { store, clock, wake, freeSpace } = services;
  /** Plans all of them; none where nothing is accepted now. */
  async function plan(
    emails: readonly contract.NewEmail[],
    { context, principal }: EmailCall,
  ): Promise<(Planned | Fault)[]> {
    const { snapshot, at: now, id: request } = context;
    if (freeSpace.below(snapshot.server.limits.free_disk)) return [];
    return planAll(emails, { principal, snapshot, now, request }, services);
  }

  /** Commits what was planned, together with the answer, where the plan of the account has room for all of it. */
  async function commit<Data>(
    plans: readonly Planned[],
    answer: Success<Data>,
    { principal, context, stored }: EmailCall,
  ): Promise<Outcome<Data>> {
    const count = plans.reduce((sum, { recipients }) => sum + recipients, 0);
    const parts = { store, clock, config: context.snapshot.server };
    const quota = await checkQuota(principal, count, parts);
    if (quota.kind !== 'allowed') return overPlan(quota, context.at);
    try {
      // The counters first, because other units wait for their rows.
      await store.write([...quota.unit, ...unitOf(plans, stored(answer))]);
    } catch (error) {
      // The unit is written whole or not at all: one id tells.
      if (error instanceof UnknownOutcomeError) throw error.of(plans[0]?.id);
      if (!(error instanceof UnmetError)) throw error;
      const now = await checkQuota(principal, count, parts);
      // Somebody else used the quota up, or took the claim of an idempotency key.
      if (now.kind !== 'allowed') return overPlan(now, context.at);
      throw error;
    }
    wake();
    return answer;
  }

  /**
   * Does it to a message of the account. Mail of the system, and what a visitor confirms a submission with, holds links that
   * act for whoever got it, so that no account reads it; what forms and forwarding caused needs `forms.read`.
   */
  async function withOwn<Data>(
    { principal, params: { id } }: OfOne,
    act: (message: MessageRow) => Promise<Outcome<Data>>,
  ): Promise<Outcome<Data>> {
    const message = await findMessage(store, id);
    const own = message?.tenant === principal.tenant.id && mayTouch(principal, message.domain);
    const isSecret = message?.kind === 'system' || (message?.kind === 'confirmation' && message.environment === 'live');
    if (!own || isSecret) return notFound('message', id);
    const isReadable = message.kind === 'transactional' || principal.permissions.has('forms.read');
    return isReadable ? act(message) : lacksPermission('forms.read');
  }

  /** The same with one that was sent through the API. */
  function withSent<Data>(call: OfOne, act: (message: MessageRow) => Promise<Outcome<Data>>): Promise<Outcome<Data>> {
    return withOwn(call, async (message) =>
      message.kind === 'transactional' ? act(message) : notFound('message', message.id),
    );
  }

  /** Ends what waits of it; undefined where that is done. */
  async function cancel({ id }: MessageRow): Promise<Refusal | undefined> {
    const done = await withdraw(store, id, clock.now());
    if (done.kind === 'not-waiting') return nothingWaits(done.states);
    return done.kind === 'unknown' ? notFound('message', id) : undefined;
  }

  /** Moves the first try of a mail that none was made of; undefined where that is done. */
  async function move(message: MessageRow, sendAt: number): Promise<Refusal | undefined> {
    const now = clock.now();
    if (isTooFar(sendAt, now)) return refusalFor(faultAt('scheduled_at', 'must be within 30 days'));
    const rows = await deliveriesOfMessage(store, message.id);
    const due = Math.max(now, sendAt);
    const email = readEmail(message.source);
    const life = message.expires_at - Math.max(message.created_at, email.send_at ?? 0);
    const expires_at = due + life;
    const names = [...new Set(rows.map(({ destination }) => destination))].sort();
    const moved = await writeIfMet(store, [
      reschedule({ message: message.id, due, expires_at }, rows.length),
      updateSource({ id: message.id, source: JSON.stringify({ ...email, send_at: sendAt }), expires_at }),
      recomputeDueAmong({ names }),
    ]);
    if (moved === undefined) return refuse('CONFLICT', { message: 'The message is no longer scheduled.' });
    wake();
    return undefined;
  }

  async function show(message: MessageRow) {
    const sent = await sentInFull(store, message, clock.now());
    return sent === undefined ? refuse('NOT_FOUND') : success(shownEmail(sent));
  }

  const own = implement(contract.emails, {
    async send(call) {
      const [planned] = await plan([call.body], call);
      if (planned === undefined) return unavailable();
      return isPlanned(planned) ? commit([planned], success(acceptedOf(planned)), call) : refusalFor(planned);
    },
    async sendBatch(call) {
      const { body } = call;
      const [bodies, base] = Array.isArray(body) ? [body, ''] : [body.emails, 'emails.'];
      const plans = await plan(bodies, call);
      if (plans.length === 0) return unavailable();
      const wrong = plans.findIndex((one) => !isPlanned(one));
      const fault = plans[wrong];
      if (fault?.kind === 'fault') return refusalFor(fault, `${base}${wrong}.`);
      const planned = plans.filter(isPlanned);
      return commit(planned, success({ emails: planned.map(acceptedOf), count: planned.length }), call);
    },
    async list({ principal, query: { limit, cursor } }) {
      const filter = { tenant: principal.tenant.id, domains: principal.restrictions.domain_restrictions };
      const rows = await selectTransactional(store, { ...filter, before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      const emails = await sentMessages(store, page, clock.now());
      return success({ emails: emails.map(shownSummary), count: await countTransactional(store, filter), next_cursor });
    },
    show: (call) => withSent(call, show),
    source: (call) =>
      withOwn(call, async (message) => {
        const bytes = await finishedBytes(store, message);
        if (bytes === undefined) return refuse('NOT_FOUND', { message: 'The finished message is not kept.' });
        // Ours are ASCII, but for addresses that are UTF-8 themselves; what programs submit may be anything.
        return success({ id: message.id, size: message.size, source: bytes.toString() });
      }),
    cancel: (call) => withSent(call, async (message) => (await cancel(message)) ?? show(message)),
  });

  const resend = implement(contract.resendEmails, {
    async send(call) {
      const { body } = call;
      if (body.from === undefined && body.template === undefined) return invalidAt('from', 'is missing');
      const [planned] = await plan([newResendEmail(body)], call);
      if (planned === undefined) return unavailable();
      return isPlanned(planned) ? commit([planned], success({ id: planned.id }), call) : refusalFor(planned);
    },
    async sendBatch(call) {
      const plans = await plan(call.body.map(newResendEmail), call);
      if (plans.length === 0) return unavailable();
      const permissive = header(call.context.request, 'x-batch-validation') === 'permissive';
      const faults = plans.flatMap((one, index) => (isPlanned(one) ? [] : [{ index, ...one }]));
      const [first] = faults;
      if (first !== undefined && !permissive) return refusalFor(first, `${first.index}.`);
      const planned = plans.filter(isPlanned);
      const errors = faults.map(({ index, path, message }) => {
        return { index, message: path === undefined ? message : `${path} ${message}` };
      });
      return commit(planned, success({ data: planned, ...(permissive && { errors }) }), call);
    },
    async list({ principal, query: { limit, after: older, before: newer } }) {
      const filter = { tenant: principal.tenant.id, domains: principal.restrictions.domain_restrictions };
      const rows = await selectTransactional(store, { ...filter, before: older, after: newer, limit: limit + 1 });
      const page = newer === undefined ? rows.slice(0, limit) : rows.slice(-limit);
      const emails = await sentMessages(store, page, clock.now());
      return success({ object: 'list' as const, has_more: rows.length > limit, data: emails.map(shownForResend) });
    },
    show: (call) =>
      withSent(call, async (message) => {
        const [sent] = await sentMessages(store, [message], clock.now());
        return sent === undefined ? refuse('NOT_FOUND') : success(shownForResend(sent));
      }),
    reschedule: (call) =>
      withSent(call, async (message) => {
        const refusal = await move(message, call.body.scheduled_at);
        return refusal ?? success({ object: 'email' as const, id: message.id });
      }),
    cancel: (call) =>
      withSent(
        call,
        async (message) => (await cancel(message)) ?? success({ object: 'email' as const, id: message.id }),
      ),
  });

  return [...own, ...resend];
}

function acceptedOf({ id, to, messageId }: Planned) {
  return { id, status: 'queued' as const, to: [...to], message_id: messageId };
}

/** The refusal of a mail; `place` is that of the mail in the body, with a full stop behind it. */
function refusalFor({ code, path, message }: Fault, place = ''): Refusal {
  if (code === 'VALIDATION_FAILED') return invalidAt(`${place}${path ?? ''}`, message);
  return refuse(code, { message });
}

function isPlanned(plan: Planned | Fault): plan is Planned {
  return plan.kind === 'planned';
}

function shownSummary({ message, email, status }: SentMessage) {
  return {
    ...email,
    id: message.id,
    message_id: email.message_id ?? messageIdOf(message),
    environment: message.environment,
    status,
    from: formatMailbox(email.from),
    to: email.to.map(formatMailbox),
    cc: email.cc.map(formatMailbox),
    bcc: email.bcc.map(formatMailbox),
    reply_to: email.reply_to.map(formatMailbox),
    created_at: message.created_at,
    html: email.html,
    send_at: email.send_at,
  };
}

function shownEmail(sent: NonNullable<Awaited<ReturnType<typeof sentInFull>>>) {
  return {
    ...shownSummary(sent),
    headers: Object.fromEntries(sent.email.headers),
    recipients: sent.deliveries.map(({ id, recipient, state, next_attempt_at: due, last_reply }) => {
      const next_attempt_at = due === HELD ? null : due;
      return { address: recipient, state, next_attempt_at, reply: last_reply, attempts: sent.attempts.get(id) ?? [] };
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

function shownForResend(sent: SentMessage) {
  const { cc, bcc, reply_to, send_at, ...summary } = shownSummary(sent);
  const addresses = { cc: orNull(cc), bcc: orNull(bcc), reply_to: orNull(reply_to) };
  const last_event = LAST_EVENT[sent.status];
  return { object: 'email' as const, ...summary, ...addresses, last_event, scheduled_at: send_at };
}

function orNull(list: string[]): string[] | null {
  return list.length === 0 ? null : list;
}

function newResendEmail({
  template,
  scheduled_at,
  ...body
}: z.output<typeof contract.newResendEmail>): contract.NewEmail {
  return {
    ...body,
    template: template?.id,
    data: template?.variables ?? {},
    send_at: scheduled_at,
    unsubscribe: false,
  };
}
