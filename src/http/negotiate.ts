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

/** Whether the header names CSV and ranks it before JSON. */
export function prefersCsv(accept: string | undefined): boolean {
  return prefers(accept, /^text\/csv$/, JSON_TYPE);
}

function prefersJson(accept: string | undefined): boolean {
  return prefers(accept, JSON_TYPE, /^(text\/html|application\/xhtml\+xml)$/);
}

const JSON_TYPE = /^application\/json$|\+json$/;

/** Whether the header names a wanted type and no other one ranks as high (RFC 9110 §12.5.1). */
function prefers(accept: string | undefined, wanted: RegExp, other: RegExp): boolean {
  if (accept === undefined || accept === '*/*') return false;
  let best = 0;
  let rival = 0;
  for (const range of accept.toLowerCase().split(',')) {
    const [type, ...parameters] = range.split(';').map((part) => part.trim());
    const quality = qualityOf(parameters);
    if (type === undefined) continue;
    if (wanted.test(type)) best = Math.max(best, quality);
    if (other.test(type)) rival = Math.max(rival, quality);
  }
  return best > rival;
}

function qualityOf(parameters: readonly string[]): number {
  const given = parameters.find((parameter) => parameter.startsWith('q='));
  const quality = given === undefined ? 1 : Number(given.slice(2));
  return quality >= 0 && quality <= 1 ? quality : 0;
}
