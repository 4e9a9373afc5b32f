/**
 * HTTPS beside HTTP. A browser that looks at a page in clear text is sent to the same page by TLS; a form or an API call
 * is never redirected, because its body would be lost, or answered differently from what the client expects.
 */
import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import { baseUrlOf, httpPlaces } from '../config/http-address.ts';
import type { Answer } from './answer.ts';
import type { Exchange } from './context.ts';

/** Whether it came by TLS. */
export function isSecure({ socket }: IncomingMessage): boolean {
  return socket instanceof TLSSocket;
}

/** Where a browser that asks for this page in clear text has to go; undefined for all else. */
export function pageByTls({ request, method, path, query, local, snapshot }: Exchange): Answer | undefined {
  if (local || isSecure(request) || (method !== 'GET' && method !== 'HEAD')) return undefined;
  if (request.headers.accept?.includes('text/html') !== true) return undefined;
  // A proxy that speaks TLS in our place would come back in clear text for ever. Whoever pretends to be one stays here.
  if (request.headers['x-forwarded-proto'] === 'https') return undefined;
  const base = baseUrlOf(snapshot.server);
  if (!base.startsWith('https:') || !httpPlaces(snapshot.server).some(({ secure }) => secure)) return undefined;
  // For now: a browser must not remember it when TLS is turned off.
  const headers = { Location: `${base}${path}${query === '' ? '' : `?${query}`}` };
  return { status: 307, type: 'text/html; charset=utf-8', body: '', headers };
}
