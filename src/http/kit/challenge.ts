/**
 * `GET /challenge?form=…`: what a page needs to send a form, as JSON that a script of any origin may read. `form` is the
 * path of the form's address, or its id. With proof of work it is also what the ALTCHA widget (version 1) takes from its
 * `challengeurl`.
 */
import { findSendForm } from '../../forms/find.ts';
import type { Challenges } from '../../forms/challenges.ts';
import { type Answer, json, refuse, type Refusal, shapeB, statusOf } from '../answer.ts';
import { type Exchange, refuseOver, translationFor } from '../context.ts';
import { findFormRequest, type FormRequest, type FormRequestParts, outageOf, parseFormPath } from '../forms/request.ts';

export interface ChallengeParts extends Pick<FormRequestParts, 'store' | 'log'> {
  readonly challenges: Pick<Challenges, 'issue'>;
}

/** Readable for all: no cookie is ever read here. */
const READABLE = { 'Access-Control-Allow-Origin': '*' };

/** The handler of `/challenge`. */
export function createChallengeHandler(parts: ChallengeParts): (exchange: Exchange) => Promise<Answer> {
  return async (exchange) => {
    const query = new URLSearchParams(exchange.query);
    const asked = query.get('form') ?? '';
    const path = parseFormPath(asked.startsWith('/') ? asked : `/f/${asked}`);
    const formRequest = path === undefined ? undefined : await findFormRequest(exchange, path, parts);
    const outage = formRequest && (outageOf(formRequest) ?? refuseOver(exchange.limit, exchange));
    if (outage !== undefined) return refusal(outage, exchange);
    const form = formRequest && formOf(formRequest, query.get('name'));
    if (form === undefined) return refusal(refuse('FORM_NOT_FOUND'), exchange);
    const { token, minimum_age, proof } = await parts.challenges.issue(form);
    const unreachable = translationFor(exchange, form).say('kit.unreachable');
    return json({ token, minimum_age, unreachable, ...proof }, 200, READABLE);
  };
}

/** `/v1/{domain}/send` names the form in its field `form`, which the page sends along. */
function formOf({ form, path, domain }: FormRequest, name: string | null) {
  const isSend = path.kind === 'domain' && path.key === undefined;
  return isSend && domain !== undefined ? findSendForm(domain, name ?? undefined) : form;
}

function refusal(refused: Refusal, exchange: Exchange): Answer {
  return json(shapeB(refused, exchange.id, translationFor(exchange)), statusOf(refused), {
    ...refused.headers,
    ...READABLE,
  });
}
