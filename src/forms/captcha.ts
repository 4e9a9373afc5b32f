/**
 * Captchas of others (`spam_protection.challenge: { provider, secret }`): what the visitor's browser got from the provider
 * is shown to it, and it says whether that is good. A provider that does not answer, or that complains of the form's own
 * secret, is no fault of the visitor's: the submission then goes on without.
 */
import { z } from 'zod';
import type { FormConfig } from '../config/schema.ts';
import type { HttpClient } from '../dns/guarded-fetch.ts';
import type { Control } from './fields.ts';

type Challenge = FormConfig['spam_protection']['challenge'];
export type Captcha = Exclude<Challenge, string>;
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

export type CaptchaVerdict =
  | { readonly kind: 'passed' | 'missing' }
  /** What the provider says is wrong with the answer. */
  | { readonly kind: 'failed'; readonly reason: string }
  /** Nobody knows: why, for the log. */
  | { readonly kind: 'unverified'; readonly reason: string };

const MAX_ANSWER_LENGTH = 4096;
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
  if (response.length > MAX_ANSWER_LENGTH) return { kind: 'failed', reason: 'it is too long' };
  const reply = await http.request({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ secret, response, remoteip: ip }).toString(),
  });
  if (reply.kind !== 'answered') return { kind: 'unverified', reason: reply.reason };
  const answer = parseAnswer(reply.text);
  if (answer === undefined) return { kind: 'unverified', reason: `${reply.status}, and no verdict` };
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

function parseAnswer(text: string): z.output<typeof verification> | undefined {
  try {
    return verification.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
