/** Mail that programs send: accepted as a whole or not at all, and shown with all that became of it. */
import { z } from 'zod';
import { countTransactional, selectTransactional } from '../../store/messages.ts';
import { type NewEmail, sentInFull, sentMessages } from '../../transactional/email.ts';
import { finishedBytes } from '../../transactional/source.ts';
import type { Planned } from '../../transactional/send.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { emailBody, emailsBody, newEmail } from './email-body.ts';
import {
  cancelMail,
  commit,
  findOwn,
  findSent,
  isMessage,
  isPlanned,
  planAll,
  refusalFor,
  type EmailParts,
} from './email-send.ts';
import { emailShown, emailSummary, shownEmail, shownSummary } from './email-shown.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Call, type Outcome, type Route } from './route.ts';

const accepted = z.object({
  id: z.string(),
  status: z.literal('queued'),
  to: z.array(z.string()),
  message_id: z.string().describe('The Message-ID header.'),
});

const EMAIL = { permission: 'email.send', domains: 'narrow', tag: 'Email' } as const;

/** `/email…` */
export function emailRoutes(parts: EmailParts): Route[] {
  const { store, clock } = parts;

  /** Sends all of them or none; `answer` is made of those that were accepted, in their order. */
  async function send(
    emails: readonly NewEmail[],
    call: Pick<Call, 'exchange' | 'principal' | 'stored'>,
    { placeOf, answer }: { placeOf: (index: number) => string; answer: (done: z.input<typeof accepted>[]) => object },
  ): Promise<Outcome> {
    const plans = await planAll(emails, call, parts);
    if ('kind' in plans) return plans;
    const wrong = plans.findIndex((plan) => !isPlanned(plan));
    const fault = plans[wrong];
    if (fault?.kind === 'fault') return refusalFor(fault, placeOf(wrong));
    const planned = plans.filter(isPlanned);
    const done = planned.map((plan, i) => acceptedOf(plan, emails[i]));
    return commit(planned, { answer: json(answer(done)), call }, parts);
  }

  return [
    defineRoute({
      ...EMAIL,
      method: 'POST',
      path: '/email/send',
      summary: 'Sends a mail, from a template or as it stands.',
      description: 'A test key’s mail goes the whole way but the last: it is captured, and shown by `GET /email/{id}`.',
      body: emailBody,
      bodyLimit: ({ snapshot }) => snapshot.server.limits.body,
      answer: accepted,
      idempotent: true,
      handle: (call) => send([newEmail(call.body)], call, { placeOf: () => '', answer: ([done]) => done ?? {} }),
    }),
    defineRoute({
      ...EMAIL,
      method: 'POST',
      path: '/email/batch',
      summary: 'Sends up to 100 mails, all of them or none.',
      body: emailsBody,
      bodyLimit: ({ snapshot }) => snapshot.server.limits.body,
      answer: z.object({ emails: z.array(accepted), count: z.int() }),
      idempotent: true,
      handle(call) {
        const { body } = call;
        const listed = Array.isArray(body);
        return send((listed ? body : body.emails).map(newEmail), call, {
          placeOf: (index) => (listed ? `${index}.` : `emails.${index}.`),
          answer: (emails) => ({ emails, count: emails.length }),
        });
      },
    }),
    defineRoute({
      ...EMAIL,
      method: 'GET',
      path: '/email',
      summary: 'Lists what was sent through the API, newest first.',
      query: z.strictObject(listing('msg')),
      answer: listOf('emails', emailSummary),
      async handle({ principal, query: { limit, cursor } }) {
        const filter = { tenant: principal.tenant.id, domains: principal.restrictions.domain_restrictions };
        const rows = await selectTransactional(store, { ...filter, before: cursor, limit: limit + 1 });
        const { page, next_cursor } = pageOf(rows, limit);
        const emails = await sentMessages(store, page, clock.now());
        return json({ emails: emails.map(shownSummary), count: await countTransactional(store, filter), next_cursor });
      },
    }),
    defineRoute({
      ...EMAIL,
      method: 'GET',
      path: '/email/:id',
      summary: 'Shows a mail, each recipient’s state and every attempt.',
      answer: emailShown,
      async handle({ principal, params: { id } }) {
        const message = await findSent(id, principal, store);
        if (!isMessage(message)) return message;
        const sent = await sentInFull(store, message, clock.now());
        return sent === undefined ? refuse('NOT_FOUND') : json(shownEmail(sent));
      },
    }),
    defineRoute({
      ...EMAIL,
      method: 'GET',
      path: '/email/:id/source',
      summary: 'Shows the finished mail, signature and all, while it is kept.',
      description:
        'That is for all mail of test keys, also of forms, and for other mail that waits to be tried again. What was not sent through the API or SMTP submission needs `forms.read` as well.',
      answer: z.object({ id: z.string(), size: z.int(), source: z.string() }),
      async handle({ principal, params: { id } }) {
        const message = await findOwn(id, principal, store);
        if (!isMessage(message)) return message;
        const bytes = await finishedBytes(store, message);
        if (bytes === undefined) return refuse('NOT_FOUND', { message: 'The finished mail is not kept.' });
        // Ours are ASCII, but for addresses that are UTF-8 themselves; what programs submit may be anything.
        return json({ id, size: message.size, source: bytes.toString() });
      },
    }),
    defineRoute({
      ...EMAIL,
      method: 'POST',
      path: '/email/:id/cancel',
      summary: 'Ends what waits of a mail: one that is scheduled, or recipients to be tried again.',
      answer: emailShown,
      async handle({ principal, params: { id } }) {
        const message = await findSent(id, principal, store);
        if (!isMessage(message)) return message;
        const refusal = await cancelMail(id, parts);
        if (refusal !== undefined) return refusal;
        const sent = await sentInFull(store, message, clock.now());
        return sent === undefined ? refuse('NOT_FOUND') : json(shownEmail(sent));
      },
    }),
  ];
}

function acceptedOf({ id, messageId }: Planned, email: NewEmail | undefined): z.input<typeof accepted> {
  return { id, status: 'queued', to: email?.to.map(({ address }) => address) ?? [], message_id: messageId };
}
