/** Mail that came in for the domains of an account, accepted or refused, with what was found of its sender. */
import { z } from 'zod';
import { mayTouch } from '../../accounts/principal.ts';
import * as contract from '../../contract/queue.ts';
import { readAuthResults } from '../../mail/auth-results.ts';
import { countInbound, inboundByIds, listInbound, ownedMessages } from '../../store/inbound-list.ts';
import { refuse } from '../answer.ts';
import { implement, success, type Route, type Services } from './route.ts';

const strings = z.array(z.string());

/** `/inbound` */
export function inboundRoutes({ store }: Services): Route[] {
  return implement(contract.inbound, {
    async list({ principal, query: { limit, cursor, domain, recipient, sender, to: until, ...asked } }) {
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const tenant = principal.tenant.id;
      const filter = {
        ...asked,
        tenant,
        domains: domain === undefined ? principal.restrictions.domain_restrictions : [domain],
        recipient: recipient?.toLowerCase(),
        sender: sender?.toLowerCase(),
        until,
      };
      const [{ rows, next }, { count, more }] = await Promise.all([
        listInbound(store, filter, { before: cursor, limit }),
        countInbound(store, filter),
      ]);
      const accepted = await inboundByIds(
        store,
        rows.flatMap(({ inbound: id }) => id ?? []),
      );
      const byId = new Map(accepted.map((row) => [row.id, { row, messages: strings.parse(JSON.parse(row.messages)) }]));
      const own = await ownedMessages(
        store,
        tenant,
        [...byId.values()].flatMap(({ messages }) => messages),
      );
      const inbound = rows.map((entry) => {
        const { row, messages = [] } = byId.get(entry.inbound ?? '') ?? {};
        return {
          ...entry,
          at: entry.created_at,
          tls: row?.tls,
          size: row?.size,
          authentication: row === undefined ? null : authenticationOf(row.verdicts),
          messages: messages.filter((id) => own.has(id)),
        };
      });
      return success({ inbound, count, count_is_more: more, next_cursor: next });
    },
  });
}

/** Mail that a program submits with its key is not judged. */
function authenticationOf(verdicts: string) {
  if (verdicts === '{}') return null;
  const { from, spf, dkim, dmarc, arc } = readAuthResults(verdicts);
  return { from, spf, dkim, dmarc, arc: arc.result };
}
