/**
 * Writes down how tries ended: for each delivery the rows that say so, in one unit, and a line in the log. What the store
 * cannot take now is written again until it can, because a delivery that is not written down would be made again.
 */
import { isoTime, type Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { LogEvent } from '../lib/log-events.ts';
import type { Fields, Log } from '../lib/log.ts';
import { bounceMeaning, type BounceClass } from '../mail/bounce-class.ts';
import {
  insertAttempt,
  deferDelivery,
  endWaiting,
  giveBack,
  parkDelivery,
  putOff,
  settleDelivery,
  SUSPENDED,
  waitForPlan,
} from '../store/messages.ts';
import { noteAnswered, noteDue, pauseDestination, pauseRelay, recomputeDue, RELAY } from '../store/destinations.ts';
import { recordEvent, type EventType } from '../store/events.ts';
import type { ClaimedRow } from '../store/leases.ts';
import type { Statement } from '../store/statement.ts';
import { StoreError, UnmetError, type Store } from '../store/store.ts';
import { suppress } from '../store/suppressions.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../store/tables.ts';
import type { HeldBody } from './bodies.ts';
import { isWebhook, receiverOf, type Destination, type OnRelayPause, type Receiver } from './destinations.ts';
import type { Reach } from './reach.ts';
import { SANDBOX } from './sandbox.ts';
import { retryDelay, type RetryOptions } from './retry.ts';
import {
  NOBODY,
  type FailedRecipient,
  type OnFailure,
  type RecipientResult,
  type Result,
  type Unreachable,
} from './transport.ts';

/** Claimed recipients of one message at one destination. */
export interface ClaimedBatch {
  readonly destination: Destination;
  readonly rows: readonly ClaimedRow[];
  readonly body: HeldBody;
}

export interface WritingOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly onFailure: OnFailure;
  /** There may be something to send. */
  readonly wake: () => void;
  /** Counts what is on the disk; default: nobody. */
  readonly onCounted?: ((counted: Counted) => void) | undefined;
}

/** The end of a try, for whoever counts. */
export interface Counted {
  readonly outcome: 'delivered' | 'deferred' | 'bounced' | 'expired' | 'suppressed' | 'captured';
  readonly receiver: Receiver;
  /** Since it was accepted, ms. */
  readonly age: number;
}

export interface ResultWriterOptions extends WritingOptions {
  readonly owner: string;
  readonly retry: (destination: string) => RetryOptions;
  readonly reach: Reach;
  readonly relay: {
    readonly destination: Destination;
    readonly isUsedBy: (destination: string) => boolean;
    readonly onPause: OnRelayPause;
  };
  /** Aborts when nothing is tried again any more. */
  readonly over: AbortSignal;
}

/** Why claimed deliveries are not sent now: a plan without room, or what keeps them from their recipient. */
export type Withheld =
  | 'suppressed'
  | 'stopped'
  | 'refused'
  | 'pending'
  | 'suspended'
  | 'unknown'
  | { readonly until: number; readonly reply: string };

/** What a try means for one delivery. */
interface Ending {
  /** `data` goes into the event that tells of a failure. */
  readonly unit: (data: Fields) => readonly Statement[];
  /** It will never arrive. */
  readonly failure?: { readonly message: MessageRow; readonly recipient: FailedRecipient } | undefined;
  /** For the log, once the unit is on the disk. */
  readonly event: LogEvent;
  readonly fields: Fields;
  /** Where it is the end of a try. */
  readonly counted?: Counted;
}

/** A delivery, whose message may be gone meanwhile. */
interface About {
  readonly row: Pick<ClaimedRow, 'id' | 'tenant' | 'recipient' | 'message' | 'destination' | 'created_at'>;
  readonly message: MessageRow | undefined;
  readonly now: number;
}

/** One that was claimed; `lease` is what the store knows the claim by. */
interface Tried extends About {
  readonly row: ClaimedRow;
  readonly lease: { readonly id: string; readonly owner: string; readonly attempts: number };
}

type Words = Pick<
  RecipientResult,
  'reply' | 'host' | 'address' | 'tls' | 'policy' | 'dialogue' | 'after' | 'complained'
>;

interface Written {
  readonly endings: readonly Ending[];
  /** What concerns the destination; written after the deliveries. */
  readonly more: readonly Statement[];
}

const WRITE_AGAIN_MS = 1000;
/** What was postponed without a time is tried again after so long, ms. */
const POSTPONED_MS = 2000;
/** How long a notification waits for its recipient to agree, ms. */
const LEAD_KEPT_MS = 30 * 86_400_000;
/** Mail of a suspended tenant is due as soon as the tenant is served; where a crash came between, so much later, ms. */
const LOOK_AT_SUSPENDED_MS = 3_600_000;
/** A new try does not satisfy a violated constraint. */
const HOPELESS = /CONSTRAINT|^23/;

export class ResultWriter {
  readonly #options: ResultWriterOptions;

  constructor(options: ResultWriterOptions) {
    this.#options = options;
  }

  /** Writes the end of a try. Never rejects. */
  write(batch: ClaimedBatch, result: Result): Promise<void> {
    if (result.kind === 'unreachable') {
      return result.isRelay === true ? this.#relayFailed(batch, result) : this.#unreachable(batch, result);
    }
    return this.#decided(batch, result.recipients);
  }

  /** Writes why nobody was asked. Never rejects. */
  withhold(batch: ClaimedBatch, why: Withheld): Promise<void> {
    // As if nobody had been asked: it is looked at again.
    if (why === 'unknown') return this.#decided(batch, []);
    const { name } = batch.destination;
    return this.#persist(batch, async (now) => {
      const tried = await this.#tried(batch, now);
      if (typeof why === 'object') {
        const endings = tried.map((each) => waitsForPlan(each, why.until, why.reply));
        return { endings, more: [noteDue({ name, due: why.until })] };
      }
      if (why === 'suspended') {
        const due = now + LOOK_AT_SUSPENDED_MS;
        return { endings: tried.map((each) => waits(each, due, SUSPENDED)), more: [noteDue({ name, due })] };
      }
      if (why === 'pending') return { endings: tried.map(parked), more: [] };
      const words = { ...NOBODY, reply: UNWANTED[why] };
      return { endings: tried.map((each) => settled(each, 'suppressed', words)), more: [] };
    });
  }

  #unreachable(batch: ClaimedBatch, result: Unreachable): Promise<void> {
    const { clock, log, retry, reach } = this.#options;
    const { destination } = batch;
    const { name } = destination;
    const now = clock.now();
    const tenant = batch.rows[0]?.tenant ?? '';
    const { hasOthers } = reach;
    const times = { now, monotonic: clock.monotonic(), tenant, hasOthers };
    const { isFailing, isProven } = destination;
    const pause = destination.fail(result, times, retry(name));
    if (hasOthers && !isFailing) reach.failed({ name, isProven, reply: result.reply }, retry(name));
    const until = destination.pausedUntil ?? now;
    if (pause !== undefined) {
      const { reply, host, address } = result;
      const times = { failures: pause.failures, until: isoTime(until) };
      log.warn('destination.paused', { destination: name, ...times, host, address, reply });
    }
    const due =
      pause === undefined
        ? noteDue({ name, due: until })
        : pauseDestination({ name, ...pause, last_error: result.reply });
    return this.#persist(batch, async () => {
      const tried = await this.#tried(batch, now);
      return { endings: tried.map((each) => deferred(each, until, { ...result, outcome: 'deferred' })), more: [due] };
    });
  }

  /** No domain is to blame: the mail waits with all other mail for the smarthost. */
  #relayFailed(batch: ClaimedBatch, result: Unreachable): Promise<void> {
    const { clock, log, retry, relay, reach } = this.#options;
    const { name } = batch.destination;
    const { destination } = relay;
    const now = clock.now();
    const { hasOthers } = reach;
    const times = { now, monotonic: clock.monotonic(), tenant: '', hasOthers };
    const { isFailing } = destination;
    const pause = destination.fail(result, times, retry(RELAY));
    const until = destination.pausedUntil ?? now;
    const { reply, host, address } = result;
    if (hasOthers && !isFailing) reach.failed({ name: RELAY, isProven: false, reply }, retry(RELAY));
    if (pause !== undefined) {
      log.error('relay.paused', { failures: pause.failures, until: isoTime(until), host, address, reply });
    }
    return this.#persist(batch, async () => {
      const tried = await this.#tried(batch, now);
      const endings = tried.map((each) => deferred(each, until, { ...result, outcome: 'deferred' }));
      const due = noteDue({ name, due: until });
      if (pause === undefined) return { endings, more: [due] };
      await relay.onPause({ pauses: pause.pauses, reply, until, at: now });
      return { endings, more: [due, pauseRelay({ ...pause, last_error: reply })] };
    });
  }

  #decided(batch: ClaimedBatch, results: readonly RecipientResult[]): Promise<void> {
    const { destination, body } = batch;
    const { name, pausedUntil } = destination;
    const { relay, reach } = this.#options;
    const isAnswered = results.some(isAnswer);
    if (isAnswered && name !== SANDBOX) reach.answered(relay.isUsedBy(name) ? RELAY : name);
    const isRelayBack = relay.destination.isFailing && relay.isUsedBy(name) && isAnswered;
    if (isRelayBack) {
      relay.destination.succeed();
      this.#options.log.info('relay.back');
    }
    const relayBack = isRelayBack ? [noteAnswered({ name: RELAY })] : [];
    const isBack = (destination.isFailing || !destination.isProven) && isAnswered;
    if (isBack) destination.succeed();
    const byId = new Map(results.map((result) => [result.recipient.id, result]));
    return this.#persist(batch, async (now) => {
      if (results.some(isToBeKept)) await body.keep();
      const dues: number[] = [];
      function next(due: number): number {
        dues.push(due);
        return due;
      }
      const endings = (await this.#tried(batch, now)).map((tried): Ending => {
        const result = byId.get(tried.row.id);
        switch (result?.outcome) {
          case 'delivered':
          case 'bounced':
          case 'captured':
            return settled(tried, result.outcome, result);
          case 'deferred':
          case 'interrupted': {
            const cause = result.outcome === 'deferred' && result.cause === 'fault' ? 'fault' : 'reply';
            const delay = retryDelay(tried.row.attempts, cause, this.#options.retry(name));
            const { outcome } = result;
            return deferred(tried, next(now + Math.max(delay, result.wait ?? 0)), { ...result, outcome });
          }
          case 'postponed':
            return waits(tried, next(now + (result.wait ?? POSTPONED_MS)), result.reply);
          case 'untouched':
          case undefined:
            next(isBack ? now : Math.max(now, pausedUntil ?? now));
            return untried(tried, 'returned', { statement: giveBack({ ...tried.lease, due: now }, 1) });
        }
      });
      if (isBack) return { endings, more: [noteAnswered({ name }), recomputeDue({ name }), ...relayBack] };
      const due = dues.length === 0 ? [] : [noteDue({ name, due: Math.min(...dues) })];
      return { endings, more: [...due, ...relayBack] };
    });
  }

  async #tried({ rows, body }: ClaimedBatch, now: number): Promise<Tried[]> {
    const { owner } = this.#options;
    const message = await body.message();
    return rows.map((row) => ({ row, message, now, lease: { id: row.id, owner, attempts: row.attempts } }));
  }

  /** Makes and writes the endings until that works. */
  async #persist({ destination }: ClaimedBatch, make: (now: number) => Promise<Written>): Promise<void> {
    const { clock, log, over } = this.#options;
    for (let complained = false; ; complained = true) {
      try {
        return await writeEndings(await make(clock.now()), this.#options);
      } catch (error) {
        const isHopeless = !(error instanceof StoreError) || HOPELESS.test(error.code);
        const fields = { destination: destination.name, ...errorFields(error) };
        // Still leased: it is taken back with other leases that nobody keeps.
        if (isHopeless || over.aborted) return log.error('delivery.unwritten', fields);
        if (!complained) log.warn('delivery.unwritten', fields);
        await clock.sleep(WRITE_AGAIN_MS, over);
      }
    }
  }
}

/** Whether the bytes are sent again, or read. */
function isToBeKept({ outcome, host }: RecipientResult): boolean {
  return outcome === 'captured' || (outcome === 'deferred' && host !== null);
}

/** Whether a server at the destination, or DNS for good, has decided about the recipient; the sandbox does as well. */
function isAnswer({ outcome, cause, host }: RecipientResult): boolean {
  if (outcome === 'deferred') return cause === 'reply' && host !== null;
  return outcome === 'delivered' || outcome === 'bounced' || outcome === 'captured';
}

/** Ends waiting deliveries of one message that are too old. Rejects where the store cannot. */
export async function writeExpired(
  rows: readonly DeliveryRow[],
  message: MessageRow | undefined,
  options: WritingOptions,
): Promise<void> {
  const now = options.clock.now();
  await writeEndings({ endings: rows.map((row) => expired(row, message, now)), more: [] }, options);
}

/**
 * Commits the endings of deliveries of one message, and `more` after them: together, or one by one where another has
 * decided about one of them. Rejects where the store cannot.
 */
async function writeEndings({ endings, more }: Written, options: WritingOptions): Promise<void> {
  const { store, log, wake, onCounted } = options;
  try {
    const { unit, data } = await consequenceOf(endings, options);
    await store.write([...endings.flatMap((ending) => ending.unit(data)), ...unit, ...more]);
    for (const { event, fields, counted } of endings) {
      log.info(event, { ...fields, ...data });
      if (counted !== undefined) onCounted?.(counted);
    }
    if (unit.length > 0) wake();
  } catch (error) {
    if (!(error instanceof UnmetError)) throw error;
    const [only] = endings;
    if (endings.length > 1) {
      for (const ending of endings) await writeEndings({ endings: [ending], more }, options);
    } else if (only !== undefined) {
      // It was taken back while we were busy with it: whoever has it now decides.
      log.warn('delivery.lease_lost', only.fields);
    }
  }
}

async function consequenceOf(endings: readonly Ending[], { clock, log, onFailure }: WritingOptions) {
  const failures = endings.flatMap(({ failure }) => failure ?? []);
  const [first] = failures;
  if (first === undefined) return { unit: [], data: {} };
  const recipients = failures.map(({ recipient }) => recipient);
  try {
    return await onFailure({ message: first.message, recipients, at: clock.now() });
  } catch (error) {
    if (error instanceof StoreError) throw error;
    // What has ended has ended: it must not be made again for a fault in what follows.
    log.error('delivery.unfollowed', { message: first.message.id, ...errorFields(error) });
    return { unit: [], data: {} };
  }
}

/** The delivery is over. */
function settled(tried: Tried, state: 'delivered' | 'bounced' | 'suppressed' | 'captured', words: Words): Ending {
  const { row, message, now } = tried;
  const isBounced = state === 'bounced';
  const isFailed = isBounced || state === 'suppressed';
  const meaning = isFailed ? bounceMeaning({ words: words.reply, after: words.after }) : undefined;
  const isGone = isBounced && meaning?.suppress === true && message !== undefined && suppressesGone(message);
  const reason = words.complained === true ? 'complaint' : isGone ? 'bounce' : undefined;
  const why = isBounced && meaning !== undefined ? { class: meaning.class } : {};
  const type = isFailed ? (`email.${state}` as const) : 'email.delivered';
  return {
    unit: (data) => [
      settleDelivery({ ...tried.lease, state, reply: words.reply, at: now }, 1),
      // A suppressed recipient was never tried.
      ...(state === 'suppressed' ? [] : [attempt(tried, state, words)]),
      ...eventOf(tried, type, { state, ...said(words), ...why, attempt: row.attempts, ...data }),
      ...(words.complained === true ? eventOf(tried, 'email.complained', {}) : []),
      ...(reason ? [suppress({ tenant: row.tenant, address: row.recipient, reason, created_at: now })] : []),
    ],
    failure: meaning && failureOf(tried, words, meaning.class),
    event: `delivery.${state}`,
    fields: fieldsOf(tried, words),
    counted: countedAs(state, tried, words.host),
  };
}

/**
 * The delivery is tried again when `due`. Interrupted: the daemon stopped in the middle, and the message may have arrived;
 * the try counts.
 */
function deferred(tried: Tried, due: number, words: Words & { outcome: 'deferred' | 'interrupted' }): Ending {
  const { outcome } = words;
  const next = outcome === 'deferred' ? { next_attempt_at: isoTime(due) } : undefined;
  const { attempts } = tried.row;
  const { class: why } = bounceMeaning({ words: words.reply, after: words.after });
  return {
    unit: () => [
      deferDelivery({ ...tried.lease, reply: words.reply, due }, 1),
      attempt(tried, outcome, words),
      ...(next ? eventOf(tried, 'email.deferred', { ...said(words), class: why, attempt: attempts, ...next }) : []),
    ],
    event: `delivery.${outcome}`,
    fields: { ...fieldsOf(tried, words), ...next },
    ...(outcome === 'deferred' ? { counted: countedAs(outcome, tried, words.host) } : {}),
  };
}

/** The delivery was claimed and not tried: its tenant has sent as much as it may until `due`. */
function waitsForPlan(tried: Tried, due: number, reply: string): Ending {
  const words = { ...NOBODY, reply };
  const next = { next_attempt_at: isoTime(due) };
  return {
    unit: () => [
      waitForPlan({ ...tried.lease, due, reply, wait: Math.max(0, due - tried.now) }, 1),
      ...eventOf(tried, 'email.deferred', { ...said(words), attempt: 0, ...next }),
    ],
    event: 'delivery.deferred',
    fields: { ...fieldsOf(tried, words), ...next },
  };
}

/** The delivery was claimed and not tried; the log says why. */
function untried(
  { row }: Tried,
  event: 'waits' | 'returned' | 'parked',
  { statement, ...more }: { readonly statement: Statement } & Fields,
): Ending {
  return { unit: () => [statement], event: `delivery.${event}`, fields: { ...whose(row), ...more } };
}

/** It must wait, for a reason that it shows; the try does not count. */
function waits(tried: Tried, due: number, reply: string): Ending {
  const statement = putOff({ ...tried.lease, due, reply }, 1);
  return untried(tried, 'waits', { statement, reply, next_attempt_at: isoTime(due) });
}

const UNWANTED = {
  suppressed: '550 5.7.1 the address is on the suppression list',
  stopped: '550 5.7.1 the recipient has stopped the notifications of this form',
  refused: '550 5.7.1 the recipient has declined mail from this server',
};
const UNCONFIRMED = '451 4.7.1 the recipient has not agreed yet to receive mail from this account: its mail is waiting';

/**
 * The delivery was claimed and not tried: it waits until its recipient agrees. A lead waits longer for its owner's word
 * than for a server that is down.
 */
function parked(tried: Tried): Ending {
  const { row, message } = tried;
  const kept = message?.kind === 'notification' ? row.created_at + LEAD_KEPT_MS : 0;
  const parking = { ...tried.lease, reply: UNCONFIRMED, expires_at: Math.max(row.expires_at, kept) };
  return untried(tried, 'parked', { statement: parkDelivery(parking, 1), reply: UNCONFIRMED });
}

/** The delivery waited as long as it may. */
function expired(row: DeliveryRow, message: MessageRow | undefined, now: number): Ending {
  const { id, attempts, last_reply } = row;
  const effort = `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`;
  const last = last_reply === null ? '' : `; last reply: ${last_reply}`;
  const reply = `550 4.4.7 given up after ${effort}${last}`;
  // Why it could not be delivered all the time, and no word on the address: it was never refused for good.
  const { class: why } = bounceMeaning({ words: last_reply ?? '' });
  const about = { row, message, now };
  const words = { ...NOBODY, reply };
  return {
    unit: (data) => [
      endWaiting({ id, state: 'expired', reply, at: now }, 1),
      insertAttempt({ delivery: id, number: attempts + 1, at: now, outcome: 'expired', ...said(words) }),
      ...eventOf(about, 'email.bounced', { state: 'expired', ...words, class: why, attempt: attempts, ...data }),
    ],
    failure: failureOf(about, words, why),
    event: 'delivery.expired',
    fields: { ...whose(row), reply, attempts },
    counted: countedAs('expired', about, null),
  };
}

/**
 * Whether word that there is no such mailbox ends mail to it: not for mail to an owner, whose leads must not end at a slip
 * of their own server, and not for the tests of a tenant, which must not stop its mail.
 */
export function suppressesGone({ kind, environment }: MessageRow): boolean {
  return environment === 'live' && (kind === 'transactional' || kind === 'acknowledgment' || kind === 'confirmation');
}

function failureOf({ row, message }: About, { reply, host }: Words, why: BounceClass): Ending['failure'] {
  if (message === undefined || isWebhook(row.destination)) return undefined;
  return { message, recipient: { address: row.recipient, reply, host, class: why } };
}

function said({ reply, host, address, tls }: Words) {
  return { reply, host, address, tls };
}

function attempt({ row, now }: Tried, outcome: Exclude<AttemptRow['outcome'], 'expired'>, words: Words) {
  const { name = null, result = null } = words.policy ?? {};
  const policy = { tls_policy: name, tls_result: result };
  const { dialogue } = words;
  return insertAttempt({
    delivery: row.id,
    number: row.attempts,
    at: now,
    outcome,
    ...said(words),
    ...policy,
    dialogue: dialogue === undefined || dialogue === '' ? null : dialogue,
  });
}

/** The event of a delivery; what becomes of one to a webhook is none: webhooks would be told of it. */
export function eventOf({ row, message, now: at }: About, type: EventType, more: Fields): Statement[] {
  const { id: delivery, tenant, recipient, destination } = row;
  if (isWebhook(destination)) return [];
  const data = { delivery, recipient, ...more, ...(message?.environment === 'test' && { environment: 'test' }) };
  const { domain = null, submission = null } = message ?? {};
  return [recordEvent({ type, tenant, at, data, message: row.message, domain, submission })];
}

function countedAs(outcome: Counted['outcome'], { row, now }: About, host: string | null): Counted {
  return { outcome, receiver: receiverOf(row.destination, host), age: Math.max(0, now - row.created_at) };
}

function whose({ id, message, recipient }: About['row']) {
  return { message, delivery: id, recipient };
}

function fieldsOf({ row }: Tried, { host, address, tls, reply }: Words): Fields {
  const { destination, attempts } = row;
  const webhook = isWebhook(destination) ? { destination } : {};
  return { ...whose(row), ...webhook, attempt: attempts, host, address, tls, reply };
}
