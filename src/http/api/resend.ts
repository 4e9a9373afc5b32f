/** The mail API as Resend's clients know it: their published SDK works with this server as its base address. */
import * as contract from '../../contract/email.ts';
import { selectTransactional } from '../../store/messages.ts';
import { sentMessages } from '../../transactional/email.ts';
import { json } from '../answer.ts';
import { header } from '../context.ts';
import { refuse } from '../errors.ts';
import {
  cancelMail,
  commit,
  type EmailParts,
  findSent,
  isMessage,
  isPlanned,
  listedForResend,
  moveMail,
  newResendEmail,
  planAll,
  refusalFor,
  shownForResend,
} from './email.ts';
import { invalidAt } from './issues.ts';
import { implement, type Route } from './route.ts';

/** `/emails…` */
export function resendRoutes(parts: EmailParts): Route[] {
  const { store, clock } = parts;
  return implement(contract.resendEmails, {
    async send(call) {
      const { body } = call;
      if (body.from === undefined && body.template === undefined) return invalidAt('from', 'is missing');
      const plans = await planAll([newResendEmail(body)], call, parts);
      if ('kind' in plans) return plans;
      const [plan] = plans;
      if (plan === undefined) return refuse('INTERNAL');
      if (!isPlanned(plan)) return refusalFor(plan);
      return commit([plan], { answer: json({ id: plan.id }), call }, parts);
    },
    async sendBatch(call) {
      const plans = await planAll(call.body.map(newResendEmail), call, parts);
      if ('kind' in plans) return plans;
      const permissive = header(call.exchange.request, 'x-batch-validation') === 'permissive';
      const errors = plans.flatMap((plan, index) => (isPlanned(plan) ? [] : [{ index, fault: plan }]));
      const [first] = errors;
      if (first !== undefined && !permissive) return refusalFor(first.fault, `${first.index}.`);
      const planned = plans.filter(isPlanned);
      const told = errors.map(({ index, fault: { path, message } }) => {
        return { index, message: path === undefined ? message : `${path} ${message}` };
      });
      const data = planned.map((plan) => ({ id: plan.id }));
      return commit(planned, { answer: json({ data, ...(permissive && { errors: told }) }), call }, parts);
    },
    async list({ principal, query: { limit, after: older, before: newer } }) {
      const filter = { tenant: principal.tenant.id, domains: principal.restrictions.domain_restrictions };
      const rows = await selectTransactional(store, { ...filter, before: older, after: newer, limit: limit + 1 });
      const page = newer === undefined ? rows.slice(0, limit) : rows.slice(-limit);
      const emails = await sentMessages(store, page, clock.now());
      return json({ object: 'list', has_more: rows.length > limit, data: emails.map(listedForResend) });
    },
    async show({ principal, params }) {
      const message = await findSent(params.id, principal, store);
      if (!isMessage(message)) return message;
      const [sent] = await sentMessages(store, [message], clock.now());
      return sent === undefined ? refuse('NOT_FOUND') : json(shownForResend(sent));
    },
    async reschedule({ principal, params, body }) {
      const message = await findSent(params.id, principal, store);
      if (!isMessage(message)) return message;
      const refusal = await moveMail(message, body.scheduled_at, parts);
      return refusal ?? json({ object: 'email', id: message.id });
    },
    async cancel({ principal, params }) {
      const message = await findSent(params.id, principal, store);
      if (!isMessage(message)) return message;
      return (await cancelMail(message.id, parts)) ?? json({ object: 'email', id: message.id });
    },
  });
}
