/** A form's address, whatever the method: posts are submissions, and a browser that opens it learns what it is. */
import { findSendForm, parseFormId } from '../../forms/find.ts';
import { type Answer, json, page } from '../answer.ts';
import { endpointOf } from '../endpoint.ts';
import { refuse, shapeB, statusOf, type Refusal } from '../errors.ts';
import { wantsPage } from '../negotiate.ts';
import { formAddressPage } from '../pages/form-address.ts';
import { rateLimited } from '../rate.ts';
import { refusedForm, thankYou, type Seen } from './outcome.ts';
import { refuseUnserved } from './served.ts';
import { createSubmit, type SubmitParts } from './submit.ts';
import { readableFor, type Visit } from './request.ts';

const ALLOW = 'GET, HEAD, POST, OPTIONS';

/** The handler of all requests to a form's address, but for preflights that are allowed. */
export function createFormHandler(parts: SubmitParts): (visit: Visit) => Promise<Answer> {
  const submit = createSubmit(parts);
  return async (visit) => {
    switch (visit.exchange.method) {
      case 'POST':
        return submit(visit);
      case 'GET':
      case 'HEAD':
        return look(visit);
      case 'OPTIONS':
        return options(visit);
      default:
        return notAllowed(visit);
    }
  };

  async function look(visit: Visit): Promise<Answer> {
    const { exchange, domain, path } = visit;
    const isSend = path.kind === 'domain' && path.form === undefined;
    // Without a body it is the form that a body without a field `form` would go to.
    const form = isSend && domain !== undefined ? findSendForm(domain, undefined) : visit.form;
    if (!exchange.limit.allowed && !exchange.local) return refused(visit, rateLimited(exchange.limit, exchange.at));
    const seen: Seen = { form };
    const unserved = await refuseUnserved(visit, parts, seen);
    if (unserved !== undefined) return refusedForm(visit, unserved, seen);
    if (form === undefined && !isSend) return refused(visit, refuse('FORM_NOT_FOUND'));
    if (form === undefined || !wantsPage(exchange.request.headers, false)) return notAllowed(visit);
    return exchange.query === 'thanks'
      ? thankYou(visit, form)
      : page(formAddressPage({ form, endpoint: endpointOf(exchange, form) }));
  }

  /** What is left of preflights: those of what is no origin, and requests that only ask what is allowed here. */
  function options(visit: Visit): Answer {
    const { origin, 'access-control-request-method': preflight } = visit.exchange.request.headers;
    if (preflight !== undefined && origin !== undefined && readableFor(visit) === '') {
      const refusal = refuse('ORIGIN_NOT_ALLOWED', { message: 'The header Origin holds no valid origin.' });
      return json(shapeB(refusal, visit.exchange.id), statusOf(refusal));
    }
    return { status: 204, type: 'application/json', body: '', headers: { Allow: ALLOW } };
  }

  function notAllowed(visit: Visit): Answer {
    return refused(
      visit,
      refuse('METHOD_NOT_ALLOWED', { message: 'Send the form with POST.', headers: { Allow: ALLOW } }),
    );
  }

  function refused(visit: Visit, refusal: Refusal): Answer {
    return refusedForm(visit, refusal, { form: visit.form });
  }
}

// * Addresses of forms: `/{domain}/{form}` and `/v1/{domain}/{form}`, `/v1/{domain}/send`, which finds its form by the body,
// `/c/{collection}/{form}`, `/f/{id}` and `/submit/{form}`. A first segment that holds a dot is a domain, so that these never
// collide with the rest of the routes.

/** What an address says, percent-decoded and otherwise as written. */
export type FormPath =
  /** `form` is undefined for `send`. */
  | { readonly kind: 'domain'; readonly domain: string; readonly form: string | undefined }
  | { readonly kind: 'collection'; readonly collection: string; readonly form: string }
  /** `frm_…`, or what is no id at all. */
  | { readonly kind: 'own'; readonly id: string }
  /** The name of a form of the domain whose page asks. */
  | { readonly kind: 'named'; readonly name: string };

const VERSION = '/v1/';
/** Has a dot and is no domain (RFC 8615). */
const RESERVED = '.well-known';

/** The form's address that a path is, or undefined for every other path. One slash at the end is forgiven. */
export function parseFormPath(path: string): FormPath | undefined {
  const versioned = path.startsWith(VERSION);
  const start = versioned ? VERSION.length : 1;
  const slash = path.indexOf('/', start);
  if (slash === -1) return undefined;
  const end = path.endsWith('/') ? path.length - 1 : path.length;
  const first = decode(path.slice(start, slash));
  const rest = decode(path.slice(slash + 1, end));
  if (first === undefined || rest === undefined || rest === '') return undefined;
  if (!first.includes('.')) return versioned ? undefined : withoutDomain(first, rest);
  if (first === RESERVED || first.includes('/') || rest.includes('/')) return undefined;
  return { kind: 'domain', domain: first, form: versioned && rest === 'send' ? undefined : rest };
}

function withoutDomain(first: string, rest: string): FormPath | undefined {
  switch (first) {
    case 'c': {
      const [collection = '', form = '', ...more] = rest.split('/');
      return collection === '' || form === '' || more.length > 0 ? undefined : { kind: 'collection', collection, form };
    }
    case 'f':
      return byId(rest) ?? { kind: 'own', id: rest };
    case 'submit':
      return byId(rest) ?? { kind: 'named', name: rest };
    default:
      return undefined;
  }
}

/** Whoever knows a form's id may use it, whatever kind of form it is: `/f/example.com/contact`. */
function byId(text: string): FormPath | undefined {
  const parsed = parseFormId(text);
  switch (parsed?.kind) {
    case undefined:
      return undefined;
    case 'own':
      return { kind: 'own', id: parsed.id };
    case 'domain':
      return { kind: 'domain', domain: parsed.domain, form: parsed.key };
    case 'collection':
      return { kind: 'collection', collection: parsed.collection, form: parsed.key };
  }
}

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
