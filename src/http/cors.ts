/**
 * Which pages may use a form: those of its domain and of the domain's subdomains, those of the form's `allowed_origins`,
 * those on localhost where it says `allow_localhost`, and this server's own, because our error page sends the form again.
 * Scheme and port of the domain's pages are free. A form without a domain that lists no origins may be used from everywhere.
 */
import cors from '@koa/cors';
import type Koa from 'koa';
import type { Audience } from '../config/snapshot.ts';
import type { ServerConfig } from '../config/schema.ts';

const DAY = '86400';
/** A scheme, a name of DNS and a port. */
const MAX_ORIGIN_LENGTH = 300;

/** Answers preflights for the origin in the state's `readableFor`; with these headers, else with whichever it asks for. */
export function preflights(allowMethods = 'POST', allowHeaders?: string): Koa.Middleware {
  return cors({ origin: ({ state }) => String(state['readableFor'] ?? ''), allowMethods, allowHeaders, maxAge: DAY });
}

/**
 * The `Origin` header where it is one (RFC 6454 §7), `null` among them, else nothing: no other text is sent back in a header.
 */
export function validOrigin(header: string | undefined): string {
  if (header === undefined || header.length > MAX_ORIGIN_LENGTH) return '';
  if (header === 'null') return header;
  const [, port] = /^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i.exec(header) ?? [
    '',
    '-1',
  ];
  return port === undefined || (Number(port) >= 0 && Number(port) <= 65_535) ? header : '';
}

/** The origin (`https://www.example.com`) of an `Origin` header or of a URL; undefined where it has none that we take. */
export function originOf(url: string): string | undefined {
  const parsed = URL.parse(url);
  return parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username === '' ? parsed.origin : undefined;
}

/** The host of an origin, without its port. */
export function hostOf(origin: string): string {
  return URL.parse(origin)?.hostname ?? '';
}

/** Whether the page is on the computer that shows it (RFC 6761 §6.3): a developer's. */
export function isLocalhost(origin: string): boolean {
  return /^(?:(?:.+\.)?localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostOf(origin));
}

/** Whether a page of this origin is one of these. */
export function originAllowed(origin: string, { domain, origins, anyone, localhost }: Audience): boolean {
  if (anyone || (localhost && isLocalhost(origin))) return true;
  if (domain !== undefined) {
    const host = hostOf(origin);
    if (host === domain || host.endsWith(`.${domain}`)) return true;
  }
  return origins.some((allowed) => originOf(allowed) === origin);
}

/**
 * Whether the origin is this server's own: `base_url`'s, or the host name's. Where neither is set up (on a laptop, say)
 * the address that the browser itself named, but only an IP address or `localhost`: any other name may be made to point
 * here by whoever owns it (DNS rebinding).
 */
export function isOwnOrigin(origin: string, server: ServerConfig['server'], host: string | undefined): boolean {
  const { base_url: base } = server.http;
  if (base !== null && originOf(base) === origin) return true;
  const name = hostOf(origin);
  if (name === server.hostname) return true;
  return (
    origin.slice(origin.indexOf('://') + 3) === host && /^(localhost|\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\])$/.test(name)
  );
}

/** The same pages as CSP source expressions. */
export function pageSources({ domain, origins, anyone, localhost }: Audience): string[] {
  if (anyone) return ['https:', 'http:'];
  // The policy's grammar has no IPv6 addresses.
  const near = localhost ? ['http://localhost:*', 'http://127.0.0.1:*'] : [];
  const own =
    domain === undefined
      ? []
      : ['https:', 'http:'].flatMap((scheme) => [`${scheme}//${domain}:*`, `${scheme}//*.${domain}:*`]);
  return [...own, ...origins.map(originOf).filter((origin) => origin !== undefined), ...near];
}
