/** When to try again: the operator's table with jitter, so that what failed together does not come back together. */
import type { Random } from './interfaces.ts';

/** A connection or DNS fault is often over soon: one early look before the table begins. */
const FIRST_AFTER_FAULT = 60_000;
const JITTER = 0.1;

export interface RetryOptions {
  /** `delivery.retry`, ms; the last repeats. */
  readonly table: readonly number[];
  readonly random: Random;
}

/** How long to wait after the `failures`th try in a row (from 1) has failed, ms. */
export function retryDelay(failures: number, cause: 'reply' | 'fault', { table, random }: RetryOptions): number {
  return jittered(at(delays(cause, table), failures - 1), random);
}

/** What a claim writes for the case that nobody lives to tell: JSON array of delays by the tries before, jittered. */
export function claimDelays({ table, random }: RetryOptions): { json: string; last: number } {
  return { json: JSON.stringify(table.map((delay) => jittered(delay, random))), last: table.length - 1 };
}

/** The longest wait after each try, the first one first: the table with its jitter. */
export function longestWaits(table: readonly number[]): number[] {
  return table.map((delay) => Math.ceil(delay * (1 + JITTER)));
}

function delays(cause: 'reply' | 'fault', table: readonly number[]): readonly number[] {
  return cause === 'fault' ? [Math.min(FIRST_AFTER_FAULT, at(table, 0)), ...table] : table;
}

function at(table: readonly number[], index: number): number {
  return table[Math.min(index, table.length - 1)] ?? FIRST_AFTER_FAULT;
}

function jittered(delay: number, random: Random): number {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random()));
}
