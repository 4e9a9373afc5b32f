/** Webhook deliveries become deliveries of the queue: what a webhook is told of an event is a message of the kind `webhook`. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const KEPT_MS = 30 * 86_400_000;

const message = sql`'msg_' || substr(coalesce(d.event, d.id), 5)`;
const rows = sql`webhook_deliveries as d join webhooks as w on w.id = d.webhook`;

/** Adds `deliveries.webhook` and `deliveries.event`, and moves the rows of `webhook_deliveries`. */
export function webhookDeliveries(): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const statements = [
        sql`alter table deliveries add column webhook text references webhooks (id) on delete cascade`,
        sql`alter table deliveries add column event text`,
        sql`create unique index deliveries_unique on deliveries (webhook, event) where webhook is not null`,
        sql`create index deliveries_by_webhook_id on deliveries (webhook, id) where webhook is not null`,
        sql`create index messages_by_created_at on messages (created_at) where kind = 'webhook'`,
        sql`insert into messages (id, tenant, kind, domain, source, body, size, encoding, destinations, environment, created_at, expires_at)
          select ${message}, min(w.tenant), 'webhook', '', '{}', 'none', 0, '7bit', 1,
            case when min(w.tenant) like '%:test' then 'test' else 'live' end,
            min(d.created_at), min(d.created_at) + ${sql.lit(KEPT_MS)}
          from ${rows} group by ${message}`,
        sql`insert into deliveries (id, message, tenant, recipient, destination, state, attempts, next_attempt_at, last_reply,
            created_at, expires_at, settled_at, webhook, event)
          select d.id, ${message}, w.tenant, w.id, w.id,
            case d.state when 'delivered' then 'delivered' when 'failed' then 'bounced'
              else case d.attempts when 0 then 'queued' else 'deferred' end end,
            d.attempts, d.next_attempt_at, d.last_result,
            d.created_at, d.created_at + ${sql.lit(KEPT_MS)}, d.settled_at, w.id, d.event
          from ${rows}`,
        sql`insert into attempts (delivery, number, at, outcome, reply)
          select d.id, d.attempts, d.last_attempt_at,
            case d.state when 'delivered' then 'delivered' when 'failed' then 'bounced' else 'deferred' end, d.last_result
          from ${rows} where d.last_attempt_at is not null and d.last_result is not null`,
        sql`insert into destinations (name, next_due_at, failures, pauses, held, line)
          select w.id, min(d.next_attempt_at), 0, 0, 0, min(w.tenant)
          from ${rows} where d.state = 'pending' group by w.id`,
        sql`drop table webhook_deliveries`,
      ];
      for (const statement of statements) await statement.execute(db);
    },
  };
}
