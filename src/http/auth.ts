/**
 * API keys of requests: a key comes in exactly one of three headers. Over the Unix socket the operator needs none, because
 * the file's permissions have decided already.
 */
import type { IncomingMessage } from 'node:http';
import type { AuthFault, Authenticator } from '../accounts/authenticate.ts';
import type { Principal } from '../accounts/principal.ts';
import { refuse, type Refusal } from './errors.ts';
import { header, type Exchange } from './context.ts';

type Credentials =
  { readonly kind: 'none' } | { readonly kind: 'key'; readonly value: string } | { readonly kind: 'ambiguous' };

/** What the request shows; `Authorization` counts only with the Bearer scheme (RFC 6750 §2.1). One header twice is two. */
function credentialsOf(request: IncomingMessage): Credentials {
  const { headers, rawHeaders } = request;
  if (!HEADERS.some((name) => name in headers)) return NONE;
  const shown: [name: string, value: string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? '';
    if (HEADERS.includes(name)) shown.push([name, rawHeaders[i + 1] ?? '']);
  }
  const [first, ...others] = shown;
  if (first === undefined) return NONE;
  if (others.length > 0) return { kind: 'ambiguous' };
  const [name, value] = first;
  return { kind: 'key', value: name === BEARER ? (/^Bearer +(\S+) *$/i.exec(value)?.[1] ?? '') : value };
}

const BEARER = 'authorization';
const HEADERS = [BEARER, 'x-api-key', 'service-api-key'];

const NONE: Credentials = { kind: 'none' };

/**
 * Who asks: by its key, else the operator over the Unix socket (for the tenant that `X-Postern-Tenant` names), else
 * nobody (undefined). A key that is shown and is not valid is refused, wherever it is shown.
 */
export async function principalOf(
  { request, local, ip }: Pick<Exchange, 'request' | 'local' | 'ip'>,
  authenticator: Authenticator,
): Promise<Principal | Refusal | undefined> {
  const credentials = credentialsOf(request);
  switch (credentials.kind) {
    case 'ambiguous':
      return refuse('AUTH_AMBIGUOUS');
    case 'key': {
      const known = await authenticator.byKey(credentials.value, ip);
      return typeof known === 'string' ? refusalOfKey(known) : known;
    }
    case 'none': {
      if (!local) return undefined;
      const tenant = header(request, 'x-postern-tenant');
      return (
        (await authenticator.operator(tenant)) ??
        refuse('NOT_FOUND', { message: `There is no tenant ${(tenant ?? '').slice(0, 60)}.` })
      );
    }
  }
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
