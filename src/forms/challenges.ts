/**
 * What a form asks of the page that sends it (`spam_protection.challenge`): nothing but a token, proof of work, or a captcha
 * of somebody else's. Each token and each answer counts once, across restarts and on all daemons of a database: what was
 * used is kept until it would have expired.
 *
 * A token is signed for the form, says when the page got it, and is good for a day. It costs nobody anything and so proves
 * little: its state is a sign for the spam filter, and nothing is refused for it alone.
 *
 * Proof of work is ALTCHA's, version 1: find the number whose SHA-256 with the salt is the challenge. The salt holds a page
 * token, so that an answer is bound to the form, expires and counts once by the same means.
 */
import { createHmac, createSecretKey, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto';
import { createChallenge, extractParams, verifySolution } from 'altcha-lib/v1';
import { z } from 'zod';
import type { FormConfig } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import type { HttpClient } from '../dns/guarded-fetch.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { forgetUsedTokens, useToken } from '../store/secrets.ts';
import type { Store } from '../store/store.ts';
import type { Control } from './fields.ts';

/** What the token says of a post. `too fast`: sent sooner than people write. */
export type TokenState = 'valid' | 'missing' | 'too fast' | 'used' | 'expired' | 'forged';

interface PageToken {
  readonly id: string;
  /** When it was issued, ms. */
  readonly issuedAt: number;
  /** Seconds that a visitor needs at least before the form is sent. */
  readonly minimumAge: number;
}

/** What a page gets for a form. */
interface PageChallenge {
  readonly token: string;
  /** Seconds that it should wait at least before it sends the form. */
  readonly minimum_age: number;
  /** Where the form asks for proof of work: what the ALTCHA widget reads. */
  readonly proof?: Awaited<ReturnType<typeof createChallenge>>;
}

/** Who sent a submission, and what came with it. */
interface Visitor {
  readonly control: Control;
  readonly ip: string;
}

/** What is known of a visitor whose post may go on. */
export interface PassedChallenge {
  readonly kind: 'passed';
  readonly token: TokenState;
  /** `passed`: the form asked for more than a token, and got it. */
  readonly challenge: 'passed' | undefined;
}

type ChallengeOutcome =
  | PassedChallenge
  /** The form asks for an answer, and there is none. */
  | { readonly kind: 'missing' }
  /** The answer is wrong, too old, or was used before. */
  | { readonly kind: 'failed' };

export interface Challenges {
  /** What a page needs to send the form. */
  issue(form: Form): Promise<PageChallenge>;
  /** A token alone, for a page of this server that shows the form again. */
  token(form: Pick<Form, 'id'>): string;
  /** Whether a token came with a submission that a page got for the form, and lately; it is not used up. */
  knows(form: Form, control: Control): Promise<boolean>;
  /** What came with a submission; it is used up. Rejects with StoreError where that cannot be written. */
  check(form: Form, visitor: Visitor): Promise<ChallengeOutcome>;
  /** Forgets what was used and has expired. */
  sweep(): Promise<void>;
}

interface ChallengeParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Of the store; shared by its daemons. */
  readonly secret: Buffer;
  /** Asks the providers of captchas. */
  readonly http: Pick<HttpClient, 'request'>;
}

/** For how long a token is good, ms: pages stay open. */
const TOKEN_LIFE_MS = 86_400_000;
/** Seconds that a page should wait with a new token. */
const MINIMUM_AGE_SECONDS = 3;
/** The clock of another daemon may be ahead by this much, ms. */
const CLOCK_SKEW_MS = 60_000;

const TOKEN = /^([0-9a-z]{8,10})\.(\d{1,3})\.([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{22})$/;

/** Numbers to try at most: half of them on average, well under a second on a laptop and some on an old phone, while the visitor writes. */
const MAX_NUMBER = 50_000;
const MAX_ANSWER_LENGTH = 2048;

const answerSchema = z.object({
  algorithm: z.literal('SHA-256'),
  challenge: z.string().length(64),
  number: z.int().min(0).max(MAX_NUMBER),
  salt: z.string().max(512),
  signature: z.string().length(64),
});

type Answer = z.output<typeof answerSchema>;

/** Challenges under one secret. */
export function createChallenges({ store, clock, log, secret, http }: ChallengeParts): Challenges {
  const key = createSecretKey(secret);
  const proofKey = createHmac('sha256', key).update('proof of work').digest('hex');

  function token({ id }: Pick<Form, 'id'>, minimumAge: number): string {
    return newPageToken({ form: id, minimumAge }, key, clock.now());
  }

  async function opened(sent: string, form: Form): Promise<PageToken | undefined> {
    const answer = parseAnswer(sent);
    return openPageToken(answer === undefined ? sent : await provedToken(answer), form.id, key);
  }

  /** What was sent for a token, which is used up. */
  async function use(sent: string, form: Form): Promise<TokenState> {
    if (sent === '') return 'missing';
    const known = await opened(sent, form);
    if (known === undefined) return 'forged';
    const state = stateByTime(known, clock.now());
    if (state === 'expired') return state;
    const [{ changes }] = await store.write([useToken({ id: known.id, expires_at: endOf(known) })]);
    return changes === 1 ? state : 'used';
  }

  /** The token in the salt of an answer that is right, else nothing. When it ends is for the token to say, by our own clock. */
  async function provedToken(answer: Answer): Promise<string> {
    return (await verifySolution(answer, proofKey, false)) ? (extractParams(answer)['token'] ?? '') : '';
  }

  async function checkProof(form: Form, sent: string): Promise<ChallengeOutcome> {
    if (parseAnswer(sent) === undefined) return { kind: 'missing' };
    const state = await use(sent, form);
    const isGood = state === 'valid' || state === 'too fast';
    return isGood ? { kind: 'passed', token: state, challenge: 'passed' } : { kind: 'failed' };
  }

  async function checkCaptcha(form: Form, captcha: Captcha, { control, ip }: Visitor): Promise<ChallengeOutcome> {
    const verdict = await verifyCaptcha(captcha, { captchas: control.captchas, ip }, http);
    const { kind } = verdict;
    if (kind === 'missing') return { kind };
    const about = { form: form.id, provider: captcha.provider, ...('reason' in verdict && { reason: verdict.reason }) };
    if (kind === 'failed') {
      log.debug('captcha.failed', about);
      return { kind };
    }
    if (kind === 'unverified') log.warn('captcha.unverified', about);
    const token = await use(sentToken(control), form);
    return { kind: 'passed', token, challenge: kind === 'passed' ? kind : undefined };
  }

  return {
    // Who corrects a field may do so in a second.
    token: (form) => token(form, 0),
    async issue(form) {
      const issued = { token: token(form, MINIMUM_AGE_SECONDS), minimum_age: MINIMUM_AGE_SECONDS };
      if (form.config.spam_protection.challenge !== 'pow') return issued;
      const proof = await createChallenge({
        algorithm: 'SHA-256',
        hmacKey: proofKey,
        maxnumber: MAX_NUMBER,
        params: { token: issued.token },
        expires: new Date(clock.now() + TOKEN_LIFE_MS),
      });
      return { ...issued, proof };
    },
    async knows(form, control) {
      const known = await opened(sentToken(control), form);
      return known !== undefined && stateByTime(known, clock.now()) !== 'expired';
    },
    async check(form, visitor) {
      const { challenge } = form.config.spam_protection;
      const sent = sentToken(visitor.control);
      if (challenge === 'pow') return checkProof(form, sent);
      if (challenge !== 'none') return checkCaptcha(form, challenge, visitor);
      return { kind: 'passed', token: await use(sent, form), challenge: undefined };
    },
    async sweep() {
      await store.write([forgetUsedTokens({ before: clock.now() })]);
    },
  };
}

function sentToken({ challenge = '' }: Control): string {
  return challenge.trim();
}

/** ALTCHA's answer, which is JSON in base64; undefined for anything else, such as a token. */
function parseAnswer(text: string): Answer | undefined {
  if (text.length > MAX_ANSWER_LENGTH || !/^[A-Za-z0-9+/]+=*$/.test(text)) return undefined;
  try {
    return answerSchema.safeParse(JSON.parse(Buffer.from(text, 'base64').toString())).data;
  } catch {
    return undefined;
  }
}

/** A new token for the form (its id) as text. */
function newPageToken(
  { form, minimumAge }: { readonly form: string; readonly minimumAge: number },
  key: KeyObject,
  now: number,
): string {
  const text = `${now.toString(36)}.${minimumAge}.${randomBytes(12).toString('base64url')}`;
  return `${text}.${signature(form, text, key)}`;
}

/** The token that this text is, or undefined where the server did not sign it for the form. */
function openPageToken(text: string, form: string, key: KeyObject): PageToken | undefined {
  const [, time, age, id, given] = TOKEN.exec(text) ?? [];
  if (time === undefined || age === undefined || id === undefined || given === undefined) return undefined;
  const expected = signature(form, `${time}.${age}.${id}`, key);
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(expected))) return undefined;
  return { id, issuedAt: Number.parseInt(time, 36), minimumAge: Number(age) };
}

/** What its times say; whether it was used before is for the store to know. */
function stateByTime({ issuedAt, minimumAge }: PageToken, now: number): 'valid' | 'too fast' | 'expired' {
  const age = now - issuedAt;
  if (age > TOKEN_LIFE_MS || age < -CLOCK_SKEW_MS) return 'expired';
  return age < minimumAge * 1000 ? 'too fast' : 'valid';
}

/** From then on nobody takes it, whether it was used or not, ms. */
function endOf({ issuedAt }: PageToken): number {
  return issuedAt + TOKEN_LIFE_MS + CLOCK_SKEW_MS;
}

function signature(form: string, text: string, key: KeyObject): string {
  return createHmac('sha256', key).update(`page:${form}:${text}`).digest().subarray(0, 16).toString('base64url');
}

// Captchas of others (`spam_protection.challenge: { provider, secret }`): what the visitor's browser got from the provider
// is shown to it, and it says whether that is good. A provider that does not answer, or that complains of the form's own
// secret, is no fault of the visitor's: the submission then goes on without.

type Challenge = FormConfig['spam_protection']['challenge'];
type Captcha = Exclude<Challenge, string>;
export type Provider = Captcha['provider'];

/** By provider: the field in which its widget puts the answer, and where that is verified. */
const PROVIDERS: Readonly<Record<Provider, { readonly field: string; readonly url: string }>> = {
  turnstile: {
    field: 'cf-turnstile-response',
    url: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
  },
  hcaptcha: { field: 'h-captcha-response', url: 'https://api.hcaptcha.com/siteverify' },
  recaptcha: { field: 'g-recaptcha-response', url: 'https://www.google.com/recaptcha/api/siteverify' },
};

type CaptchaVerdict =
  | { readonly kind: 'passed' | 'missing' }
  /** What the provider says is wrong with the answer. */
  | { readonly kind: 'failed'; readonly reason: string }
  /** Nobody knows: why, for the log. */
  | { readonly kind: 'unverified'; readonly reason: string };

const MAX_CAPTCHA_LENGTH = 4096;
/** What reCAPTCHA v3 calls likely to be a person; the other kinds give no score. */
const MIN_SCORE = 0.5;

const verification = z.object({
  success: z.boolean(),
  score: z.number().optional(),
  'error-codes': z.array(z.string()).default([]),
});

/** What the provider says of the answer that came with the submission. Never rejects. */
export async function verifyCaptcha(
  { provider, secret }: Captcha,
  { captchas, ip }: { readonly captchas: Control['captchas']; readonly ip: string },
  http: Pick<HttpClient, 'request'>,
): Promise<CaptchaVerdict> {
  const { field, url } = PROVIDERS[provider];
  const response = captchas?.get(field)?.trim() ?? '';
  if (response === '') return { kind: 'missing' };
  if (response.length > MAX_CAPTCHA_LENGTH) return { kind: 'failed', reason: 'it is too long' };
  const reply = await http.request({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ secret, response, remoteip: ip }).toString(),
  });
  if (reply.kind !== 'answered') return { kind: 'unverified', reason: reply.reason };
  const answer = parseVerdict(reply.text);
  if (answer === undefined) return { kind: 'unverified', reason: `${reply.status} without a verdict` };
  if (answer.success) return isLikely(answer.score) ? { kind: 'passed' } : { kind: 'failed', reason: 'low score' };
  const codes = answer['error-codes'];
  const reason = codes.join(', ').slice(0, 200);
  // Without a code of its own about the answer the provider complains of the request, which is ours.
  return codes.some(isAboutAnswer) ? { kind: 'failed', reason } : { kind: 'unverified', reason };
}

function isLikely(score: number | undefined): boolean {
  return score === undefined || score >= MIN_SCORE;
}

/** All three call them `invalid-input-response`, `missing-input-response`, `timeout-or-duplicate`, `expired-input-response`, … */
function isAboutAnswer(code: string): boolean {
  return /-response$|duplicate|already-seen/.test(code);
}

function parseVerdict(text: string): z.output<typeof verification> | undefined {
  try {
    return verification.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
