/**
 * API keys of requests: a key comes in exactly one of three headers. Over the Unix socket the operator needs none, because
 * the file's permissions have decided already.
 */
import type { IncomingMessage } from 'node:http';
import type { AuthFault, Authenticator } from '../accounts/authenticate.ts';
import type { Principal } from '../accounts/principal.ts';
import { refuse, type Refusal } from './errors.ts';
import { header, type Exchange } from './context.ts';

const BEARER = 'authorization';
const HEADERS = [BEARER, 'x-api-key', 'service-api-key'];

/** The keys that the request shows; `Authorization` counts only with the Bearer scheme (RFC 6750 §2.1). One header twice is two. */
function keysOf(request: IncomingMessage): string[] {
  if (!HEADERS.some((name) => name in request.headers)) return [];
  const { headersDistinct } = request;
  return HEADERS.flatMap((name) =>
    (headersDistinct[name] ?? []).map((value) =>
      name === BEARER ? (/^Bearer +(\S+) *$/i.exec(value)?.[1] ?? '') : value,
    ),
  );
}

/**
 * Who asks: by its key, else the operator over the Unix socket (for the tenant that `X-Postern-Tenant` names), else
 * nobody (undefined). A key that is shown and is not valid is refused, wherever it is shown.
 */
export async function principalOf(
  { request, local, ip }: Pick<Exchange, 'request' | 'local' | 'ip'>,
  authenticator: Authenticator,
): Promise<Principal | Refusal | undefined> {
  const [key, another] = keysOf(request);
  if (another !== undefined) return refuse('AUTH_AMBIGUOUS');
  if (key !== undefined) {
    const known = await authenticator.byKey(key, ip);
    return typeof known === 'string' ? refusalOfKey(known) : known;
  }
  if (!local) return undefined;
  const tenant = header(request, 'x-postern-tenant');
  const operator = await authenticator.operator(tenant);
  return operator ?? refuse('NOT_FOUND', { message: `There is no tenant ${(tenant ?? '').slice(0, 60)}.` });
}

/** The refusal where a key is needed and none is shown. */
export function refuseMissingKey(): Refusal {
  return refuse('AUTH_MISSING_KEY', { headers: CHALLENGE });
}

function refusalOfKey(fault: AuthFault): Refusal {
  switch (fault) {
    case 'TENANT_SUSPENDED':
      return refuse('AUTH_FORBIDDEN', { message: 'The account of this API key is suspended.' });
    case 'TENANT_UNCONFIRMED':
      return refuse('AUTH_FORBIDDEN', {
        message: 'The account of this API key is not confirmed yet: follow the link that was mailed to its owner.',
      });
    default:
      return refuse(fault, { headers: CHALLENGE });
  }
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer' };
