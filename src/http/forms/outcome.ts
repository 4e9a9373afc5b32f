/** How the sender of a form hears of its end: a browser by a page or a redirect, a script by JSON. */
import type { Form } from '../../config/snapshot.ts';
import { json, page, seeOther, type Answer, wantsPage } from '../answer.ts';
import { isJson } from '../body.ts';
import { isOwnOrigin, originOf } from '../cors.ts';
import { endpointOf, header } from '../context.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { shapeB, statusOf, type Refusal } from '../errors.ts';
import { errorPage, type SubmittedValues } from '../pages/error.ts';
import { formNotFoundPage, pendingPage, thankYouPage } from '../pages/form-pages.ts';
import { formTargets, framers, mayUse, type RequestProgress, type FormRequest } from './request.ts';

/** Faults that the visitor can do something about: a form's own `error_redirect` may speak of them. */
const CORRECTABLE = new Set<ErrorCode>([
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
export function refusedForm(
  formRequest: FormRequest,
  refusal: Refusal,
  { form, submitted, records }: RequestProgress,
): Answer {
  const { exchange, domain, path } = formRequest;
  const status = statusOf(refusal);
  const { headers } = exchange.request;
  if (!wantsPage(headers, isJson(headers['content-type']))) {
    return json(shapeB(refusal, exchange.id), status, refusal.headers);
  }
  const redirect = form?.config.error_redirect;
  if (redirect !== undefined && CORRECTABLE.has(refusal.code)) return seeOther(redirect);
  const requestId = exchange.id;
  const ancestors = framers({ ...formRequest, form });
  if (records !== undefined && domain !== undefined) {
    const isPost = exchange.method === 'POST';
    return page(pendingPage({ domain: domain.name, records, posted: isPost, requestId, ancestors }), status);
  }
  if (refusal.code === 'FORM_NOT_FOUND' || refusal.code === 'DOMAIN_NOT_FOUND') {
    return page(formNotFoundPage({ path, domain: domain?.name, requestId, ancestors }), status);
  }
  const retry = refusal.code === 'RATE_LIMITED' ? Number(refusal.headers?.['Retry-After']) : undefined;
  const more =
    form === undefined
      ? { submitted }
      : {
          submitted: submitted && sentFromHere(submitted, formRequest, form),
          formAction: formTargets(form),
          action: actionOf(formRequest, form),
        };
  return page(errorPage({ refusal, requestId, form, wait: retry, ancestors, ...more }), status, refusal.headers);
}

/** What was submitted, to be sent again from our page: `_next` may be relative to the one where it began. */
function sentFromHere(submitted: SubmittedValues, formRequest: FormRequest, form: Form): SubmittedValues {
  const entries = submitted.entries.flatMap(([name, value]) => {
    if (name !== '_next') return [[name, value] as const];
    const next = nextPage(value, formRequest, form);
    return next === undefined ? [] : [[name, next] as const];
  });
  return { ...submitted, entries };
}

/** Where our page sends the form again: to where it came from, but for an address that means another form when we ask. */
function actionOf({ exchange, path }: FormRequest, form: Form): string | undefined {
  return path.kind === 'named' ? endpointOf(exchange, form) : undefined;
}

export interface AcceptedPost {
  readonly formRequest: FormRequest;
  readonly form: Form;
  readonly id: string;
  /** The field `_next`. */
  readonly next: string | undefined;
}

/** The answer to a post that was accepted. */
export function acceptedForm({ formRequest, form, id, next }: AcceptedPost): Answer {
  const { exchange } = formRequest;
  const { headers } = exchange.request;
  const target = nextPage(next, formRequest, form) ?? form.config.redirect;
  if (wantsPage(headers, isJson(headers['content-type']))) {
    return target === undefined ? thankYou(formRequest, form) : seeOther(target);
  }
  const message = thankYouText(form);
  return json({ success: true, ok: true, message, id, next: target ?? `${endpointOf(exchange, form)}?thanks` });
}

/** What a visitor is told of success, on the page and in JSON. */
function thankYouText({ config }: Form): string {
  return config.thank_you ?? 'Your message has been sent.';
}

/** The hosted page, for a form without a page of its own. */
export function thankYou(formRequest: FormRequest, form: Form): Answer {
  return page(
    thankYouPage({
      form,
      text: thankYouText(form),
      back: cameFrom(formRequest, form),
      ancestors: framers({ ...formRequest, form }),
    }),
  );
}

/** The page that `_next` names, where it is one that may use the form: no open redirect. */
function nextPage(next: string | undefined, formRequest: FormRequest, form: Form): string | undefined {
  if (next === undefined || next.trim() === '') return undefined;
  const url = URL.parse(next.trim(), cameFrom(formRequest, form));
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:') || url.username !== '') return undefined;
  return mayGoOn(url.origin, formRequest, form) ? url.href : undefined;
}

/** Where any page may use the form, a browser goes back to the site that it came from, or to where our own page says: that one was vetted. */
function mayGoOn(origin: string, { exchange }: FormRequest, { audience }: Form): boolean {
  if (!audience.anyone) return mayUse(origin, exchange, audience);
  const from = originOf(header(exchange.request, 'origin') ?? header(exchange.request, 'referer') ?? '');
  if (from === undefined) return false;
  const { request, snapshot } = exchange;
  return origin.toLowerCase() === from || isOwnOrigin(from, snapshot.server.server, request.headers.host);
}

/** The page that the post came from, else the domain's first one; our own, which sent it again, leads nowhere. */
function cameFrom({ exchange }: FormRequest, { audience }: Form): string | undefined {
  const from = header(exchange.request, 'referer') ?? header(exchange.request, 'origin') ?? '';
  const url = mayUse(originOf(from), exchange, audience) ? URL.parse(from) : null;
  if (url !== null && !url.pathname.endsWith(exchange.path)) return from;
  return audience.domain === undefined ? undefined : `https://${audience.domain}/`;
}
