/** What both shapes of the mail API do alike: accept mails, all of them in one unit, and find, cancel and move one. */
import type { MessageLimits } from '../../accounts/message-limits.ts';
import { mayTouch, type Principal } from '../../accounts/principal.ts';
import type { Clock } from '../../lib/clock.ts';
import { withdraw } from '../../queue/operate.ts';
import { recomputeDueAmong } from '../../store/destinations.ts';
import { deliveriesOfMessage, reschedule } from '../../store/deliveries.ts';
import { findMessage, updateSource } from '../../store/messages.ts';
import { UnmetError, writeNamed, type Store } from '../../store/store.ts';
import type { MessageRow } from '../../store/tables.ts';
import { readEmail, type NewEmail, faultAt, type Fault } from '../../transactional/email.ts';
import { isTooFar, unitOf, type Planned, type Transactional } from '../../transactional/send.ts';
import type { Answer } from '../answer.ts';
import { overPlan } from '../context.ts';
import { lacksPermission, refuse, unavailable, type Refusal } from '../errors.ts';
import type { FreeSpace } from '../../store/free-space.ts';
import { invalidAt } from './issues.ts';
import type { Call, Outcome } from './route.ts';

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
export async function commit(
  plans: readonly Planned[],
  { answer, call }: { readonly answer: Answer; readonly call: Asked },
  parts: EmailParts,
): Promise<Outcome> {
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
export async function findOwn(id: string, principal: Principal, store: Store): Promise<MessageRow | Refusal> {
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
