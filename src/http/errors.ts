/**
 * Every way in which a request can be refused, once: its status, its words, and the code that a browser's form client
 * knows it by. Both body shapes (docs: HTTP errors) and the pages for browsers are made from this table; no answer holds
 * anything of what went wrong inside, only the request id that finds the log line.
 */
import type { FieldError } from '../forms/check.ts';
import { BusyError } from '../lib/errors.ts';
import { StoreError, UnknownOutcomeError } from '../store/store.ts';

interface Entry {
  readonly status: number;
  readonly message: string;
  /** The code in shape B's `errors`, where published form clients know another name for it. */
  readonly known?: string;
}

const TABLE = {
  REQUEST_MALFORMED: { status: 400, message: 'The request is not valid HTTP.' },
  BODY_MALFORMED: { status: 400, message: 'The body of the request cannot be read.' },
  VALIDATION_FAILED: { status: 400, message: 'Some fields need your attention.' },
  BLOCKED: { status: 400, message: 'The message looks like spam and was not sent.' },
  NO_FILE_UPLOADS: { status: 400, message: 'This form takes no files.' },
  AUTH_AMBIGUOUS: { status: 400, message: 'Send the API key in one header, not in several.' },
  AUTH_MISSING_KEY: { status: 401, message: 'An API key is needed here.' },
  AUTH_INVALID_KEY: { status: 401, message: 'The API key is not known.' },
  AUTH_EXPIRED_KEY: { status: 401, message: 'The API key has expired.' },
  AUTH_REVOKED_KEY: { status: 401, message: 'The API key was revoked.' },
  AUTH_FORBIDDEN: { status: 403, message: 'The API key may not do this.' },
  AUTH_TEST_KEY: {
    status: 403,
    message: 'A test key neither changes what is live nor reads its data. Use a live key.',
  },
  AUTH_IP_NOT_ALLOWED: { status: 403, message: 'The API key may not be used from this address.' },
  AUTH_DOMAIN_NOT_ALLOWED: { status: 403, message: 'The API key may not be used for this domain.' },
  PLAN_LIMIT: { status: 403, message: 'The plan of the account does not allow more of these.' },
  SIGNUP_CLOSED: { status: 403, message: 'Accounts are made by the operator of this server.' },
  RECIPIENT_NOT_CONFIRMED: { status: 403, message: 'The recipient has not agreed yet to get mail of this account.' },
  DOMAIN_NOT_VERIFIED: { status: 403, message: 'The domain of this form is not verified yet.' },
  ORIGIN_NOT_ALLOWED: { status: 403, message: 'This form may not be used from this page.' },
  NOT_FOUND: { status: 404, message: 'There is nothing at this address.' },
  DOMAIN_NOT_FOUND: { status: 404, message: 'No form of this domain is served here.', known: 'FORM_NOT_FOUND' },
  FORM_NOT_FOUND: { status: 404, message: 'There is no form at this address.' },
  TEMPLATE_NOT_FOUND: { status: 404, message: 'There is no template of this name.' },
  INACTIVE: { status: 403, message: 'This form takes no submissions at the moment.' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'This address does not take this method.' },
  REQUEST_TIMEOUT: { status: 408, message: 'The request took too long to arrive.' },
  CONFLICT: { status: 409, message: 'That cannot be done in the present state.' },
  IDEMPOTENCY_CONFLICT: {
    status: 409,
    message: 'This Idempotency-Key was used with another body, or its first request is still in progress.',
  },
  BODY_TOO_LARGE: { status: 413, message: 'The request is too large.' },
  FILES_TOO_BIG: { status: 413, message: 'A file is too big.' },
  TOO_MANY_FILES: { status: 413, message: 'There are too many files.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'The type of the body cannot be read here.' },
  RATE_LIMITED: { status: 429, message: 'Too many requests. Please wait a little.' },
  HEADERS_TOO_LARGE: { status: 431, message: 'The headers of the request are too large.' },
  INTERNAL: { status: 500, message: 'Something went wrong on the server.' },
  OUTCOME_UNKNOWN: {
    status: 503,
    message:
      'The database did not confirm this, and whether it was accepted is not known. Look it up before you try again.',
  },
  UNAVAILABLE: { status: 503, message: 'The server cannot accept this just now. Nothing was sent.' },
} as const satisfies Readonly<Record<string, Entry>>;

export type ErrorCode = keyof typeof TABLE;

/** What is wrong with one value; of a file also where it stands, from 1. */
export interface Detail extends FieldError {
  readonly line?: number;
  readonly column?: number;
}

/** A request that is not done, and why. */
export interface Refusal {
  readonly kind: 'refused';
  readonly code: ErrorCode;
  /** In place of the table's words. */
  readonly message?: string | undefined;
  readonly errors?: readonly Detail[] | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** More members of the body, of both shapes. */
  readonly members?: Readonly<Record<string, unknown>> | undefined;
}

/** The value of a refusal; `more` gives its own words, fields or headers. */
export function refuse(code: ErrorCode, more: Omit<Refusal, 'kind' | 'code'> = {}): Refusal {
  return { kind: 'refused', code, ...more };
}

/** The refusal of a key that may not, which names what it would need. */
export function lacksPermission(permission: string): Refusal {
  return refuse('AUTH_FORBIDDEN', { message: `The API key may not do this: it lacks the permission ${permission}.` });
}

/** What a fault is to the client: a store that cannot write, or too much at a time, is 503, all else is 500. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof BusyError) return unavailable(error.message);
  if (error instanceof UnknownOutcomeError) {
    return refuse('OUTCOME_UNKNOWN', { members: { id: error.id }, headers: { 'Retry-After': '5' } });
  }
  return error instanceof StoreError ? unavailable() : refuse('INTERNAL');
}

/** The store, or its disk, takes nothing now. */
export function unavailable(message?: string): Refusal {
  return refuse('UNAVAILABLE', { message, headers: { 'Retry-After': '5' } });
}

export function statusOf(refusal: Refusal): number {
  return TABLE[refusal.code].status;
}

/** The words for a person. */
export function wordsOf(refusal: Refusal): string {
  const [first, ...others] = refusal.errors ?? [];
  return refusal.message ?? (first !== undefined && others.length === 0 ? first.message : TABLE[refusal.code].message);
}

/** Shape A: authenticated and administrative routes. */
export function shapeA(refusal: Refusal, requestId: string): object {
  return {
    error: wordsOf(refusal),
    code: refusal.code,
    request_id: requestId,
    ...(refusal.errors === undefined
      ? {}
      : {
          details: refusal.errors.map(({ field: path = '', message, line, column }) => ({
            path,
            message,
            line,
            column,
          })),
        }),
    ...refusal.members,
  };
}

/** Shape B: submission routes. `errors` is never empty: a fault of the whole form is one without a field. */
export function shapeB(refusal: Refusal, requestId: string): object {
  const entry: Entry = TABLE[refusal.code];
  const message = wordsOf(refusal);
  return {
    success: false,
    error: true,
    message,
    code: entry.status,
    request_id: requestId,
    errors: refusal.errors ?? [{ code: entry.known ?? refusal.code, message }],
    ...refusal.members,
  };
}
