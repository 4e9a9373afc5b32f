/** The answer of a request to the API that is not done. */
import { json, refusedA, type Answer } from '../answer.ts';
import { shapeA, statusOf, wordsOf, type ErrorCode, type Refusal } from '../errors.ts';
import type { Exchange } from '../context.ts';
import type { Route } from './route.ts';

/** Names of errors as Resend's clients know them. */
const RESEND: Partial<Record<ErrorCode, string>> = {
  AUTH_MISSING_KEY: 'missing_api_key',
  AUTH_INVALID_KEY: 'invalid_api_key',
  AUTH_EXPIRED_KEY: 'invalid_api_key',
  AUTH_REVOKED_KEY: 'invalid_api_key',
  AUTH_FORBIDDEN: 'restricted_api_key',
  AUTH_IP_NOT_ALLOWED: 'restricted_api_key',
  AUTH_DOMAIN_NOT_ALLOWED: 'restricted_api_key',
  PLAN_LIMIT: 'restricted_api_key',
  DOMAIN_NOT_VERIFIED: 'invalid_from_address',
  VALIDATION_FAILED: 'validation_error',
  BODY_MALFORMED: 'validation_error',
  NOT_FOUND: 'not_found',
  TEMPLATE_NOT_FOUND: 'not_found',
  METHOD_NOT_ALLOWED: 'method_not_allowed',
  IDEMPOTENCY_CONFLICT: 'invalid_idempotent_request',
  RATE_LIMITED: 'rate_limit_exceeded',
  INTERNAL: 'internal_server_error',
  OUTCOME_UNKNOWN: 'internal_server_error',
  UNAVAILABLE: 'internal_server_error',
};

/** Shape A; with Resend's members beside it where the route is Resend's. */
export function refusedApi({ resend }: Pick<Route, 'resend'>, refusal: Refusal, { id }: Pick<Exchange, 'id'>): Answer {
  if (resend !== true) return refusedA(refusal, id);
  const status = statusOf(refusal);
  const name = RESEND[refusal.code] ?? 'application_error';
  return json({ statusCode: status, name, message: wordsOf(refusal), ...shapeA(refusal, id) }, status, refusal.headers);
}
