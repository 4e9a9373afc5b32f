/** What happened, event by event. */
import { z } from 'zod';
import { mayTouch } from '../../accounts/principal.ts';
import type { EventCounts } from '../../events/counts.ts';
import { pageOfEvents } from '../../events/list.ts';
import { isoTime, type Clock } from '../../lib/clock.ts';
import type { Store } from '../../store/store.ts';
import type { EventRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Route } from './route.ts';
import { since, until } from './times.ts';

export interface EventsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly counts: EventCounts;
}

const event = z.object({
  id: z.string(),
  type: z.string().describe('As webhooks have it; account events such as key.created are listed here alone.'),
  created_at: z.iso.datetime(),
  domain: z.string().nullable(),
  form: z.string().nullable(),
  submission: z.string().nullable(),
  message: z.string().nullable(),
  data: z.record(z.string(), z.unknown()).describe('What belongs to the type.'),
});

/** `/events` */
export function eventsRoutes({ store, clock, counts }: EventsParts): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/events',
      permission: 'analytics.read',
      domains: 'narrow',
      tag: 'Analytics',
      summary: 'Lists events, newest first.',
      query: z.strictObject({
        ...listing('evt'),
        type: z
          .string()
          .regex(/^[a-z]+\.[a-z]+$/, 'must be a type such as email.delivered')
          .optional()
          .describe('Only those of this type.'),
        domain: z.string().toLowerCase().optional().describe('Only those of this domain.'),
        form: z.string().optional().describe('Only those of this form’s submissions.'),
        from: since.optional().describe('Only those since this date or time.'),
        to: until.optional().describe('Only those until this date (that whole day) or time.'),
      }),
      answer: listOf('events', event),
      async handle({ principal, query: { limit, cursor, type, domain, form, from = 0, to } }) {
        if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
        const domains = domain === undefined ? principal.restrictions.domain_restrictions : [domain];
        const { events, count } = await pageOfEvents(
          { store, counts },
          {
            tenant: principal.tenant.id,
            type,
            domains,
            form,
            from,
            until: to ?? clock.now() + 1,
            before: cursor,
            limit,
          },
        );
        const { page, next_cursor } = pageOf(events, limit);
        return json({ events: page.map(shownEvent), count, next_cursor });
      },
    }),
  ];
}

function shownEvent({ id, type, created_at, domain, form, submission, message, data: json }: EventRow): object {
  const data: unknown = JSON.parse(json);
  return { id, type, created_at: isoTime(created_at), domain, form, submission, message, data };
}
