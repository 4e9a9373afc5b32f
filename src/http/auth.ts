/**
 * API keys of requests: a key comes in exactly one of three headers. No keys exist yet, so that none is valid; over the
 * Unix socket the operator needs none, because the file's permissions have decided already.
 */
import type { IncomingMessage } from 'node:http';
import { refuse, type Refusal } from './errors.ts';

type Credentials =
  { readonly kind: 'none' } | { readonly kind: 'key'; readonly value: string } | { readonly kind: 'ambiguous' };

/** What the request shows; `Authorization` counts only with the Bearer scheme (RFC 6750 §2.1). */
function credentialsOf({ headers }: IncomingMessage): Credentials {
  const { authorization, 'x-api-key': short, 'service-api-key': long } = headers;
  if (authorization === undefined && short === undefined && long === undefined) return NONE;
  const bearer =
    authorization === undefined ? undefined : (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? authorization);
  const [key, ...others] = [bearer, short, long].filter((value) => value !== undefined).flat();
  if (others.length > 0) return { kind: 'ambiguous' };
  return key === undefined ? NONE : { kind: 'key', value: key };
}

const NONE: Credentials = { kind: 'none' };

/** Lets the operator in, and nobody else. */
export function refuseStranger(request: IncomingMessage, local: boolean): Refusal | undefined {
  return refuseKey(request) ?? (local ? undefined : refuse('AUTH_MISSING_KEY', { headers: CHALLENGE }));
}

/** Refuses a request that shows a key that is not valid; one without a key passes. */
export function refuseKey(request: IncomingMessage): Refusal | undefined {
  const credentials = credentialsOf(request);
  switch (credentials.kind) {
    case 'none':
      return undefined;
    case 'ambiguous':
      return refuse('AUTH_AMBIGUOUS');
    case 'key':
      return refuse('AUTH_INVALID_KEY', { headers: CHALLENGE });
  }
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer' };
