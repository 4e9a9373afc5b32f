/** A form's address, whatever the method: posts are submissions, and a browser that opens it learns what it is. */
import { findSendForm } from '../../forms/find.ts';
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
