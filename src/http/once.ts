/** `Idempotency-Key`, for forms and the API alike: the same request twice has one effect and one answer. */
import type { Idempotency } from '../accounts/idempotency.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError } from '../store/store.ts';
import { type Answer, formatAnswer, parseAnswer } from './answer.ts';
import { type Exchange, header } from './context.ts';
import { type Refusal, refuse } from './errors.ts';

export interface OnceParts {
  readonly idempotency: Idempotency;
  readonly log: Log;
}

export interface OneRequest {
  readonly exchange: Exchange;
  /** What the key is unique in: the form, or the API key and the route. */
  readonly scope: string;
  /** The hash of the body. */
  readonly hash: () => string;
}

/** The statements that store the answer with what it tells of; none where the request has no key. */
export type Stored = (answer: Answer) => readonly Statement[];

const MAX_KEY_LENGTH = 256;

const CONFLICTS = {
  'other body': 'This Idempotency-Key was used with another body.',
  'in progress': 'The first request with this Idempotency-Key is still in progress.',
} as const;

/**
 * Does the work unless a request with this key has done it, and answers what that one was answered. An answer that the work
 * did not commit itself is stored afterwards, and where it fails the key is given back.
 */
export async function answerOnce(
  { idempotency, log }: OnceParts,
  { exchange, scope, hash }: OneRequest,
  work: (stored: Stored) => Promise<Answer>,
): Promise<Answer | Refusal> {
  const key = header(exchange.request, 'idempotency-key');
  if (key === undefined) return work(() => []);
  if (key === '' || key.length > MAX_KEY_LENGTH) {
    return refuse('VALIDATION_FAILED', { message: `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters.` });
  }
  const began = await idempotency.begin(scope, key, hash());
  if (began.kind === 'conflict') return refuse('IDEMPOTENCY_CONFLICT', { message: CONFLICTS[began.reason] });
  if (began.kind === 'replay') {
    const answer = parseAnswer(began.response);
    return { ...answer, headers: { ...answer.headers, 'Idempotent-Replayed': 'true' } };
  }
  const { claim } = began;
  let committed: string | undefined;
  try {
    const answer = await work((made) => {
      committed = formatAnswer(made);
      return [idempotency.answer(claim, { status: made.status, response: committed })];
    });
    const response = formatAnswer(answer);
    if (response !== committed) await idempotency.finish(claim, { status: answer.status, response });
    return answer;
  } catch (error) {
    if (error instanceof UnmetError) return refuse('IDEMPOTENCY_CONFLICT', { message: CONFLICTS['in progress'] });
    await idempotency.release(claim).catch((cause: unknown) => {
      log.warn('idempotency.not_released', { request: exchange.id, ...errorFields(cause) });
    });
    throw error;
  }
}
