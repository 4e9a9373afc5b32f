/** The members of a cluster: each thread of a daemon that has work of its own has a row, in which it counts while it lives. */
import { sql } from 'kysely';
import { unsettled } from './messages.ts';
import { query, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { MemberRow } from './tables.ts';

/** The statement by which a member says that it lives; it joins with the first, or where it was taken for dead. */
export const beat = query<Omit<MemberRow, 'beat'>>(
  (value) => sql`insert into members (id, machine, roles, beat)
    values (${value('id')}, ${value('machine')}, ${value('roles')}, 1)
    on conflict (id) do update set beat = members.beat + 1`,
);

/** The statement that removes a member. */
export const removeMember = query<{ id: string }>((value) => sql`delete from members where id = ${value('id')}`);

/** The statement that ends the leases of an owner that is dead, so that they can be taken back. */
export const endLeases = query<{ owner: string }>(
  (value) => sql`update deliveries set lease_until = 0
    where state = 'sending' and ${unsettled} and lease_owner = ${value('owner')}`,
);

const all = reader(() => sql<MemberRow>`select id, machine, roles, beat from members order by id`);

/** All members, the dead ones included. */
export function listMembers(store: Store): Promise<MemberRow[]> {
  return all(store);
}
