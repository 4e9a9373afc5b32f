/** How the sender of a form hears of its end: a browser by a page or a redirect, a script by JSON. */
import type { Domain, Form } from '../../config/snapshot.ts';
import type { CheckedRecord } from '../../dns/check.ts';
import { json, page, seeOther, type Answer } from '../answer.ts';
import { isJson } from '../body.ts';
import { originOf } from '../cors.ts';
import { shapeB, statusOf, type ErrorCode, type Refusal } from '../errors.ts';
import { header } from '../exchange.ts';
import { wantsPage } from '../negotiate.ts';
import { errorPage } from '../pages/error.ts';
import { formNotFoundPage } from '../pages/not-found.ts';
import { pendingPage } from '../pages/pending.ts';
import { thankYouPage } from '../pages/thank-you.ts';
import type { Typed } from '../pages/typed.ts';
import { endpointOf, formTargets, framers, mayUse, type Visit } from './visit.ts';

/** What is known of a post when it is refused: more, the later that happens. */
export interface Seen {
  form: Form | undefined;
  typed?: Typed;
  /** What a domain that is not verified has to publish. */
  records?: readonly CheckedRecord[];
}

/** Faults that the visitor can do something about: a form's own `error_redirect` may speak of them. */
const MENDABLE = new Set<ErrorCode>([
  'VALIDATION_FAILED',
  'BODY_MALFORMED',
  'BLOCKED',
  'NO_FILE_UPLOADS',
  'FILES_TOO_BIG',
  'TOO_MANY_FILES',
  'BODY_TOO_LARGE',
  'RATE_LIMITED',
]);

/** The answer to a post that is refused. */
export function refusedForm(visit: Visit, refusal: Refusal, { form, typed, records }: Seen): Answer {
  const { exchange, domain } = visit;
  const status = statusOf(refusal);
  const { headers } = exchange.request;
  if (!wantsPage(headers, isJson(headers['content-type']))) {
    return json(shapeB(refusal, exchange.id), status, refusal.headers);
  }
  const redirect = form?.config.error_redirect;
  if (redirect !== undefined && MENDABLE.has(refusal.code)) return seeOther(redirect);
  const requestId = exchange.id;
  const ancestors = framers({ domain, form });
  if (records !== undefined && domain !== undefined) {
    const posted = exchange.method === 'POST';
    return page(pendingPage({ domain: domain.name, records, posted, requestId, ancestors }), status);
  }
  if (refusal.code === 'FORM_NOT_FOUND' || refusal.code === 'DOMAIN_NOT_FOUND') {
    const name = domain === undefined ? visit.path.domain : (visit.path.form ?? 'send');
    return page(formNotFoundPage({ name, domain, requestId, ancestors }), status);
  }
  const retry = refusal.code === 'RATE_LIMITED' ? Number(refusal.headers?.['Retry-After']) : undefined;
  const more =
    domain === undefined || form === undefined
      ? { typed }
      : { typed: typed && sentFromHere(typed, { visit, domain, form }), formAction: formTargets({ domain, form }) };
  return page(errorPage({ refusal, requestId, form, wait: retry, ancestors, ...more }), status, refusal.headers);
}

/** What was typed, to be sent again from our page: `_next` may be relative to the one where it began. */
function sentFromHere(typed: Typed, place: Place): Typed {
  const entries = typed.entries.map(
    ([name, value]) => [name, name === '_next' ? (nextPage(value, place) ?? value) : value] as const,
  );
  return { ...typed, entries };
}

export interface AcceptedPost {
  readonly visit: Visit;
  readonly domain: Domain;
  readonly form: Form;
  readonly id: string;
  /** The field `_next`. */
  readonly next: string | undefined;
}

/** The answer to a post that was accepted. */
export function acceptedForm({ visit, domain, form, id, next }: AcceptedPost): Answer {
  const { exchange } = visit;
  const { headers } = exchange.request;
  const target = nextPage(next, { visit, domain, form }) ?? form.config.redirect;
  if (wantsPage(headers, isJson(headers['content-type']))) {
    return target === undefined ? thankYou(visit, domain, form) : seeOther(target);
  }
  const message = form.config.thank_you ?? 'Your message has been sent.';
  return json({ success: true, ok: true, message, id, next: target ?? `${endpointOf(visit)}?thanks` });
}

/** The hosted page, for a form without a page of its own. */
export function thankYou(visit: Visit, domain: Domain, form: Form): Answer {
  return page(thankYouPage({ form, back: cameFrom({ visit, domain, form }), ancestors: framers({ domain, form }) }));
}

interface Place {
  readonly visit: Visit;
  readonly domain: Domain;
  readonly form: Form;
}

/** The page that `_next` names, where its host is one that may use the form: no open redirect. */
function nextPage(next: string | undefined, { visit, domain, form }: Place): string | undefined {
  if (next === undefined || next.trim() === '') return undefined;
  const url = URL.parse(next.trim(), cameFrom({ visit, domain, form }));
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:') || url.username !== '') return undefined;
  return mayUse(url.origin, { exchange: visit.exchange, domain, form }) ? url.href : undefined;
}

/** The page that the post came from, else the domain's first one; our own, which sent it again, leads nowhere. */
function cameFrom({ visit, domain, form }: Place): string {
  const { exchange } = visit;
  const from = header(exchange.request, 'referer') ?? header(exchange.request, 'origin') ?? '';
  const url = mayUse(originOf(from), { exchange, domain, form }) ? URL.parse(from) : null;
  return url === null || url.pathname.endsWith(exchange.path) ? `https://${domain.name}/` : from;
}
