/**
 * The worker: claims what is due, hands it to the transport, writes down how each try ended. What it claims is leased, so
 * that after a crash the next start (SQLite) or another daemon within a minute (PostgreSQL) goes on where this one ended;
 * an end that cannot be written is written again until it can, and no connection sends more until then.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { ClaimedRow } from '../store/leases.ts';
import { SUSPENDED } from '../store/deliveries.ts';
import { recipientStatuses, releaseParked, type RecipientStatus } from '../store/consents.ts';
import { nextDueAt } from '../store/destinations.ts';
import { findMessages } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import type { MessageKind, MessageRow } from '../store/tables.ts';
import { suspendedTenants } from '../store/tenants.ts';
import { createBodies, type Bodies } from './bodies.ts';
import { BeginWriter, ResultWriter, type ClaimedBatch } from './results.ts';
import { Maintenance } from './maintenance.ts';
import { Claimer, type Claimed } from './claimer.ts';
import {
  isWebhook,
  type Admission,
  type Batch,
  type Consequence,
  type OnFailure,
  type Random,
  type Recipient,
  type Source,
  type Transport,
} from './transport.ts';
import { WEBHOOK_RETRY_MS, type RetryOptions } from './retry.ts';
import { createSandbox, SANDBOX } from './sandbox.ts';

export interface WorkerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly source: Source;
  readonly transports: { readonly mail: Transport; readonly webhooks: Transport };
  readonly config: () => ServerConfig;
  /** Names this daemon's leases; no two starts of a daemon share it. */
  readonly owner: string;
  readonly random: Random;
  /** Nothing follows from a failure unless told. */
  readonly onFailure?: OnFailure;
  /** Nothing waits for its tenant's plan unless told. */
  readonly admission?: Admission;
}

export interface Progress {
  /** When the queue was last looked through, ms. */
  readonly lookedAt: number;
  /** When a look last ended, well or not, on the monotonic clock. */
  readonly triedAt: number;
  /** Recipients that are claimed: at hand or in flight. */
  readonly claimed: number;
  /** What keeps the store from being written; undefined while it works. */
  readonly fault: string | undefined;
}

export interface Worker {
  /** There may be something due. */
  wake(): void;
  /** Claims nothing more, lets what is in flight end for `graceMs`, gives the rest back. */
  stop(graceMs: number): Promise<void>;
  progress(): Progress;
}

/** The longest time between two looks at the queue, ms. */
const POLL = 5000;
const AFTER_FAULT = 1000;

/** Destinations that have not answered, which may hang, are cheap: so many may be tried for each connection to the others. */
const UNPROVEN_PER_CONNECTION = 20;
/** Mail of a suspended tenant is due as soon as the tenant is served; where a crash came between, so much later, ms. */
const LOOK_AT_SUSPENDED = 3_600_000;

/** With a reason of our own, an abort makes no error with a stack, which costs more than the rest of a wake. */
const AWAKE = 'awake';

/** A lead reaches the form's owner, and an alert whom it is for, whatever other mail to them has come to. */
export const HEEDS_SUPPRESSION: Readonly<Record<MessageKind, boolean>> = {
  notification: false,
  system: false,
  acknowledgment: true,
  transactional: true,
  forward: true,
  reply: true,
  dsn: true,
  webhook: false,
};

/** Whose recipients the tenant names, so that they have to agree to get its mail; other mail has rules of its own. */
export const NEEDS_CONSENT: Readonly<Record<MessageKind, boolean>> = {
  notification: true,
  forward: true,
  system: true,
  acknowledgment: false,
  transactional: false,
  reply: false,
  dsn: false,
  webhook: false,
};
/** What a tenant causes by mail that strangers send; what programs send counted when it was accepted. */
const COUNTS: ReadonlySet<MessageKind> = new Set(['notification', 'acknowledgment', 'forward', 'reply']);

/** A worker that has begun. */
export function createWorker(options: WorkerOptions): Worker {
  return new QueueWorker(options);
}

class QueueWorker implements Worker {
  readonly #options: WorkerOptions;
  readonly #sandbox = createSandbox();
  readonly #bodies: Bodies;
  readonly #claimer: Claimer;
  readonly #maintenance: Maintenance;
  readonly #results: ResultWriter;
  readonly #beginWriter: BeginWriter;
  /** Tenants of which nothing leaves. */
  #suspended: ReadonlySet<string> = new Set();
  readonly #running: Promise<void>;
  /** Ids of claimed deliveries. */
  readonly #claimed = new Set<string>();
  /** What is being written that no transport waits for. */
  readonly #pending = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  /** Aborted when nothing is written again any more. */
  readonly #over = new AbortController();
  #rest = new AbortController();
  #awake = false;
  #lookedAt: number;
  #triedAt: number;
  #fault: string | undefined;

  constructor(options: WorkerOptions) {
    const { store, source, owner, clock, log, onFailure = nothingFollows } = options;
    this.#options = options;
    this.#lookedAt = clock.now();
    this.#triedAt = clock.monotonic();
    this.#bodies = createBodies({
      store,
      source,
      onFault: (message, error) => log.error('delivery.unprepared', { message, ...errorFields(error) }),
    });
    const retry = (destination: string) => this.#retry(destination);
    const wake = () => this.wake();
    this.#claimer = new Claimer({
      store,
      transportOf: (destination) => this.#transportOf(destination),
      owner,
      retry,
      mostUnproven: () => options.config().delivery.concurrency * UNPROVEN_PER_CONNECTION,
    });
    this.#beginWriter = new BeginWriter({ store, log, owner });
    this.#results = new ResultWriter({ store, clock, log, owner, retry, onFailure, wake, over: this.#over.signal });
    const isClaimed = (id: string) => this.#claimed.has(id);
    this.#maintenance = new Maintenance({ store, clock, log, owner, isClaimed, onFailure, wake });
    this.#running = this.#run();
  }

  wake(): void {
    if (this.#awake) return;
    this.#awake = true;
    this.#rest.abort(AWAKE);
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.wake();
    await this.#running;
    const { mail, webhooks } = this.#options.transports;
    await Promise.all([mail, webhooks, this.#sandbox].map((transport) => transport.stop(graceMs)));
    this.#over.abort();
    await Promise.all(this.#pending);
  }

  progress(): Progress {
    return {
      lookedAt: this.#lookedAt,
      triedAt: this.#triedAt,
      claimed: this.#claimer.outstanding,
      fault: this.#fault,
    };
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#awake = false;
      const rest = await this.#look().catch((error: unknown) => {
        this.#failed(error);
        return AFTER_FAULT;
      });
      this.#triedAt = this.#options.clock.monotonic();
      // `wake` may have been called meanwhile.
      if (rest > 0 && !this.#awake) await this.#sleep(rest);
    }
  }

  /** Looks through the queue once; answers how long there is nothing to do. */
  async #look(): Promise<number> {
    const { clock, store } = this.#options;
    this.#suspended = new Set(await suspendedTenants(store));
    await this.#maintenance.start();
    const now = clock.now();
    const claimed = await this.#claimer.claim(now);
    if (claimed.length > 0) await this.#dispatch(claimed);
    await this.#maintenance.run();
    this.#lookedAt = clock.now();
    this.#fault = undefined;
    if (claimed.length > 0) return 0;
    const next = await nextDueAt(store);
    // What is due and was not claimed has no room now: the end of a try wakes us.
    return next === undefined || next <= now ? POLL : Math.min(POLL, next - now);
  }

  #sleep(ms: number): Promise<void> {
    this.#rest = new AbortController();
    return this.#options.clock.sleep(ms, this.#rest.signal);
  }

  #failed(error: unknown): void {
    const fault = messageOf(error);
    if (this.#fault !== fault) this.#options.log.error('queue.fault', errorFields(error));
    this.#fault = fault;
  }

  #transportOf(destination: string): Transport {
    const { mail, webhooks } = this.#options.transports;
    if (isWebhook(destination)) return webhooks;
    return destination === SANDBOX ? this.#sandbox : mail;
  }

  #retry(destination: string): RetryOptions {
    const table = isWebhook(destination) ? WEBHOOK_RETRY_MS : this.#options.config().delivery.retry;
    return { table, random: this.#options.random };
  }

  async #dispatch(claimed: readonly Claimed[]): Promise<void> {
    const all = claimed.flatMap(({ rows }) => rows);
    for (const { id } of all) this.#claimed.add(id);
    const ids = [...new Set(all.map(({ message }) => message))];
    // Where they cannot be read now, each try asks for its own.
    const messages = await findMessages(this.#options.store, ids).catch((error: unknown) => {
      this.#failed(error);
      return new Map<string, MessageRow>();
    });
    const statuses = await this.#statuses(all, messages);
    const agreed = all.filter(({ id }) => (statuses.get(id) ?? 'confirmed') === 'confirmed');
    const waits = await this.#admit(agreed, messages);
    for (const { destination, rows } of claimed) {
      const batches: Batch[] = [];
      for (const [id, group] of Map.groupBy(rows, ({ message }) => message)) {
        const message = messages.get(id);
        if (group.some(({ suspended }) => suspended === 1)) {
          this.#putOff({ destination, rows: group, body: this.#bodies.hold(id) });
          continue;
        }
        const bodies = Map.groupBy(group, (row) =>
          isSuppressed(row, message) ? 'suppressed' : (statuses.get(row.id) ?? 'confirmed'),
        );
        // What may hang for long is read when somebody wants it.
        const kept = destination.isProven ? message : undefined;
        for (const [status, some] of bodies) {
          const waiting = Map.groupBy(some, (row) => (status === 'confirmed' ? waits?.get(row.id) : undefined));
          for (const [wait, group] of waiting) {
            const batch = { destination, rows: group, body: this.#bodies.hold(id, kept) };
            if (wait !== undefined) this.#endWith(batch, this.#results.waitForPlan(batch, wait));
            else if (status !== 'confirmed') this.#withhold(batch, status);
            else if (waits === undefined) this.#withhold(batch, 'unknown');
            else batches.push(this.#batch(batch));
          }
        }
      }
      if (batches.length > 0) this.#transportOf(destination.name).send(destination.name, batches);
    }
  }

  /** Which of them wait for room in their tenants' plans; undefined where that cannot be told now, so that none may go. */
  async #admit(rows: readonly ClaimedRow[], messages: ReadonlyMap<string, MessageRow>) {
    const { admission } = this.#options;
    if (admission === undefined) return new Map<string, { until: number; reply: string }>();
    const first = rows.filter((row) => {
      const message = messages.get(row.message);
      if (row.counted_at !== null || row.suspended === 1 || isSuppressed(row, message)) return false;
      return message === undefined || (COUNTS.has(message.kind) && message.environment === 'live');
    });
    return admission.place(first).catch((error: unknown) => {
      this.#failed(error);
      return undefined;
    });
  }

  /** What those recipients that must agree to the mail have said, by delivery; `unknown` where that cannot be read now. */
  async #statuses(
    rows: readonly ClaimedRow[],
    messages: ReadonlyMap<string, MessageRow>,
  ): Promise<ReadonlyMap<string, RecipientStatus | 'unknown'>> {
    const named = rows.filter(({ untrusted, destination, message }) => {
      const kind = messages.get(message)?.kind;
      return untrusted === 1 && destination !== SANDBOX && (kind === undefined || NEEDS_CONSENT[kind]);
    });
    const found = new Map<string, RecipientStatus | 'unknown'>();
    for (const [tenant, own] of Map.groupBy(named, (row) => row.tenant)) {
      const addresses = [...new Set(own.map(({ recipient }) => recipient))];
      const statuses = await recipientStatuses(this.#options.store, tenant, addresses).catch((error: unknown) => {
        this.#failed(error);
        return undefined;
      });
      for (const { id, recipient, message } of own)
        found.set(id, (messages.has(message) ? statuses?.get(recipient) : undefined) ?? 'unknown');
    }
    return found;
  }

  /** Ends or puts off what is not to be sent now. */
  #withhold(batch: ClaimedBatch, why: 'suppressed' | Exclude<RecipientStatus, 'confirmed'> | 'unknown'): void {
    switch (why) {
      case 'suppressed':
        return this.#endWith(batch, this.#results.suppressed(batch, SUPPRESSED));
      case 'refused':
        return this.#endWith(batch, this.#results.suppressed(batch, REFUSED));
      case 'pending':
        return this.#endWith(batch, this.#park(batch));
      case 'unknown':
        return this.#endWith(batch, this.#results.write(batch, { kind: 'decided', recipients: [] }));
    }
  }

  /** What was answered while it was parked has found nothing to release: that is looked at again. */
  async #park(batch: ClaimedBatch): Promise<void> {
    await this.#results.parked(batch);
    const { store, clock, config, log } = this.#options;
    for (const tenant of new Set(batch.rows.map((row) => row.tenant))) {
      const release = { tenant, now: clock.now(), ttl: config().delivery.expire.default };
      // Where that fails, the next look at all that is parked does it.
      const released = releaseParked(store, release).then((some) => some && this.wake());
      await released.catch((error: unknown) => log.warn('queue.not_released', errorFields(error)));
    }
  }

  /** Mail of a suspended tenant waits without a try until the tenant is served again, or it is too old. */
  #putOff(batch: ClaimedBatch): void {
    const due = this.#options.clock.now() + LOOK_AT_SUSPENDED;
    this.#endWith(batch, this.#results.putOff(batch, { due, reply: SUSPENDED }));
  }

  /** Ends a try that no transport was asked to make. */
  #endWith(batch: ClaimedBatch, writing: Promise<void>): void {
    const written = writing.then(() => {
      this.#release(batch);
      this.#pending.delete(written);
    });
    this.#pending.add(written);
  }

  #batch(batch: ClaimedBatch): Batch {
    const { destination, rows, body } = batch;
    return {
      destination: destination.name,
      recipients: rows.map(recipientOf),
      isProven: destination.isProven,
      begin: () => this.#beginWriter.begin(rows),
      isPressed: () => this.#claimer.isPressed(destination),
      open: () => body.open(),
      mayLeave: () => this.#maintenance.areLeasesSafe() && !rows.some(({ tenant }) => this.#suspended.has(tenant)),
      done: async (result) => {
        await this.#results.write(batch, result);
        this.#release(batch);
      },
    };
  }

  #release({ destination, rows, body }: ClaimedBatch): void {
    body.release();
    for (const { id } of rows) this.#claimed.delete(id);
    if (this.#claimer.settle(destination, rows.length)) this.wake();
  }
}

function nothingFollows(): Promise<Consequence> {
  return Promise.resolve({ unit: [], data: {} });
}

const SUPPRESSED = '550 5.7.1 the address is on the suppression list';
const REFUSED = '550 5.7.1 the recipient wants no mail from this server';

function recipientOf({ id, recipient, attempts }: ClaimedRow): Recipient {
  return { id, address: recipient, attempt: attempts };
}

function isSuppressed(row: ClaimedRow, message: MessageRow | undefined): boolean {
  return message !== undefined && HEEDS_SUPPRESSION[message.kind] && row.suppressed === 1;
}
