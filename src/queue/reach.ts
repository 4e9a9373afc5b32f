/**
 * What this daemon cannot reach and others perhaps can, where several share the queue. The first failure at a destination
 * that worked is this daemon's alone: it leaves the destination to the others for as long as the retry table says, and only
 * when one of them fails there, too, the destination is paused for all. A daemon that fails at one destination after the other
 * that has answered before has no route out: it claims no mail but one message from time to time to find out.
 */
import type { Clock } from '../lib/clock.ts';
import { isWebhook } from './destinations.ts';
import { retryDelay, type RetryOptions } from './retry.ts';

export interface ReachOptions {
  readonly clock: Clock;
  /** Whether other daemons deliver from the same queue. */
  readonly hasOthers: () => boolean;
  /** Called when the daemon has failed everywhere, with what the last failure was. */
  readonly onNoRoute: (reply: string) => void;
  readonly onRouteBack: () => void;
}

/** So many destinations that worked fail one after the other, and nothing else answers between them. */
const MIN_DESTINATIONS = 3;
/** Between two messages that find out whether there is a route again, ms. */
const PROBE_EVERY_MS = 30_000;
/** Without any failure for so long, the daemon works as before: the others may have left it nothing to find out with. */
const FORGET_AFTER_MS = 5 * 60_000;
/** Of destinations that are left to others; the oldest is forgotten. */
const MAX_PAUSES = 500;

interface OwnPause {
  readonly failures: number;
  /** On the monotonic clock, ms. */
  readonly until: number;
}

interface Failure {
  readonly name: string;
  readonly isProven: boolean;
  readonly reply: string;
}

export class Reach {
  readonly #options: ReachOptions;
  readonly #pauses = new Map<string, OwnPause>();
  /** Since something has answered. */
  readonly #failed = new Set<string>();
  #failedAt = -Infinity;
  #probedAt = -Infinity;
  #hasRoute = true;

  constructor(options: ReachOptions) {
    this.#options = options;
  }

  get hasOthers(): boolean {
    return this.#options.hasOthers();
  }

  /** Whether something can be reached, for all that is known. */
  get hasRoute(): boolean {
    if (!this.#hasRoute && (!this.hasOthers || this.#now() - this.#failedAt >= FORGET_AFTER_MS)) this.#back();
    return this.#hasRoute;
  }

  /** Whether it is time to find out; the next time comes later. */
  mayProbe(): boolean {
    if (this.#now() - this.#probedAt < PROBE_EVERY_MS) return false;
    this.#probedAt = this.#now();
    return true;
  }

  /** The destinations that are left to others now. */
  avoided(): string[] {
    if (this.#pauses.size === 0 || !this.hasOthers) return [];
    const now = this.#now();
    return [...this.#pauses].flatMap(([name, { until }]) => (until > now ? [name] : []));
  }

  /** A destination that was not failing cannot be reached from here; `isProven`: it has answered before. */
  failed({ name, isProven, reply }: Failure, retry: RetryOptions): void {
    const now = this.#now();
    const failures = (this.#pauses.get(name)?.failures ?? 0) + 1;
    this.#pauses.delete(name);
    this.#pauses.set(name, { failures, until: now + retryDelay(failures, 'fault', retry) });
    const [oldest] = this.#pauses.keys();
    if (this.#pauses.size > MAX_PAUSES && oldest !== undefined) this.#pauses.delete(oldest);
    if (!isProven || isWebhook(name)) return;
    this.#failed.add(name);
    this.#failedAt = now;
    this.#probedAt = now;
    if (!this.#hasRoute || this.#failed.size < MIN_DESTINATIONS) return;
    this.#hasRoute = false;
    this.#options.onNoRoute(reply);
  }

  /** A server there has answered. */
  answered(name: string): void {
    this.#pauses.delete(name);
    if (isWebhook(name)) return;
    if (this.#failed.size > 0) this.#failed.clear();
    if (!this.#hasRoute) this.#back();
  }

  #back(): void {
    this.#hasRoute = true;
    this.#failed.clear();
    this.#pauses.clear();
    this.#options.onRouteBack();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }
}
