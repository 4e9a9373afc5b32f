/** When a delivery is tried again: eight tries over about 28 hours, as the Standard Webhooks specification suggests. */
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** After the first try, the second, and so on. */
const WAITS = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR] as const;
const JITTER = 0.1;

export const TRIES = WAITS.length + 1;

/** Longer than a try can take: until then nobody else begins the next one. */
export const LEASE = MINUTE;

/** How long after try number `attempt` (from 1) the next one is, in ms; undefined after the last. */
export function waitAfter(attempt: number, random: () => number): number | undefined {
  const wait = WAITS[attempt - 1];
  return wait === undefined ? undefined : Math.round(wait * (1 + JITTER * (2 * random() - 1)));
}

/** The wait that a `Retry-After` asks for, in ms: seconds or a date (RFC 9110 §10.2.3), at most the longest of ours. */
export function retryAfter(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  const wait = /^\d+$/.test(value) ? Number(value) * SECOND : Date.parse(value) - now;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, 0), 10 * HOUR);
}
