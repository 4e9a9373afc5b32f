/**
 * `GET /challenge?form=…`: what a page needs to send a form, as JSON that a script of any origin may read. `form` is the
 * path of the form's address, or its id. With proof of work it is also what the ALTCHA widget (version 1) takes from its
 * `challengeurl`.
 */
import { findSendForm } from '../../forms/find.ts';
import type { Challenges } from '../../forms/challenges.ts';
import { type Answer, json, refuse, type Refusal, shapeB, statusOf } from '../answer.ts';
import { type RequestContext, refuseOver, translationFor } from '../context.ts';
import { findFormRequest, type FormRequest, type FormRequestParts, outageOf, parseFormPath } from '../forms/request.ts';

export interface ChallengeParts extends Pick<FormRequestParts, 'store' | 'log'> {
  readonly challenges: Pick<Challenges, 'issue'>;
}

/** Readable for all: no cookie is ever read here. */
const READABLE = { 'Access-Control-Allow-Origin': '*' };

/** The handler of `/challenge`. */
export function createChallengeHandler(parts: ChallengeParts): (context: RequestContext) => Promise<Answer> {
  return async (context) => {
    const query = new URLSearchParams(context.query);
    const asked = query.get('form') ?? '';
    const path = parseFormPath(asked.startsWith('/') ? asked : `/f/${asked}`);
    const formRequest = path === undefined ? undefined : await findFormRequest(context, path, parts);
    const outage = formRequest && (outageOf(formRequest) ?? refuseOver(context.limit, context));
    if (outage !== undefined) return refusal(outage, context);
    const form = formRequest && formOf(formRequest, query.get('name'));
    if (form === undefined) return refusal(refuse('FORM_NOT_FOUND'), context);
    const { token, minimum_age, proof } = await parts.challenges.issue(form);
    const unreachable = translationFor(context, form).say('kit.unreachable');
    return json({ token, minimum_age, unreachable, ...proof }, 200, READABLE);
  };
}

/** `/v1/{domain}/send` names the form in its field `form`, which the page sends along. */
function formOf({ form, path, domain }: FormRequest, name: string | null) {
  const isSend = path.kind === 'domain' && path.key === undefined;
  return isSend && domain !== undefined ? findSendForm(domain, name ?? undefined) : form;
}

function refusal(refused: Refusal, context: RequestContext): Answer {
  return json(shapeB(refused, context.id, translationFor(context)), statusOf(refused), {
    ...refused.headers,
    ...READABLE,
  });
}
