/** The mail API as Resend's clients know it: their published SDK works with this server as its base address. */
import { z } from 'zod';
import { selectTransactional } from '../../store/messages.ts';
import { sentMessages } from '../../transactional/email.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { header } from '../context.ts';
import { newResendEmail, rescheduleBody, resendBatchBody, resendBody } from './email-body.ts';
import {
  cancelMail,
  commit,
  findSent,
  isMessage,
  isPlanned,
  moveMail,
  planAll,
  refusalFor,
  type EmailParts,
} from './email-send.ts';
import { listedForResend, resendListed, resendShown, shownForResend } from './email-shown.ts';
import { invalidAt } from './issues.ts';
import { defineRoute, type Route } from './route.ts';

const EMAILS = { permission: 'email.send', domains: 'narrow', tag: 'Email, Resend’s shape', resend: true } as const;

const id = z.string().regex(/^msg_[0-9a-z]{26}$/, 'must be the id of a mail');
const done = z.object({ object: z.literal('email'), id: z.string() });

/** `/emails…` */
export function emailsRoutes(parts: EmailParts): Route[] {
  const { store, clock } = parts;
  return [
    defineRoute({
      ...EMAILS,
      method: 'POST',
      path: '/emails',
      summary: 'Sends a mail.',
      body: resendBody,
      bodyLimit: ({ snapshot }) => snapshot.server.limits.body,
      answer: z.object({ id: z.string() }),
      idempotent: true,
      async handle(call) {
        const { body } = call;
        if (body.from === undefined && body.template === undefined) return invalidAt('from', 'is missing');
        const plans = await planAll([newResendEmail(body)], call, parts);
        if ('kind' in plans) return plans;
        const [plan] = plans;
        if (plan === undefined) return refuse('INTERNAL');
        if (!isPlanned(plan)) return refusalFor(plan);
        return commit([plan], { answer: json({ id: plan.id }), call }, parts);
      },
    }),
    defineRoute({
      ...EMAILS,
      method: 'POST',
      path: '/emails/batch',
      summary:
        'Sends up to 100 mails: all of them or none, or with x-batch-validation: permissive those that can be sent.',
      body: resendBatchBody,
      bodyLimit: ({ snapshot }) => snapshot.server.limits.body,
      answer: z.object({
        data: z.array(z.object({ id: z.string() })),
        errors: z
          .array(z.object({ index: z.int(), message: z.string() }))
          .optional()
          .describe('Those that were not sent, where that is permitted.'),
      }),
      idempotent: true,
      async handle(call) {
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
    }),
    defineRoute({
      ...EMAILS,
      method: 'GET',
      path: '/emails',
      summary: 'Lists what was sent through the API, newest first.',
      query: z.strictObject({
        limit: z.coerce.number().int().min(1).max(100).default(20).describe('Entries on a page.'),
        after: id.optional().describe('Only what is older than this one.'),
        before: id.optional().describe('Only what is newer than this one.'),
      }),
      answer: z.object({ object: z.literal('list'), has_more: z.boolean(), data: z.array(resendListed) }),
      async handle({ principal, query: { limit, after: older, before: newer } }) {
        const filter = { tenant: principal.tenant.id, domains: principal.restrictions.domain_restrictions };
        const rows = await selectTransactional(store, { ...filter, before: older, after: newer, limit: limit + 1 });
        const page = newer === undefined ? rows.slice(0, limit) : rows.slice(-limit);
        const emails = await sentMessages(store, page, clock.now());
        return json({ object: 'list', has_more: rows.length > limit, data: emails.map(listedForResend) });
      },
    }),
    defineRoute({
      ...EMAILS,
      method: 'GET',
      path: '/emails/:id',
      summary: 'Shows a mail.',
      answer: resendShown,
      async handle({ principal, params }) {
        const message = await findSent(params.id, principal, store);
        if (!isMessage(message)) return message;
        const [sent] = await sentMessages(store, [message], clock.now());
        return sent === undefined ? refuse('NOT_FOUND') : json(shownForResend(sent));
      },
    }),
    defineRoute({
      ...EMAILS,
      method: 'PATCH',
      path: '/emails/:id',
      summary: 'Moves a mail that is scheduled to another time.',
      body: rescheduleBody,
      answer: done,
      async handle({ principal, params, body }) {
        const message = await findSent(params.id, principal, store);
        if (!isMessage(message)) return message;
        const refusal = await moveMail(message, body.scheduled_at, parts);
        return refusal ?? json({ object: 'email', id: message.id });
      },
    }),
    defineRoute({
      ...EMAILS,
      method: 'POST',
      path: '/emails/:id/cancel',
      summary: 'Ends what waits of a mail.',
      answer: done,
      async handle({ principal, params }) {
        const message = await findSent(params.id, principal, store);
        if (!isMessage(message)) return message;
        return (await cancelMail(message.id, parts)) ?? json({ object: 'email', id: message.id });
      },
    }),
  ];
}
