/**
 * What a page shows of itself when it sends a form: a token that this server signed for the form, which says when the page
 * got it. It is good for a day and once. A token costs nobody anything and so proves little: its state is a sign for the
 * spam filter, and nothing is refused for it alone.
 */
import { createHmac, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto';

/** What the token says of a post. `too fast`: sent sooner than people write. */
export type TokenState = 'valid' | 'missing' | 'too fast' | 'used' | 'expired' | 'forged';

export interface PageToken {
  readonly id: string;
  /** When it was issued, ms. */
  readonly issuedAt: number;
  /** Seconds that a visitor needs at least before the form is sent. */
  readonly minimumAge: number;
}

/** For how long a token is good, ms: pages stay open. */
export const TOKEN_LIFE_MS = 86_400_000;
/** Seconds that a page should wait with a new token. */
export const MINIMUM_AGE_SECONDS = 3;
/** The clock of another daemon may be ahead by this much, ms. */
const CLOCK_SKEW_MS = 60_000;

const TOKEN = /^([0-9a-z]{8,10})\.(\d{1,3})\.([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{22})$/;

/** A new token for the form (its id) as text. */
export function newPageToken(form: string, key: KeyObject, now: number): string {
  const text = `${now.toString(36)}.${MINIMUM_AGE_SECONDS}.${randomBytes(12).toString('base64url')}`;
  return `${text}.${signature(form, text, key)}`;
}

/** The token that this text is, or undefined where the server did not sign it for the form. */
export function openPageToken(text: string, form: string, key: KeyObject): PageToken | undefined {
  const [, time, age, id, given] = TOKEN.exec(text) ?? [];
  if (time === undefined || age === undefined || id === undefined || given === undefined) return undefined;
  const expected = signature(form, `${time}.${age}.${id}`, key);
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(expected))) return undefined;
  return { id, issuedAt: Number.parseInt(time, 36), minimumAge: Number(age) };
}

/** What its times say; whether it was used before is for the store to know. */
export function stateByTime({ issuedAt, minimumAge }: PageToken, now: number): 'valid' | 'too fast' | 'expired' {
  const age = now - issuedAt;
  if (age > TOKEN_LIFE_MS || age < -CLOCK_SKEW_MS) return 'expired';
  return age < minimumAge * 1000 ? 'too fast' : 'valid';
}

/** From then on nobody takes it, whether it was used or not, ms. */
export function endOf({ issuedAt }: PageToken): number {
  return issuedAt + TOKEN_LIFE_MS + CLOCK_SKEW_MS;
}

function signature(form: string, text: string, key: KeyObject): string {
  return createHmac('sha256', key).update(`page:${form}:${text}`).digest().subarray(0, 16).toString('base64url');
}
