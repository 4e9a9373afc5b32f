/** The first page of the console: today beside the same day of last week, what needs attention, and what a new account does first. */
import { accountIdOf, isOfServer, type Principal, readableTenants } from '../accounts/principal.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { analytics } from '../contract/analytics.ts';
import { type EventCounts, nameOf, noNumbers } from '../events/counts.ts';
import type { Clock } from '../lib/clock.ts';
import type { DestinationRow } from '../store/tables.ts';
import type { Store } from '../store/store.ts';
import {
  brokenDomains,
  failingDestinations,
  firstSteps,
  heldByOperator,
  oldestWaiting,
  overflowsOf,
  type TroubledDomain,
  troubledDomains,
  troubledWebhooks,
  unconfirmedOf,
} from '../store/overview.ts';
import type { DataOf } from './api/route.ts';

type Answer = DataOf<typeof analytics.overview>;
/** What somebody has to look at. */
export type Attention = Answer['attention'][number];

export interface OverviewParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly counts: Pick<EventCounts, 'of' | 'ofAll'>;
  readonly snapshot: () => Snapshot;
  /** What is wrong with the server itself. */
  readonly problems: () => Promise<readonly Attention[]>;
}

type Figures = Answer['today'];

/** Of the time at most one part in so many is spent counting. */
const REST = 20;
const MAX_RECENT_MS = 5000;
const WEEK_MS = 7 * 86_400_000;
const MAX_OF_KIND = 20;
const MAX_COUNTED = 1000;

/** Answers as a principal may see it; the day began at `from`, ms. */
export function createOverview(parts: OverviewParts): {
  show(principal: Principal, from: number): Promise<Answer>;
} {
  const { store, clock, counts, snapshot } = parts;
  /** By the beginning of the day. */
  const recent = new Map<number, { readonly figures: Promise<Figures>; until: number }>();

  /** Of the server they are kept for a while, the longer the more they cost: a busy hour is counted event by event until it is over. */
  function figures(principal: Principal, from: number, until: number): Promise<Figures> {
    if (!isOfServer(principal)) return counted(principal, from, until);
    const began = clock.monotonic();
    const known = recent.get(from);
    if (known !== undefined && known.until > began) return known.figures;
    for (const [key, { until: end }] of recent) if (end <= began) recent.delete(key);
    const kept = { figures: counted(principal, from, until), until: Infinity };
    recent.set(from, kept);
    kept.figures.then(
      () => {
        const now = clock.monotonic();
        kept.until = now + Math.min((now - began) * REST, MAX_RECENT_MS);
      },
      () => recent.delete(from),
    );
    return kept.figures;
  }

  async function counted(principal: Principal, from: number, until: number): Promise<Figures> {
    const numbers = noNumbers();
    const span = { from, until };
    const domains = principal.restrictions.domain_restrictions;
    const rows = isOfServer(principal) ? counts.ofAll(span) : counts.of(principal.tenant.id, span, { domains });
    for await (const some of rows) {
      for (const { type, count } of some) {
        const name = nameOf(type);
        if (name !== undefined) numbers[name] += count;
      }
    }
    return numbers;
  }

  /** What concerns the account alone; where the key has domains, only these. */
  async function ofAccount({ tenant, restrictions }: Principal): Promise<Attention[]> {
    const only = restrictions.domain_restrictions;
    const domains = (await troubledDomains(store, tenant.id, only === undefined ? MAX_OF_KIND : MAX_COUNTED)).filter(
      ({ name }) => only?.includes(name) !== false,
    );
    if (only !== undefined) return domains.map(domainAttention);
    const [webhooks, overflows, [unconfirmed]] = await Promise.all([
      troubledWebhooks(store, tenant.id, MAX_OF_KIND),
      overflowsOf(store, tenant.id, MAX_OF_KIND),
      unconfirmedOf(store, tenant.id, MAX_COUNTED),
    ]);
    return [
      ...domains.map(domainAttention),
      ...webhooks.map(({ id, url, status, reason, failing_since: since }) =>
        status === 'disabled'
          ? {
              kind: 'webhook_disabled' as const,
              subject: id,
              message: sentence(`The webhook ${url} is disabled: ${reason ?? ''}`),
              since,
            }
          : {
              kind: 'webhook_failing' as const,
              subject: id,
              message: `All deliveries to the webhook ${url} are failing.`,
              since,
            },
      ),
      ...overflows.map(({ form, name, count }) => ({
        kind: 'form_over_limit' as const,
        subject: form,
        message: `The form ${name} gets more submissions than its limit allows. ${count} were kept as spam in the last hour.`,
        since: null,
      })),
      ...(unconfirmed === undefined || unconfirmed.count === 0
        ? []
        : [
            {
              kind: 'recipients_unconfirmed' as const,
              subject: '',
              message: `${unconfirmed.count} ${unconfirmed.count === 1 ? 'recipient has' : 'recipients have'} not agreed to receive mail yet. Their mail waits.`,
              since: unconfirmed.since,
            },
          ]),
    ];
  }

  async function ofServer(principal: Principal): Promise<Attention[]> {
    const [problems, broken, failing, held, own] = await Promise.all([
      parts.problems(),
      brokenDomains(store, MAX_OF_KIND),
      failingDestinations(store, MAX_OF_KIND),
      heldByOperator(store, MAX_OF_KIND),
      ofAccount(principal),
    ]);
    const now = clock.now();
    const paused = failing.filter(({ paused_until: until }) => until !== null && until > now);
    const known = new Set(broken.map(({ name }) => name));
    return [
      ...problems.map((one) => ({ ...one, message: sentence(one.message) })),
      ...broken.map(domainAttention),
      ...paused.map(failingAttention),
      ...held.map(({ name }) => ({
        kind: 'destination_held' as const,
        subject: name,
        message: `Mail for ${name} is held until you release it.`,
        since: null,
      })),
      ...own.filter(({ subject }) => !known.has(subject)),
    ];
  }

  return {
    async show(principal, from) {
      const to = clock.now();
      const isServer = isOfServer(principal);
      const tenants = readableTenants(principal);
      const only = principal.restrictions.domain_restrictions;
      const [today, lastWeek, waiting, attention, steps] = await Promise.all([
        figures(principal, from, to),
        figures(principal, from - WEEK_MS, to - WEEK_MS),
        only === undefined ? oldestWaiting(store, isServer ? undefined : principal.tenant.id) : null,
        isServer ? ofServer(principal) : ofAccount(principal),
        firstSteps(store, tenants),
      ]);
      const { domains, collections } = snapshot();
      const account = accountIdOf(principal);
      return {
        scope: isServer ? 'server' : 'account',
        from,
        to,
        today,
        last_week: lastWeek,
        oldest_waiting_at: waiting,
        attention,
        first_steps: {
          has_domain: steps.domain,
          has_verified_domain: steps.verified,
          has_form:
            steps.form > 0 ||
            [...domains.values()].some(({ project, forms }) => project.tenant === account && forms.size > 0) ||
            [...collections.values()].some(({ tenant, forms }) => tenant === account && forms.size > 0),
          has_submission: steps.submission,
        },
      };
    },
  };
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
}

const DOMAIN_TEXTS = {
  pending: 'is not verified yet. Publish its DNS records.',
  degraded: 'has records that are missing or wrong. Correct them before its mail is held.',
  failed: 'has had broken records for too long. Its mail is held until they are corrected.',
} as const;

function domainAttention({ name, status, broken_at: since, created_at: at }: TroubledDomain): Attention {
  const state = status === 'verified' ? 'pending' : status;
  return { kind: `domain_${state}`, subject: name, message: `${name} ${DOMAIN_TEXTS[state]}`, since: since ?? at };
}

function failingAttention({ name, failures, last_error: error }: DestinationRow): Attention {
  const reason = error === null ? '' : `: ${error}`;
  return {
    kind: 'destination_failing',
    subject: name,
    message: sentence(
      failures === 1
        ? `The last connection to ${name} failed${reason}`
        : `The last ${failures} connections to ${name} failed${reason}`,
    ),
    since: null,
  };
}
