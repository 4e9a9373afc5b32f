/** What sends a form, and so in which shape it is answered. */
import type { IncomingHttpHeaders } from 'node:http';
import { wantsPage } from '../answer.ts';
import { isJson } from '../entries.ts';

/**
 * - `navigation`: a browser that says so (Fetch Metadata). It gets pages; success is a redirect, so that a reload sends nothing.
 * - `visit`: a script that navigates for the browser: Turbo, Unpoly, boosted links of htmx. It gets the same.
 * - `browser`: may be one that says nothing. It gets pages, with a status that tells success.
 * - `htmx`: gets a fragment for the page on which it runs.
 * - `program`: gets JSON.
 */
export type Client = 'navigation' | 'visit' | 'browser' | 'htmx' | 'program';

/** Who asks, by the headers of the request. */
export function clientOf(headers: IncomingHttpHeaders): Client {
  if (headers['sec-fetch-mode'] === 'navigate') return 'navigation';
  if (headers['hx-request'] === 'true') return headers['hx-boosted'] === 'true' ? 'visit' : 'htmx';
  if (headers['x-up-version'] !== undefined || headers.accept?.includes('text/vnd.turbo-stream.html') === true) {
    return 'visit';
  }
  return wantsPage(headers, isJson(headers['content-type'])) ? 'browser' : 'program';
}

/** Whether it is answered in HTML. */
export function takesHtml(headers: IncomingHttpHeaders): boolean {
  return clientOf(headers) !== 'program';
}
