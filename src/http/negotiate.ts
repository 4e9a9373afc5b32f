/**
 * Whether a request wants a page or JSON. Fetch Metadata decides first, because a bare `fetch()` says `Accept: * / *` as
 * a navigation by an old browser does; a script asks for JSON in one of the usual ways.
 */
import type { IncomingHttpHeaders } from 'node:http';

/** `json`: whether the body was JSON. */
export function wantsPage(headers: IncomingHttpHeaders, json: boolean): boolean {
  const mode = headers['sec-fetch-mode'];
  if (mode !== undefined) return mode === 'navigate';
  if (json || headers['x-requested-with'] !== undefined) return false;
  return !prefersJson(headers.accept);
}

/** Whether the header names JSON and nothing that a page would be sent as ranks before it (RFC 9110 §12.5.1). */
function prefersJson(accept: string | undefined): boolean {
  if (accept === undefined || accept === '*/*') return false;
  let json = 0;
  let page = 0;
  for (const range of accept.toLowerCase().split(',')) {
    const [type, ...parameters] = range.split(';').map((part) => part.trim());
    const quality = qualityOf(parameters);
    if (type === 'application/json' || type?.endsWith('+json') === true) json = Math.max(json, quality);
    if (type === 'text/html' || type === 'application/xhtml+xml') page = Math.max(page, quality);
  }
  return json > page;
}

function qualityOf(parameters: readonly string[]): number {
  const given = parameters.find((parameter) => parameter.startsWith('q='));
  const quality = given === undefined ? 1 : Number(given.slice(2));
  return quality >= 0 && quality <= 1 ? quality : 0;
}
