/**
 * The worker: claims what is due, hands it to the transport, writes down how each try ended. What it claims is leased, so
 * that after a crash the next start (SQLite) or another daemon within a minute (PostgreSQL) goes on where this one ended;
 * an end that cannot be written is written again until it can, and no connection sends more until then. Here is also what it
 * does by the clock.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { recipientStatuses, releaseParked } from '../store/consents.ts';
import { nextDueAt, noteDue, RELAY, repairDue } from '../store/destinations.ts';
import { beginDeliveries, leasedTo, renewLeases, takeBackLeases, type ClaimedRow } from '../store/leases.ts';
import { findMessage, findMessages, giveBack, walkWaiting } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import type { MessageKind, MessageRow } from '../store/tables.ts';
import { suspendedTenants } from '../store/tenants.ts';
import { Bodies } from './bodies.ts';
import { Claimer, LEASE, type Claimed } from './claimer.ts';
import { besideRelay, Destination, isRelayed, isWebhook, relayTable, type OnRelayPause } from './destinations.ts';
import {
  ResultWriter,
  writeExpired,
  type ClaimedBatch,
  type Counted,
  type Withheld,
  type WritingOptions,
} from './results.ts';
import { Reach } from './reach.ts';
import { WEBHOOK_RETRY_MS, type RetryOptions } from './retry.ts';
import { createSandbox, SANDBOX } from './sandbox.ts';
import { type Admission, type Batch, type OnFailure, type Random, type Source, type Transport } from './transport.ts';

interface WorkerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly source: Source;
  readonly transports: { readonly mail: Transport; readonly webhooks: Transport };
  readonly config: () => ServerConfig;
  /** Names this daemon's leases; no two starts of a daemon share it. */
  readonly owner: string;
  readonly random: Random;
  /** Without it nothing follows from a failure. */
  readonly onFailure?: OnFailure;
  /** Without it nobody is told of a smarthost that fails. */
  readonly onRelayPause?: OnRelayPause;
  /** Without it nothing waits for its tenant's plan. */
  readonly admission?: Admission;
  /** Whether no other daemon takes what is claimed here for abandoned; without it none ever does. */
  readonly isSafe?: (() => boolean) | undefined;
  /** Whether other daemons deliver from the same queue; without it none does. */
  readonly hasOthers?: () => boolean;
  /** Told when no mail server can be reached from here any more, and others are to deliver; without it nobody is. */
  readonly onNoRoute?: (reply: string) => void;
  /** Counts how tries end; default: nobody. */
  readonly onCounted?: ((counted: Counted) => void) | undefined;
}

/** The longest time between two looks at the queue, ms. */
const POLL = 5000;
const AFTER_FAULT = 1000;

/** Destinations that have not answered, which may hang, are cheap: so many may be tried for each connection to the others. */
const UNPROVEN_PER_CONNECTION = 20;
/** With a reason of our own, an abort makes no error with a stack, which costs more than the rest of a wake. */
const AWAKE = 'awake';

/**
 * What holds for each kind of mail. `suppression`: it heeds the suppression list; a lead reaches the form's owner, and an
 * alert whom it is for, whatever other mail to them has come to, but for who has stopped the notifications of the form. `consent`: the
 * tenant names its recipients, so that they have to agree to get it; other mail has rules of its own. `counts`: strangers
 * cause it, and it counts against the plan when it is first tried; what programs send counted when it was accepted.
 */
export const KINDS: Readonly<
  Record<MessageKind, { readonly suppression: boolean; readonly consent: boolean; readonly counts: boolean }>
> = {
  notification: { suppression: false, consent: true, counts: true },
  system: { suppression: false, consent: true, counts: false },
  tls_report: { suppression: true, consent: false, counts: false },
  acknowledgment: { suppression: true, consent: false, counts: true },
  confirmation: { suppression: true, consent: false, counts: true },
  transactional: { suppression: true, consent: false, counts: false },
  forward: { suppression: true, consent: true, counts: true },
  reply: { suppression: true, consent: false, counts: true },
  dsn: { suppression: true, consent: false, counts: false },
  webhook: { suppression: false, consent: false, counts: false },
};

/** Begins when it is made. */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #sandbox = createSandbox();
  readonly #bodies: Bodies;
  readonly #claimer: Claimer;
  readonly #maintenance: Maintenance;
  readonly #reach: Reach;
  readonly #results: ResultWriter;
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
    const { store, source, owner, clock, log, onFailure = () => Promise.resolve({ unit: [], data: {} }) } = options;
    this.#options = options;
    this.#lookedAt = clock.now();
    this.#triedAt = clock.monotonic();
    this.#bodies = new Bodies({ store, source, log });
    const retry = (destination: string) => this.#retry(destination);
    const relay = new Destination(RELAY);
    this.#reach = new Reach({
      clock,
      hasOthers: options.hasOthers ?? (() => false),
      onNoRoute(reply) {
        log.error('delivery.no_route', { reply });
        options.onNoRoute?.(reply);
      },
      onRouteBack: () => log.info('delivery.route_back'),
    });
    this.#claimer = new Claimer({
      store,
      transportOf: (destination) => this.#transportOf(destination),
      owner,
      retry,
      relay,
      reach: this.#reach,
      besideRelay: () => besideRelay(options.config()),
      mostUnproven: () => options.config().delivery.concurrency * UNPROVEN_PER_CONNECTION,
    });
    const writing = { store, clock, log, owner, onFailure, onCounted: options.onCounted, wake: () => this.wake() };
    this.#results = new ResultWriter({
      ...writing,
      retry,
      reach: this.#reach,
      relay: {
        destination: relay,
        isUsedBy: (destination) => isRelayed(options.config(), destination),
        onPause: options.onRelayPause ?? (() => Promise.resolve()),
      },
      over: this.#over.signal,
    });
    this.#maintenance = new Maintenance({ ...writing, isClaimed: (id) => this.#claimed.has(id) });
    this.#running = this.#run();
  }

  /** There may be something due. */
  wake(): void {
    if (this.#awake) return;
    this.#awake = true;
    this.#rest.abort(AWAKE);
  }

  /** Claims nothing more, lets what is in flight end for `graceMs`, gives the rest back. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.wake();
    await this.#running;
    const { mail, webhooks } = this.#options.transports;
    await Promise.all([mail, webhooks, this.#sandbox].map((transport) => transport.stop(graceMs)));
    this.#over.abort();
    await Promise.all(this.#pending);
  }

  progress(): {
    /** When the queue was last looked through, ms. */
    readonly lookedAt: number;
    /** When a look at the queue last ended, well or not, on the monotonic clock. */
    readonly triedAt: number;
    /** Recipients that are claimed: at hand or in flight. */
    readonly claimed: number;
    /** What keeps the store from being written; undefined while it works. */
    readonly fault: string | undefined;
    /** Whether mail servers can be reached from here, for all that is known. */
    readonly hasRoute: boolean;
  } {
    return {
      hasRoute: this.#reach.hasRoute,
      lookedAt: this.#lookedAt,
      triedAt: this.#triedAt,
      claimed: this.#claimed.size,
      fault: this.#fault,
    };
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#stopping.signal.aborted) {
      this.#awake = false;
      const rest = await this.#look().catch((error: unknown) => {
        this.#failed(error);
        this.#maintenance.suspect();
        return AFTER_FAULT;
      });
      this.#triedAt = clock.monotonic();
      // `wake` may have been called meanwhile.
      if (rest === 0 || this.#awake) continue;
      this.#rest = new AbortController();
      await clock.sleep(rest, this.#rest.signal);
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

  #failed(error: unknown): undefined {
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
    const { retry } = this.#options.config().delivery;
    const table = isWebhook(destination) ? WEBHOOK_RETRY_MS : destination === RELAY ? relayTable(retry) : retry;
    return { table, random: this.#options.random };
  }

  async #dispatch(claimed: readonly Claimed[]): Promise<void> {
    const all = claimed.flatMap(({ rows }) => rows);
    for (const { id } of all) this.#claimed.add(id);
    const ids = [...new Set(all.map(({ message }) => message))];
    // Where they cannot be read now, each try asks for its own.
    const messages =
      (await findMessages(this.#options.store, ids).catch((error: unknown) => this.#failed(error))) ??
      new Map<string, MessageRow>();
    const statuses = await this.#statuses(all, messages);
    const agreed = all.filter(({ id }) => !statuses.has(id));
    const waits = await this.#admit(agreed, messages);
    function withheld(row: ClaimedRow): Withheld | undefined {
      if (row.suspended === 1) return 'suspended';
      return (
        suppression(row, messages.get(row.message)) ??
        statuses.get(row.id) ??
        (waits === undefined ? 'unknown' : waits.get(row.id))
      );
    }
    for (const { destination, rows } of claimed) {
      const batches: Batch[] = [];
      const begin = this.#beginning(rows.filter((row) => withheld(row) === undefined));
      for (const [id, ofMessage] of Map.groupBy(rows, ({ message }) => message)) {
        // What may hang for long is read when somebody wants it.
        const message = destination.isProven ? messages.get(id) : undefined;
        for (const [why, group] of Map.groupBy(ofMessage, withheld)) {
          const batch = { destination, rows: group, body: this.#bodies.hold(id, message) };
          if (why === undefined)
            batches.push(this.#batch(batch, { isTlsReport: messages.get(id)?.kind === 'tls_report', begin }));
          else this.#withhold(batch, why);
        }
      }
      if (batches.length > 0) this.#transportOf(destination.name).send(destination.name, batches);
    }
  }

  /** Which of them wait for room in their tenants' plans; undefined where that cannot be told now, so that none may go. */
  async #admit(
    rows: readonly ClaimedRow[],
    messages: ReadonlyMap<string, MessageRow>,
  ): Promise<Awaited<ReturnType<Admission['place']>> | undefined> {
    const { admission } = this.#options;
    if (admission === undefined) return new Map();
    const first = rows.filter((row) => {
      const message = messages.get(row.message);
      if (row.counted_at !== null || row.suspended === 1 || suppression(row, message) !== undefined) return false;
      return message === undefined || (KINDS[message.kind].counts && message.environment === 'live');
    });
    return admission.place(first).catch((error: unknown) => this.#failed(error));
  }

  /** What keeps mail from those recipients that must agree to it, by delivery; `unknown` where that cannot be read now. */
  async #statuses(rows: readonly ClaimedRow[], messages: ReadonlyMap<string, MessageRow>) {
    const named = rows.filter(({ untrusted, destination, message }) => {
      const kind = messages.get(message)?.kind;
      return untrusted === 1 && destination !== SANDBOX && (kind === undefined || KINDS[kind].consent);
    });
    const found = new Map<string, Exclude<Withheld, object>>();
    for (const [tenant, own] of Map.groupBy(named, (row) => row.tenant)) {
      const addresses = [...new Set(own.map(({ recipient }) => recipient))];
      const statuses = await recipientStatuses(this.#options.store, tenant, addresses).catch((error: unknown) =>
        this.#failed(error),
      );
      for (const { id, recipient, message } of own) {
        const status = (messages.has(message) ? statuses?.get(recipient) : undefined) ?? 'unknown';
        if (status !== 'confirmed') found.set(id, status);
      }
    }
    return found;
  }

  /** Ends or puts off what is not to be sent now, without a transport. */
  #withhold(batch: ClaimedBatch, why: Withheld): void {
    const written = this.#results
      .withhold(batch, why)
      .then(() => (why === 'pending' ? this.#releaseAnswered(batch) : undefined))
      .then(() => {
        this.#release(batch);
        this.#pending.delete(written);
      });
    this.#pending.add(written);
  }

  /** What was answered while it was parked has found nothing to release: that is looked at again. */
  async #releaseAnswered({ rows }: ClaimedBatch): Promise<void> {
    const { store, clock, config, log } = this.#options;
    for (const tenant of new Set(rows.map((row) => row.tenant))) {
      const release = { tenant, now: clock.now(), ttl: config().delivery.expire.default };
      // Where that fails, the next look at all that is parked does it.
      const released = releaseParked(store, release).then((some) => some && this.wake());
      await released.catch((error: unknown) => log.warn('queue.not_released', errorFields(error)));
    }
  }

  #batch(
    batch: ClaimedBatch,
    { isTlsReport, begin }: { isTlsReport: boolean; begin: () => Promise<ReadonlySet<string>> },
  ): Batch {
    const { destination, rows, body } = batch;
    const { isSafe = () => true } = this.#options;
    return {
      destination: destination.name,
      recipients: rows.map(({ id, recipient, attempts }) => ({ id, address: recipient, attempt: attempts })),
      isProven: destination.isProven,
      isTlsReport,
      begin: async () => {
        const begun = await begin();
        return rows.every(({ id }) => begun.has(id));
      },
      isPressed: () => this.#claimer.isPressed(destination),
      open: () => body.open(),
      mayLeave: () =>
        isSafe() && this.#maintenance.areLeasesSafe() && !rows.some(({ tenant }) => this.#suspended.has(tenant)),
      done: async (result) => {
        await this.#results.write(batch, result);
        this.#release(batch);
      },
    };
  }

  /**
   * Begins the tries of what was claimed together at one destination, at the first call and in one statement; answers which
   * have begun. What had not begun when the daemon died costs no attempt and is due at once.
   */
  #beginning(rows: readonly ClaimedRow[]): () => Promise<ReadonlySet<string>> {
    let begun: Promise<ReadonlySet<string>> | undefined;
    return () => (begun ??= this.#begin(rows));
  }

  async #begin(rows: readonly ClaimedRow[]): Promise<ReadonlySet<string>> {
    const { store, owner, log } = this.#options;
    const ids = rows.map(({ id }) => id);
    const attempts = new Map(rows.map((row) => [row.id, row.attempts]));
    try {
      const [{ rows: begun }] = await store.write([beginDeliveries({ ids, owner })]);
      return new Set(begun.flatMap((row) => (attempts.get(row.id) === row.attempts ? [row.id] : [])));
    } catch (error) {
      // What did not begin is given back as soon as that can be written.
      log.warn('delivery.not_begun', { deliveries: ids.length, ...errorFields(error) });
      return new Set();
    }
  }

  #release({ destination, rows, body }: ClaimedBatch): void {
    body.release();
    for (const { id } of rows) this.#claimed.delete(id);
    if (this.#claimer.settle(destination, rows.length)) this.wake();
  }
}

/** The entry of the suppression list that keeps the message from the recipient. */
function suppression(row: ClaimedRow, message: MessageRow | undefined): 'suppressed' | 'stopped' | undefined {
  if (message?.kind === 'notification') return row.stopped === 1 ? 'stopped' : undefined;
  return message !== undefined && KINDS[message.kind].suppression && row.suppressed === 1 ? 'suppressed' : undefined;
}

// By the clock: keeping its leases, taking back those that nobody keeps, and giving up what is too old.

interface MaintenanceOptions extends WritingOptions {
  readonly owner: string;
  /** Whether the delivery is claimed in this process. */
  readonly isClaimed: (id: string) => boolean;
}

const RENEW_EVERY = LEASE / 3;
const SWEEP_EVERY = 60_000;
/** After the store has failed: so often, for so long, ms. */
const SWEEP_AFTER_FAULT = 5000;
const SUSPECT_MS = 30_000;
/** From this age on a lease may run out before what is sent under it has arrived. */
const SAFE = (LEASE * 3) / 4;
/** Between two parts of a long walk. */
const WALK_EVERY = 1000;
const STRETCH = 500;
const STRETCHES = 4;

class Maintenance {
  readonly #options: MaintenanceOptions;
  #started = false;
  /** On both clocks: the monotonic one stands still while the machine is suspended, and leases run out by the other. */
  #renewed: { readonly wall: number; readonly monotonic: number };
  /** On the monotonic clock. */
  #sweepAt = -Infinity;
  #walkAt = -Infinity;
  /** The sweep comes more often until then. */
  #suspectUntil = -Infinity;
  #walk: { state: 'queued' | 'deferred'; after: string } = { state: 'queued', after: '' };

  constructor(options: MaintenanceOptions) {
    this.#options = options;
    this.#renewed = { wall: options.clock.now(), monotonic: options.clock.monotonic() };
  }

  /** Before the first claim: what the last run left. On SQLite there is no other daemon that could hold a lease. */
  async start(): Promise<void> {
    if (this.#started) return;
    const { store } = this.#options;
    await this.#takeBack(store.dialect === 'sqlite' ? Number.MAX_SAFE_INTEGER : this.#options.clock.now());
    this.#started = true;
  }

  /** Whether what is claimed here is surely nobody else's. */
  areLeasesSafe(): boolean {
    return this.#options.store.dialect === 'sqlite' || this.#age() < SAFE;
  }

  /** How long ago the leases were renewed, by the clock that says more. */
  #age(): number {
    const { clock } = this.#options;
    return Math.max(clock.monotonic() - this.#renewed.monotonic, clock.now() - this.#renewed.wall);
  }

  /**
   * The store has failed: what was written all the same, such as a claim that nobody here knows of, or too late for those who
   * looked, is found within seconds.
   */
  suspect(): void {
    this.#suspectUntil = this.#options.clock.monotonic() + SUSPECT_MS;
    this.#sweepAt = -Infinity;
  }

  /** Does what is due. Rejects where the store cannot. */
  async run(): Promise<void> {
    const { store, clock, owner } = this.#options;
    const monotonic = clock.monotonic();
    // Before leases are taken back, too: to a clock that was just set forward our own seem to be over.
    const isSweep = monotonic >= this.#sweepAt;
    if (store.dialect === 'postgres' && (isSweep || this.#age() >= RENEW_EVERY)) {
      const wall = clock.now();
      await store.write([renewLeases({ owner, until: wall + LEASE })]);
      this.#renewed = { wall, monotonic };
    }
    if (monotonic >= this.#walkAt) await this.#expire(monotonic);
    if (!isSweep) return;
    await this.#returnOrphans();
    if (store.dialect === 'postgres') {
      await this.#takeBack(clock.now());
      await store.write([repairDue({ now: clock.now() })]);
    }
    this.#sweepAt = monotonic + (monotonic < this.#suspectUntil ? SWEEP_AFTER_FAULT : SWEEP_EVERY);
  }

  async #takeBack(before: number): Promise<void> {
    const { store, clock, log } = this.#options;
    const destinations = await takeBackLeases(store, before, clock.now());
    if (destinations === 0) return;
    log.warn('queue.taken_back', { destinations });
    // What had not begun is due at once.
    this.#options.wake();
  }

  /** Claims whose commit seemed to fail and did not, and ends that could not be written. */
  async #returnOrphans(): Promise<void> {
    const { store, clock, owner, isClaimed } = this.#options;
    const due = clock.now();
    for (const { id, attempts, destination } of await leasedTo(store, owner)) {
      if (isClaimed(id)) continue;
      await store.write([giveBack({ id, owner, attempts, due }), noteDue({ name: destination, due })]);
    }
  }

  /** Goes some stretches further through what waits; that is all of it where it is not very much. */
  async #expire(monotonic: number): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    for (let i = 0; i < STRETCHES; i++) {
      const { state, after } = this.#walk;
      const { overdue, next } = await walkWaiting(store, state, { after, limit: STRETCH, now });
      const messages = Map.groupBy(overdue, ({ message }) => message);
      await Promise.all(
        Array.from(messages, async ([id, rows]) => writeExpired(rows, await findMessage(store, id), this.#options)),
      );
      this.#walk =
        next === '' ? { state: state === 'queued' ? 'deferred' : 'queued', after: '' } : { state, after: next };
      if (next === '' && state === 'deferred') {
        this.#walkAt = monotonic + SWEEP_EVERY;
        return;
      }
    }
    this.#walkAt = monotonic + WALK_EVERY;
  }
}
