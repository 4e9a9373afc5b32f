/** MTA-STS policies of the domains to which mail is sent, kept for their `max_age` (RFC 8461 §5). */
import { sql } from 'kysely';
import { finder, insertInto, query, reader, update } from './statement.ts';
import type { Tables } from './tables.ts';

export type MtaStsPolicyRow = Tables['mta_sts_policies'];

/** The policy of a domain, also one that has expired. */
export const findMtaStsPolicy = finder('mta_sts_policies', 'domain');

/** The statement that keeps the policy in place of the one before. */
export const saveMtaStsPolicy = insertInto(
  'mta_sts_policies',
  sql`on conflict (domain) do update set id = excluded.id, mode = excluded.mode, mx = excluded.mx,
    max_age = excluded.max_age, expires_at = excluded.expires_at, refresh_at = excluded.refresh_at`,
);

/** The statement that notes that mail is sent there. */
export const noteMtaStsUse = update('mta_sts_policies', ['used_at'], ['domain']);

/** The statement that puts the next refresh off. */
export const deferMtaStsRefresh = update('mta_sts_policies', ['refresh_at'], ['domain']);

/** Policies to fetch again, of domains to which mail was sent since `usedSince`; longest due first. */
export const mtaStsPoliciesToRefresh = reader(
  (now: number, usedSince: number, limit: number) => sql<MtaStsPolicyRow>`select * from mta_sts_policies
    where refresh_at <= ${now} and expires_at > ${now} and used_at > ${usedSince} order by refresh_at limit ${limit}`,
);

/** The statement that forgets policies that have expired, and of more than `max` those not used for longest. */
export const forgetMtaStsPolicies = query<{ now: number; max: number }>(
  (value) => sql`delete from mta_sts_policies where expires_at <= ${value('now')} or domain in
    (select domain from mta_sts_policies order by used_at desc, domain limit 10000 offset ${value('max')})`,
);
