/** When to try again: the operator's table with jitter, so that what failed together does not come back together. */
import type { Random } from './transport.ts';

/** A connection or DNS fault is often over soon: one early look before the table begins. */
const FIRST_AFTER_FAULT = 60_000;
const JITTER = 0.1;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** The table of webhooks: eight attempts over about 28 hours, as the Standard Webhooks specification suggests, ms. */
export const WEBHOOK_RETRY_MS: readonly number[] = [
  5000,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  10 * HOUR,
];

export interface RetryOptions {
  /** `delivery.retry` of mail, ms; the last repeats. */
  readonly table: readonly number[];
  readonly random: Random;
}

/** How long to wait after the `failures`th try in a row (from 1) has failed, ms. */
export function retryDelay(failures: number, cause: 'reply' | 'fault', { table, random }: RetryOptions): number {
  const delays = cause === 'fault' ? [Math.min(FIRST_AFTER_FAULT, at(table, 0)), ...table] : table;
  return jittered(at(delays, failures - 1), random);
}

/** What a claim writes for the case that nobody lives to tell: JSON array of delays by the tries before, jittered. */
export function claimDelays({ table, random }: RetryOptions): { delays: string; last_delay: number } {
  return { delays: JSON.stringify(table.map((delay) => jittered(delay, random))), last_delay: table.length - 1 };
}

/** The longest wait after each try, the first one first: the table with its jitter. */
export function longestWaits(table: readonly number[]): number[] {
  return table.map((delay) => Math.ceil(delay * (1 + JITTER)));
}

function at(table: readonly number[], index: number): number {
  return table[Math.min(index, table.length - 1)] ?? FIRST_AFTER_FAULT;
}

function jittered(delay: number, random: Random): number {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random()));
}
