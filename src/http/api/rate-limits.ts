/** What the limits leave to the key that asks. */
import { z } from 'zod';
import type { AccountLimits } from '../../accounts/plans.ts';
import type { MessageLimits } from '../../accounts/message-limits.ts';

import type { Verdict } from '../../accounts/sliding-window.ts';
import { isoTime } from '../../lib/clock.ts';
import { json } from '../answer.ts';
import { tighter } from '../context.ts';
import { defineRoute, type Route } from './route.ts';

export interface RateLimitsParts {
  readonly accounts: Pick<AccountLimits, 'look'>;
  readonly messages: MessageLimits;
}

const MINUTES = 60;

const window = z.object({
  limit: z.int(),
  remaining: z.int(),
  reset_time: z.iso.datetime().describe('When there is more room.'),
});

/** `/rate-limits` */
export function rateLimitsRoutes({ accounts, messages }: RateLimitsParts): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/rate-limits',
      permission: 'any',
      domains: 'free',
      tag: 'API keys',
      summary: 'Shows what the limits leave to the key that asks.',
      description:
        'Of the limits of the account, the key and (per minute) the address, the tightest; the headers of every answer show the tighter of the two. Asking counts as a request. Where nothing limits the hour, it is sixty times what the address may ask for in a minute. Messages are counted per recipient; what waits for the plan counts as used.',
      answer: z.object({
        rate_limits: z.object({
          requests_per_hour: window,
          requests_per_minute: window,
          messages_per_hour: window.nullable().describe('Of the account; null: no such limit.'),
          messages_per_day: window.nullable().describe('The same for 24 hours.'),
        }),
      }),
      async handle({ principal, exchange: { address } }) {
        const { hour = hourOf(address), minute } = await accounts.look(principal);
        const sent = await messages.look(principal.tenant);
        return json({
          rate_limits: {
            requests_per_hour: shown(hour),
            requests_per_minute: shown(minute === undefined ? address : tighter(address, minute)),
            messages_per_hour: sent.hour === undefined ? null : shown(sent.hour),
            messages_per_day: sent.day === undefined ? null : shown(sent.day),
          },
        });
      },
    }),
  ];
}

/** What an address may ask for in an hour: nothing but the minute limits it. */
function hourOf({ limit, remaining, ...verdict }: Verdict): Verdict {
  return { ...verdict, limit: limit * MINUTES, remaining: limit * (MINUTES - 1) + remaining };
}

function shown({ limit, remaining, reset }: Verdict): z.input<typeof window> {
  return { limit, remaining, reset_time: isoTime(reset * 1000) };
}
