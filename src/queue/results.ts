/**
 * Writes down how tries ended. What the store cannot take now is written again until it can: a delivery that is not
 * written down would be made again. Nothing here rejects.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { type ClaimedRow, beginDeliveries } from '../store/leases.ts';
import { noteAnswered, noteDue, pauseDestination, recomputeDue } from '../store/destinations.ts';
import type { Statement } from '../store/statement.ts';
import { StoreError, type Store, UnmetError } from '../store/store.ts';
import type { HeldBody } from './bodies.ts';
import { type Destination, retryDelay, type RetryOptions } from './retry.ts';
import type { OnFailure, RecipientResult, Result, Unreachable, Consequence } from './transport.ts';
import {
  deferred,
  interrupted,
  parked,
  settled,
  untried,
  waits,
  waitsForPlan,
  type Ending,
  type Tried,
} from './outcome.ts';

/** Claimed recipients of one message at one destination. */
export interface ClaimedBatch {
  readonly destination: Destination;
  readonly rows: readonly ClaimedRow[];
  readonly body: HeldBody;
}

export interface ResultWriterOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly owner: string;
  readonly retry: (destination: string) => RetryOptions;
  readonly onFailure: OnFailure;
  /** There may be something to send. */
  readonly wake: () => void;
  /** Aborts when nothing is tried again any more. */
  readonly over: AbortSignal;
}

interface Written {
  readonly endings: readonly Ending[];
  /** What concerns the destination; written after the deliveries. */
  readonly more: readonly Statement[];
}

const AGAIN_AFTER = 1000;
/** How long a notification waits for its recipient to agree, ms. */
const LEAD_KEPT = 30 * 86_400_000;
const UNCONFIRMED = '451 4.7.1 the recipient has not agreed yet to get mail of this account: its mail waits';
const NOBODY = { host: null, address: null, tls: null };
/** Trying again mends no broken constraint. */
const HOPELESS = /CONSTRAINT|^23/;

export class ResultWriter {
  readonly #options: ResultWriterOptions;

  constructor(options: ResultWriterOptions) {
    this.#options = options;
  }

  /** Writes the end of a try. */
  write(batch: ClaimedBatch, result: Result): Promise<void> {
    if (result.kind === 'unreachable') return this.#unreachable(batch, result);
    return this.#decided(batch, result.recipients);
  }

  /** Writes that nobody was asked, because none of them wants this mail: `reply` says why. */
  suppressed(batch: ClaimedBatch, reply: string): Promise<void> {
    return this.#endAll(batch, (tried) => settled(tried, 'suppressed', { reply, ...NOBODY }));
  }

  /** Writes that it waits for room in the plan of its tenant. */
  waitForPlan(
    batch: ClaimedBatch,
    { until, reply }: { readonly until: number; readonly reply: string },
  ): Promise<void> {
    return this.#endAll(batch, (tried) => waitsForPlan(tried, until, reply), until);
  }

  /** Writes that it waits for the reason in `reply`, as if it had not been claimed. */
  putOff(batch: ClaimedBatch, { due, reply }: { due: number; reply: string }): Promise<void> {
    return this.#endAll(batch, (tried) => waits(tried, due, reply), due);
  }

  /** Writes that nobody was asked, because none of them has agreed yet to get the mail. */
  parked(batch: ClaimedBatch): Promise<void> {
    return this.#endAll(batch, (tried) => parked(tried, { reply: UNCONFIRMED, expires_at: keptUntil(tried) }));
  }

  #endAll(batch: ClaimedBatch, end: (tried: Tried) => Ending, due?: number): Promise<void> {
    const more = due === undefined ? [] : [noteDue({ name: batch.destination.name, due })];
    return this.#persist(batch, async (now) => ({ endings: (await this.#tried(batch, now)).map(end), more }));
  }

  #unreachable(batch: ClaimedBatch, result: Unreachable): Promise<void> {
    const { clock, log, retry } = this.#options;
    const { destination } = batch;
    const { name } = destination;
    const now = clock.now();
    const tenant = batch.rows[0]?.tenant ?? '';
    const pause = destination.fail(result, { now, monotonic: clock.monotonic(), tenant }, retry(name));
    const until = destination.pausedUntil ?? now;
    if (pause !== undefined) {
      const { reply, host, address } = result;
      const times = { failures: pause.failures, until: new Date(until).toISOString() };
      log.warn('destination.paused', { destination: name, ...times, host, address, reply });
    }
    return this.#persist(batch, async () => ({
      endings: (await this.#tried(batch, now)).map((tried) => deferred(tried, until, result)),
      more: [
        pause === undefined
          ? noteDue({ name, due: until })
          : pauseDestination({ name, ...pause, last_error: result.reply }),
      ],
    }));
  }

  #decided(batch: ClaimedBatch, results: readonly RecipientResult[]): Promise<void> {
    const { destination, body } = batch;
    const { name } = destination;
    const isBack = (destination.isFailing || !destination.isProven) && results.some(isAnswer);
    const pausedUntil = destination.pausedUntil;
    if (isBack) destination.succeed();
    const byId = new Map(results.map((result) => [result.recipient.id, result]));
    return this.#persist(batch, async (now) => {
      if (results.some(isToBeKept)) await body.keep();
      const dues: number[] = [];
      const endings = (await this.#tried(batch, now)).map((tried): Ending => {
        const result = byId.get(tried.row.id);
        switch (result?.outcome) {
          case 'delivered':
          case 'bounced':
          case 'captured':
            return settled(tried, result.outcome, result);
          case 'deferred': {
            const cause = result.cause === 'fault' ? 'fault' : 'reply';
            const delay = retryDelay(tried.row.attempts, cause, this.#options.retry(name));
            const due = now + Math.max(delay, result.wait ?? 0);
            dues.push(due);
            return deferred(tried, due, result);
          }
          case 'interrupted': {
            const due = now + retryDelay(tried.row.attempts, 'reply', this.#options.retry(name));
            dues.push(due);
            return interrupted(tried, due, result);
          }
          case 'postponed': {
            const due = now + (result.wait ?? 0);
            dues.push(due);
            return waits(tried, due, result.reply);
          }
          case 'untouched':
          case undefined:
            dues.push(isBack ? now : Math.max(now, pausedUntil ?? now));
            return untried(tried);
        }
      });
      if (isBack) return { endings, more: [noteAnswered({ name }), recomputeDue({ name })] };
      return { endings, more: dues.length === 0 ? [] : [noteDue({ name, due: Math.min(...dues) })] };
    });
  }

  async #tried({ rows, body }: ClaimedBatch, now: number): Promise<Tried[]> {
    const { owner } = this.#options;
    const message = await body.message();
    return rows.map((row) => ({ row, owner, message, now }));
  }

  /** Makes and writes the entry until that works. */
  async #persist({ destination }: ClaimedBatch, make: (now: number) => Promise<Written>): Promise<void> {
    const { clock, log, over } = this.#options;
    for (let complained = false; ; complained = true) {
      try {
        const { endings, more } = await make(clock.now());
        return await writeEndings(endings, more, this.#options);
      } catch (error) {
        const hopeless = !(error instanceof StoreError) || HOPELESS.test(error.code);
        if (hopeless || over.aborted) {
          // Still leased: it is taken back with other leases that nobody keeps.
          return log.error('delivery.unwritten', { destination: destination.name, ...errorFields(error) });
        }
        if (!complained) log.warn('delivery.unwritten', { destination: destination.name, ...errorFields(error) });
        await clock.sleep(AGAIN_AFTER, over);
      }
    }
  }
}

/** A lead waits longer for its owner's word than for a server that is down. */
function keptUntil({ row, message }: Tried): number {
  return message?.kind === 'notification' ? Math.max(row.expires_at, row.created_at + LEAD_KEPT) : row.expires_at;
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

export interface WritingOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly onFailure: OnFailure;
  /** Called when what followed may be due. */
  readonly wake: () => void;
}

const NOTHING: Consequence = { unit: [], data: {} };

/**
 * Commits the endings of deliveries of one message, and `more` after them: together, or one by one where another has
 * decided about one of them. Rejects where the store cannot.
 */
export async function writeEndings(
  endings: readonly Ending[],
  more: readonly Statement[],
  options: WritingOptions,
): Promise<void> {
  const { store, log, wake } = options;
  try {
    const { unit, data } = await consequenceOf(endings, options);
    await store.write([...endings.flatMap((ending) => ending.unit(data)), ...unit, ...more]);
    for (const { event, fields } of endings) log.info(event, { ...fields, ...data });
    if (unit.length > 0) wake();
  } catch (error) {
    if (!(error instanceof UnmetError)) throw error;
    const [only] = endings;
    if (endings.length > 1) {
      for (const ending of endings) await writeEndings([ending], more, options);
    } else if (only !== undefined) {
      // It was taken back while we were busy with it: whoever has it now decides.
      log.warn('delivery.lease_lost', only.fields);
    }
  }
}

async function consequenceOf(
  endings: readonly Ending[],
  { clock, log, onFailure }: WritingOptions,
): Promise<Consequence> {
  const failures = endings.flatMap(({ failure }) => failure ?? []);
  const [first] = failures;
  if (first === undefined) return NOTHING;
  const recipients = failures.map(({ recipient }) => recipient);
  try {
    return await onFailure({ message: first.message, recipients, at: clock.now() });
  } catch (error) {
    if (error instanceof StoreError) throw error;
    // What has ended has ended: it must not be made again for a fault in what follows.
    log.error('delivery.unfollowed', { message: first.message.id, ...errorFields(error) });
    return NOTHING;
  }
}

interface Waiting {
  readonly rows: readonly ClaimedRow[];
  readonly answer: (begun: boolean) => void;
}

/**
 * Writes that attempts begin, before anybody is dialled: what was claimed and had not begun when the daemon died costs no
 * attempt and is due at once. One write at a time, for all that have come together meanwhile.
 */
export class BeginWriter {
  readonly #store: Store;
  readonly #log: Log;
  readonly #owner: string;
  #waiting: Waiting[] = [];
  #writing = false;

  constructor({ store, log, owner }: { store: Store; log: Log; owner: string }) {
    this.#store = store;
    this.#log = log;
    this.#owner = owner;
  }

  /** Resolves when it is on the disk; with false where it cannot be: the lease is lost, the tenant suspended, the store away. */
  begin(rows: readonly ClaimedRow[]): Promise<boolean> {
    return new Promise((answer) => {
      this.#waiting.push({ rows, answer });
      if (!this.#writing) void this.#write();
    });
  }

  async #write(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0) {
      const together = this.#waiting;
      this.#waiting = [];
      const begun = await this.#begin(together.flatMap(({ rows }) => rows));
      for (const { rows, answer } of together) answer(rows.every(({ id, attempts }) => begun.get(id) === attempts));
    }
    this.#writing = false;
  }

  async #begin(rows: readonly ClaimedRow[]): Promise<ReadonlyMap<string, number>> {
    const ids = JSON.stringify(rows.map(({ id }) => id));
    try {
      const [{ rows: begun }] = await this.#store.write([beginDeliveries({ ids, owner: this.#owner })]);
      return new Map(begun.map(({ id, attempts }) => [id, attempts]));
    } catch (error) {
      // What did not begin is given back as soon as that can be written.
      this.#log.warn('delivery.not_begun', { deliveries: rows.length, ...errorFields(error) });
      return new Map();
    }
  }
}
