/** Mail of an account of every kind: found, followed to the last reply, read, tried again, cancelled. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { checkQuota } from '../../accounts/message-limits.ts';
import { mayTouch, type Principal } from '../../accounts/principal.ts';
import * as contract from '../../contract/messages.ts';
import { pathOf } from '../../contract/route.ts';
import { messageIdOf } from '../../mail/header.ts';
import { inert, type MailView, viewMail } from '../../mail/view.ts';
import { failedDeliveries, requeue, withdraw } from '../../queue/operate.ts';
import { complaintsOf } from '../../store/events.ts';
import { findInbound, rawChunks } from '../../store/inbound.ts';
import { countMessages, listMessageIds, listedMessages, type ListedMessage } from '../../store/message-list.ts';
import { attemptsOfMessage, deliveriesOfMessages, findMessage, HELD } from '../../store/messages.ts';
import { writeIfMet } from '../../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../../store/tables.ts';
import { readEmail, statusOf } from '../../transactional/email.ts';
import { finishedBytes, rawIdOf } from '../../transactional/source.ts';
import { lacksPermission, type Answer, type Refusal, refuse } from '../answer.ts';
import { overPlan } from '../context.ts';
import { nothingWaits } from './queue.ts';
import {
  type CallOf,
  type DataOf,
  implement,
  success,
  notFound,
  type Outcome,
  type Route,
  type Services,
} from './route.ts';

type OfOne = Pick<CallOf<typeof contract.messages.show>, 'principal' | 'params'>;
type Kind = DataOf<typeof contract.messages.show>['kind'];

const KINDS: readonly Kind[] = [
  'notification',
  'acknowledgment',
  'confirmation',
  'transactional',
  'forward',
  'reply',
  'dsn',
];

/** `/messages…` */
export function messagesRoutes({ store, clock, wake, trace, unsubscribeKey }: Services): Route[] {
  /** Opens the HTML of one message to a frame, for a while. */
  function frameToken(id: string, expiresAt: number): string {
    const text = `message-html:${id}:${expiresAt}`;
    return `${expiresAt}.${createHmac('sha256', unsubscribeKey).update(text).digest('base64url')}`;
  }

  function opensFrame(token: string, id: string): boolean {
    const [, expiresAt = '0'] = /^(\d{13})\./.exec(token) ?? [];
    const expected = Buffer.from(frameToken(id, Number(expiresAt)));
    const given = Buffer.from(token);
    const isOurs = given.length === expected.length && timingSafeEqual(given, expected);
    return isOurs && Number(expiresAt) > clock.now();
  }

  /** The message where it is the principal's to see, or why it is not. */
  async function find({ principal, params: { id } }: OfOne): Promise<Found | Refusal> {
    const row = await findMessage(store, id);
    const kind = KINDS.find((each) => each === row?.kind);
    if (row === undefined || kind === undefined || row.tenant !== principal.tenant.id) return notFound('message', id);
    if (!mayTouch(principal, row.domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    if (!kindsOf(principal).includes(kind)) return lacksPermission('email.send');
    return { kind: 'found', row };
  }

  async function show(row: MessageRow): Promise<Outcome<DataOf<typeof contract.messages.show>>> {
    const [listed] = await listedMessages(store, [row.id]);
    if (listed === undefined) return notFound('message', row.id);
    // In this order: a delivery that is seen to have ended has its last attempt.
    const [deliveries, complained] = await Promise.all([
      deliveriesOfMessages(store, [row.id]),
      complaintsOf(store, [row.id]),
    ]);
    const attempts = Map.groupBy(await attemptsOfMessage(store, row.id), ({ delivery }) => delivery);
    const traced = await trace(row.id, row.tenant);
    return success({
      ...shownSummary(listed, { deliveries, isComplained: complained.has(row.id), now: clock.now() }),
      subject: subjectOf(row, deliveries),
      message_id: sentMessageId(row),
      expires_at: Math.max(row.expires_at, ...deliveries.map(({ expires_at: end }) => end)),
      content: await contentOf(row),
      recipients: deliveries.map((delivery) => ({
        ...shownRecipient(delivery),
        id: delivery.id,
        attempts: (attempts.get(delivery.id) ?? []).map(shownAttempt),
      })),
      timeline: traced?.timeline ?? [],
    });
  }

  /** What is kept of what a message says. */
  async function contentOf(row: MessageRow): Promise<'finished' | 'requested' | 'received' | 'none'> {
    // Its link acts for whoever opens it.
    if (row.kind === 'confirmation' && row.environment === 'live') return 'none';
    if (row.body === 'dropped') return 'none';
    if (row.body === 'stored' || (row.body === 'prefixed' && (await hasRaw(row)))) return 'finished';
    if (row.kind === 'transactional' && readEmail(row.source).raw === undefined) return 'requested';
    return (await hasRaw(row)) ? 'received' : 'none';
  }

  async function hasRaw({ source }: MessageRow): Promise<boolean> {
    const id = rawIdOf(source);
    if (id === undefined || (await findInbound(store, id)) === undefined) return false;
    for await (const _ of rawChunks(store, id)) return true;
    return false;
  }

  /** The message as it is kept, read; undefined where nothing is. */
  async function viewOf(row: MessageRow): Promise<View | undefined> {
    const content = await contentOf(row);
    switch (content) {
      case 'none':
        return undefined;
      case 'requested': {
        const { subject, headers, text, html = null, attachments } = readEmail(row.source);
        const fields = [['Subject', subject] as const, ...headers].map(([name, value]) => ({ name, value }));
        const page = html === null ? null : inert(html);
        return { content, headers: fields, text, html: page, attachments, truncated: false };
      }
      case 'finished':
      case 'received': {
        const bytes = content === 'finished' ? await finishedBytes(store, row) : await rawBytes(row);
        return bytes === undefined ? undefined : { content, ...viewMail(bytes) };
      }
    }
  }

  async function rawBytes({ source }: MessageRow): Promise<Buffer | undefined> {
    const id = rawIdOf(source);
    const pieces: Uint8Array[] = [];
    if (id !== undefined) for await (const piece of rawChunks(store, id)) pieces.push(piece);
    return pieces.length === 0 ? undefined : Buffer.concat(pieces);
  }

  return implement(contract.messages, {
    async list({ principal, query: { limit, cursor, kind, domain, q: text, to: until, ...asked } }) {
      const { domain_restrictions: only } = principal.restrictions;
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const kinds = kindsOf(principal).filter((each) => kind === undefined || each === kind);
      if (kinds.length === 0) return lacksPermission('email.send');
      const filter = {
        tenant: principal.tenant.id,
        kinds,
        domains: domain === undefined ? only : [domain],
        text,
        until,
        ...asked,
        recipient: asked.recipient?.toLowerCase(),
      };
      const { ids, next } = await listMessageIds(store, filter, { before: cursor, limit });
      const [rows, deliveries, complained, { count, more }] = await Promise.all([
        listedMessages(store, ids),
        deliveriesOfMessages(store, ids),
        complaintsOf(store, ids),
        countMessages(store, filter),
      ]);
      const byMessage = Map.groupBy(deliveries, ({ message }) => message);
      const now = clock.now();
      const messages = rows.map((row) => {
        const own = byMessage.get(row.id) ?? [];
        return shownSummary(row, { deliveries: own, isComplained: complained.has(row.id), now });
      });
      return success({ messages, count, count_is_more: more, next_cursor: next });
    },
    async show(call) {
      const found = await find(call);
      return found.kind === 'refused' ? found : show(found.row);
    },
    async content(call) {
      const found = await find(call);
      if (found.kind === 'refused') return found;
      const { id } = found.row;
      const view = await viewOf(found.row);
      if (view === undefined) return notKept();
      const token = frameToken(id, clock.now() + FRAME_MS);
      const html_url = view.html === null ? null : `/api${pathOf(contract.messages.html, { id })}?token=${token}`;
      return success({ id, ...view, html_url });
    },
    async html({ params: { id }, query: { token } }) {
      if (!opensFrame(token, id)) {
        return refuse('NOT_FOUND', { message: 'This URL has expired. Load the message again.' });
      }
      const row = await findMessage(store, id);
      const view = row && (await viewOf(row));
      if (view === undefined) return notKept();
      return view.html === null ? refuse('NOT_FOUND', { message: 'The message has no HTML part.' }) : framed(view.html);
    },
    async resend(call) {
      const found = await find(call);
      if (found.kind === 'refused') return found;
      const { row } = found;
      const failed = await failedDeliveries(store, row.id);
      if (failed.length === 0)
        return refuse('CONFLICT', { message: 'The message has no recipients that it did not reach.' });
      if (row.body === 'dropped')
        return refuse('CONFLICT', { message: 'The content of the message is no longer kept.' });
      const { context, principal } = call;
      const parts = { store, clock, config: context.snapshot.server };
      const quota = await checkQuota(principal, failed.length, parts);
      if (quota.kind !== 'allowed') return overPlan(quota, context.at);
      const written = await writeIfMet(store, [...quota.unit, ...requeue(failed, row, clock.now())]);
      if (written === undefined)
        return refuse('CONFLICT', { message: 'The message has just changed. Check it and try again.' });
      wake();
      return show(row);
    },
    async cancel(call) {
      const found = await find(call);
      if (found.kind === 'refused') return found;
      const { row } = found;
      const done = await withdraw(store, row.id, clock.now());
      if (done.kind === 'not-waiting') return nothingWaits(done.states);
      return done.kind === 'unknown' ? notFound('message', row.id) : show(row);
    },
  });
}

/** How long the address of a frame works. */
const FRAME_MS = 600_000;

interface View extends MailView {
  readonly content: 'finished' | 'requested' | 'received';
}

interface Found {
  readonly kind: 'found';
  readonly row: MessageRow;
}

/** The kinds that the principal may see. */
function kindsOf({ permissions }: Principal): readonly Kind[] {
  return permissions.has('email.send') ? KINDS : KINDS.filter((kind) => kind !== 'transactional');
}

function notKept(): Refusal {
  return refuse('NOT_FOUND', { message: 'The content of the message is not kept, or not created yet.' });
}

/** A page of a stranger's: in a sandbox even where somebody opens it without the frame. */
const FRAME_HEADERS = {
  'Content-Security-Policy':
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
  'Referrer-Policy': 'no-referrer',
  'X-DNS-Prefetch-Control': 'off',
  'X-Robots-Tag': 'noindex',
};

function framed(body: string): Answer {
  return { status: 200, type: 'text/html; charset=utf-8', body, headers: FRAME_HEADERS };
}

interface State {
  readonly deliveries: readonly DeliveryRow[];
  readonly isComplained: boolean;
  readonly now: number;
}

function shownSummary({ kind, ...row }: ListedMessage, { deliveries, isComplained, now }: State) {
  return {
    ...row,
    kind: KINDS.find((each) => each === kind) ?? 'notification',
    subject: deliveries[0]?.subject,
    status: isComplained ? ('complained' as const) : statusOf(deliveries, now),
    recipients: deliveries.slice(0, contract.MAX_LISTED_RECIPIENTS).map(shownRecipient),
    recipient_count: deliveries.length,
  };
}

function shownRecipient({ recipient: address, state, next_attempt_at: due, last_reply: reply }: DeliveryRow) {
  return { address, state, next_attempt_at: due === HELD ? null : due, reply };
}

function shownAttempt({ dialogue, ...attempt }: AttemptRow) {
  return { ...attempt, dialogue: dialogueLines(dialogue ?? '') };
}

const SIDES = { '>': 'client', '<': 'server', '-': 'note' } as const;

function dialogueLines(text: string) {
  return text.split('\n').flatMap((line) => {
    const sign = line.charAt(0);
    return sign === '>' || sign === '<' || sign === '-' ? [{ side: SIDES[sign], text: line.slice(2) }] : [];
  });
}

/** Of mail that was queued before subjects were kept as well, where its source has it. */
function subjectOf({ kind, source }: MessageRow, [first]: readonly DeliveryRow[]): string | null {
  return first?.subject ?? (kind === 'transactional' ? readEmail(source).subject : null);
}

function sentMessageId(row: MessageRow): string {
  const own = row.kind === 'transactional' ? readEmail(row.source).message_id : undefined;
  return own ?? messageIdOf(row);
}
