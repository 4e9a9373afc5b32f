/** What happened to mail: who was accepted or refused over SMTP, the trace of one thing, and what would happen. */
import * as contract from '../../contract/queue.ts';
import { isoTime } from '../../lib/clock.ts';
import { countInboundLog, listInboundLog } from '../../store/inbound.ts';
import type { Store } from '../../store/store.ts';
import type { InboundLogRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { type BodyOf, implement, pageOf, type Route } from './route.ts';

export interface MailLogParts {
  readonly store: Store;
  /** Undefined where nothing is known of the id. */
  readonly trace: (id: string) => Promise<Traced | undefined>;
  /** Undefined for what is neither an address nor a form. */
  readonly explain: (what: string) => Promise<BodyOf<typeof contract.mailLog.explain> | undefined>;
}

type TraceBody = BodyOf<typeof contract.mailLog.trace>;

interface Traced extends Omit<TraceBody, 'timeline'> {
  /** Times in ms. */
  readonly timeline: readonly (Omit<TraceBody['timeline'][number], 'at'> & { readonly at: number })[];
}

/** `/admin/inbound`, `/admin/trace/{id}`, `/admin/explain` */
export function mailLogRoutes({ store, trace, explain }: MailLogParts): Route[] {
  return implement(contract.mailLog, {
    async inbound({ query: { limit, cursor, outcome, domain, reason, from, to } }) {
      const filter = { outcome, domain, reason, from, until: to };
      const rows = await listInboundLog(store, filter, { limit: limit + 1, before: cursor });
      const { page, next_cursor } = pageOf(rows, limit);
      return json({ inbound: page.map(shown), count: await countInboundLog(store, filter), next_cursor });
    },
    async trace({ params: { id } }) {
      const traced = await trace(id);
      if (traced === undefined) {
        return refuse('NOT_FOUND', {
          message: `Nothing is kept of ${id.slice(0, 200)}. A request that was refused, or caused nothing, is only in the log; what is older than the retention of events is gone.`,
        });
      }
      const timeline = traced.timeline.map(({ at, ...rest }) => ({ at: isoTime(at), ...rest }));
      return json({ ...traced, timeline });
    },
    async explain({ query: { what } }) {
      const explained = await explain(what.trim());
      if (explained !== undefined) return json(explained);
      return refuse('NOT_FOUND', {
        message: `${what} is neither an address nor a form of this server. Forms are named as \`GET /forms\` has them: example.com/contact, c/team/join, frm_….`,
      });
    },
  });
}

function shown({ created_at, ...row }: InboundLogRow) {
  const { id, tenant, domain, ip, helo, sender, recipient, outcome, reply, reason, inbound } = row;
  return {
    id,
    at: isoTime(created_at),
    tenant,
    domain,
    ip,
    helo,
    sender,
    recipient,
    outcome,
    reply,
    reason,
    inbound,
  };
}
