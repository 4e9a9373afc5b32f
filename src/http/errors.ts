/**
 * Refused requests, and both shapes of their bodies. Codes, statuses and usual messages are the contract's. No answer says
 * what went wrong inside the server: the request id finds the log line.
 */
import { errorEntry, type ErrorCode } from '../contract/errors.ts';
import type { FieldError } from '../forms/check.ts';
import { BusyError } from '../lib/errors.ts';
import { StoreError, UnknownOutcomeError } from '../store/store.ts';

/** What is wrong with one value; of a file also where it stands, from 1. */
export interface Detail extends FieldError {
  readonly line?: number;
  readonly column?: number;
}

/** A request that is not done, and why. */
export interface Refusal {
  readonly kind: 'refused';
  readonly code: ErrorCode;
  /** In place of the usual message. */
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
  return errorEntry(refusal.code).status;
}

/** The words for a person. */
export function wordsOf(refusal: Refusal): string {
  const [first, ...others] = refusal.errors ?? [];
  return (
    refusal.message ?? (first !== undefined && others.length === 0 ? first.message : errorEntry(refusal.code).message)
  );
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
  const entry = errorEntry(refusal.code);
  const message = wordsOf(refusal);
  return {
    success: false,
    error: true,
    message,
    code: entry.status,
    request_id: requestId,
    errors: refusal.errors ?? [{ code: entry.formCode ?? refusal.code, message }],
    ...refusal.members,
  };
}
