/** What each tenant used of the server in a span of days: requests, submissions, mail. */
import { z } from 'zod';
import type { Usage } from '../../accounts/usage.ts';
import type { EventCounts } from '../../events/counts.ts';
import type { Span } from '../../store/analytics.ts';
import type { Store } from '../../store/store.ts';
import { messagesOfAll } from '../../store/message-counts.ts';
import { usageOfAll } from '../../store/usage.ts';
import { each, nameOf, type Numbers } from './series.ts';

export interface TenantUseParts {
  readonly store: Store;
  readonly counts: EventCounts;
  readonly usage: Pick<Usage, 'flush'>;
}

export interface Use extends Numbers {
  requests: number;
  errors: number;
  rate_limited: number;
  messages: number;
}

export const useShape = z.object({
  requests: z.int().describe('With a key.'),
  errors: z.int().describe('Answers of 400 and more but 429.'),
  rate_limited: z.int().describe('Answers of 429.'),
  messages: z
    .int()
    .describe(
      'Recipients that count against the plan, those that wait for room in it included; the operator’s own account has none.',
    ),
  ...each(z.int()),
});

/** Nothing used. */
export function noUse(): Use {
  return { requests: 0, errors: 0, rate_limited: 0, messages: 0, ...each(0) };
}

/** By tenant; those that used nothing are not there. The span is of whole UTC days. */
export async function useOfAll(
  { store, counts, usage }: TenantUseParts,
  span: Span,
): Promise<ReadonlyMap<string, Use>> {
  const uses = new Map<string, Use>();
  await usage.flush();
  for (const { tenant, ...requests } of await usageOfAll(store, span)) uses.set(tenant, { ...noUse(), ...requests });
  for (const { tenant, messages } of await messagesOfAll(store, span)) {
    uses.set(tenant, { ...(uses.get(tenant) ?? noUse()), messages });
  }
  for await (const rows of counts.ofAll(span)) {
    for (const { tenant, type, count } of rows) {
      const name = nameOf(type);
      if (name === undefined) continue;
      const use = uses.get(tenant) ?? noUse();
      use[name] += count;
      uses.set(tenant, use);
    }
  }
  return uses;
}

/** The sum of what they used. */
export function sumOf(uses: Iterable<Use>): Use {
  const sum = noUse();
  for (const use of uses) {
    sum.requests += use.requests;
    sum.errors += use.errors;
    sum.rate_limited += use.rate_limited;
    sum.messages += use.messages;
    sum.submissions += use.submissions;
    sum.spam += use.spam;
    sum.queued += use.queued;
    sum.delivered += use.delivered;
    sum.deferred += use.deferred;
    sum.bounced += use.bounced;
    sum.forwarded += use.forwarded;
    sum.rejected += use.rejected;
  }
  return sum;
}
