/** The way of one thing through the appliance, found from any id on it. */
import { z } from 'zod';
import { isoTime } from '../../lib/clock.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { defineRoute, type Route } from './route.ts';

const entry = z.object({
  at: z.iso.datetime(),
  step: z
    .string()
    .describe(
      '`request`, `inbound`, `judged`, `message`, `attempt`, `end`, `event`, `webhook`; `waits` is yet to come.',
    ),
  id: z.string().describe('Of what it happened to.'),
  text: z.string(),
});
const shape = z.object({
  id: z.string(),
  request: z.string().nullable(),
  submission: z.string().nullable(),
  messages: z.array(z.string()),
  timeline: z.array(entry).describe('Oldest first.'),
});

interface Traced extends Readonly<Omit<z.output<typeof shape>, 'messages' | 'timeline'>> {
  readonly messages: readonly string[];
  /** Times in ms. */
  readonly timeline: readonly (Readonly<Omit<z.output<typeof entry>, 'at'>> & { readonly at: number })[];
}

export interface AdminTraceParts {
  /** Undefined where nothing is known of the id. */
  readonly trace: (id: string) => Promise<Traced | undefined>;
}

/** `/admin/trace/{id}` */
export function adminTraceRoutes({ trace }: AdminTraceParts): Route[] {
  return [
    defineRoute({
      permission: 'admin',
      domains: 'refuse',
      tag: 'Administration',
      method: 'GET',
      path: '/admin/trace/:id',
      summary: 'Follows one thing from the request to the last SMTP reply.',
      description:
        'By the id of a request (`req_…`, the `X-Request-Id` of an answer), submission, message, delivery, event or inbound message, or by a Message-ID. Events and attempts are told as long as they are kept.',
      answer: shape,
      async handle({ params: { id } }) {
        const traced = await trace(id);
        if (traced === undefined) {
          return refuse('NOT_FOUND', {
            message: `Nothing is kept of ${id.slice(0, 200)}. A request that was refused, or caused nothing, is only in the log; what is older than the retention of events is gone.`,
          });
        }
        return json({
          ...traced,
          messages: [...traced.messages],
          timeline: traced.timeline.map(({ at, ...rest }) => ({ at: isoTime(at), ...rest })),
        });
      },
    }),
  ];
}
