/** A request to a form's address: which form, and whether the page that it comes from may use it. */
import type { Domain, Form } from '../../config/snapshot.ts';
import { findDomain } from '../../forms/find.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { isOwnOrigin, originAllowed, originOf, pageSources } from '../cors.ts';
import { refuse, type Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import type { FormPath } from './form-path.ts';

export interface Visit {
  readonly exchange: Exchange;
  readonly path: FormPath;
  readonly domain: Domain | undefined;
  /** Undefined where there is none; for `send`, until the body is read. */
  readonly form: Form | undefined;
}

export function visitOf(exchange: Exchange, path: FormPath): Visit {
  const domain = findDomain(exchange.snapshot, path.domain);
  return { exchange, path, domain, form: path.form === undefined ? undefined : domain?.forms.get(path.form) };
}

/** The `Origin` that the answer is readable for, or nothing. */
export function readableFor({ exchange, path, domain, form }: Visit): string {
  const { origin } = exchange.request.headers;
  if (origin === undefined) return '';
  const known = domain ?? brokenDomain(exchange, path);
  return known !== undefined && mayUse(originOf(origin), { exchange, domain: known, form }) ? origin : '';
}

/** A domain whose configuration cannot be read: its pages shall at least read that. */
function brokenDomain({ snapshot }: Exchange, { domain }: FormPath): Named | undefined {
  const name = snapshot.unavailable.size === 0 ? undefined : parseDomain(domain);
  return name !== undefined && snapshot.unavailable.has(name) ? { name, forms: new Map() } : undefined;
}

/** Refuses a post from a foreign page; one that names no page at all is refused at level `strict`. */
export function refuseOrigin({
  exchange,
  domain,
  form,
}: {
  exchange: Exchange;
  domain: Domain;
  form: Form;
}): Refusal | undefined {
  const { origin, referer } = exchange.request.headers;
  const page = origin === undefined ? referer : origin === 'null' ? undefined : origin;
  const allowed =
    page === undefined || page === ''
      ? form.config.spam_protection.level !== 'strict'
      : mayUse(originOf(page), { exchange, domain, form });
  return allowed
    ? undefined
    : refuse('ORIGIN_NOT_ALLOWED', { message: `This form may only be used from pages of ${domain.name}.` });
}

type Named = Pick<Domain, 'name' | 'forms'>;

interface Use {
  readonly exchange: Exchange;
  readonly domain: Named;
  readonly form: Form | undefined;
}

/** Whether a page of this origin may use the form, and a browser may be sent on to it. */
export function mayUse(origin: string | undefined, { exchange, domain, form }: Use): boolean {
  if (origin === undefined) return false;
  const { snapshot, request } = exchange;
  return originAllowed(origin, domain, form) || isOwnOrigin(origin, snapshot.server.server, request.headers.host);
}

/** CSP sources of the pages that may frame ours. */
export function framers({ domain, form }: Pick<Visit, 'domain' | 'form'>): string[] {
  return domain === undefined ? [] : ["'self'", ...pageSources(domain, form)];
}

/** CSP sources that our page's form may be sent to: here, and where the answer may redirect (browsers ask for those too). */
export function formTargets({ domain, form }: { domain: Domain; form: Form }): string[] {
  const redirects = [form.config.redirect, form.config.error_redirect].flatMap((url) =>
    url === undefined ? [] : (originOf(url) ?? []),
  );
  return [...new Set(["'self'", ...pageSources(domain, form), ...redirects])];
}

/** The address of the form as the world sees it. */
export function endpointOf({ exchange, path }: Pick<Visit, 'exchange' | 'path'>): string {
  const base =
    exchange.snapshot.server.server.http.base_url ??
    `http://${exchange.request.headers.host ?? exchange.snapshot.server.server.hostname}`;
  const form = path.form === undefined ? `v1/${path.domain}/send` : `${path.domain}/${path.form}`;
  return `${base.replace(/\/+$/, '')}/${encodeURI(form)}`;
}
