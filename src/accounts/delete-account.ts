/**
 * The deletion of an account. One unit ends what it may do: its API keys, projects, domains and webhooks. A job then waits until
 * what it has queued is delivered, or cancels it, and deletes all that the account has, 200 rows to a commit. Each step
 * may be repeated, so that a crash in the middle costs nothing: the next run begins where there is something left.
 */
import { stepByStep } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { testPartitionOf } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import {
  allDeletions,
  deleteRest,
  deleteStretch,
  endAccount,
  FIRST_STRETCH,
  forgetAccount,
  hasOpenDeliveries,
  insertDeletion,
} from '../store/account-deletions.ts';
import { recordEvent } from '../store/events.ts';
import { restOf, type Store, writeIfMet } from '../store/store.ts';
import type { AccountDeletionRow, TenantRow } from '../store/tables.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Principal } from './principal.ts';

export interface DeletionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/** Begins to delete an account; false where that was begun before. */
export async function beginDeletion(
  { id: tenant, name, email }: TenantRow,
  { queued, by }: Pick<AccountDeletionRow, 'queued'> & { readonly by: Pick<Principal, 'key'> },
  { store, clock }: Pick<DeletionParts, 'store' | 'clock'>,
): Promise<boolean> {
  const at = clock.now();
  const data = { tenant, name, email, queued, by: by.key?.id ?? null };
  const done = await writeIfMet(store, [
    insertDeletion({ tenant, queued, created_at: at }),
    ...endAccount(tenant, at),
    recordEvent({ type: 'tenant.deleting', tenant: OPERATOR, at, data }),
  ]);
  return done !== undefined;
}

/** Cancels what a tenant has queued, in small commits. */
export type CancelQueued = (tenant: string) => Promise<unknown>;

/** Answers the job that goes on with deletions that have begun. */
export function createDeletions({
  store,
  clock,
  log,
  cancelQueued,
}: DeletionParts & { readonly cancelQueued: CancelQueued }): () => Promise<void> {
  async function goOn({ tenant, queued }: AccountDeletionRow): Promise<void> {
    // A request that was in progress when it began may have made something.
    await store.write(endAccount(tenant, clock.now()));
    if (queued === 'cancel') for (const part of [tenant, testPartitionOf(tenant)]) await cancelQueued(part);
    if (await hasOpenDeliveries(store, tenant)) return;
    let at: typeof FIRST_STRETCH | undefined = FIRST_STRETCH;
    await stepByStep({ clock, rest: restOf(store) }, async () => {
      at = at && (await deleteStretch(store, tenant, at));
      return at !== undefined;
    });
    for (const statement of deleteRest(tenant)) await store.write([statement]);
    const event = recordEvent({ type: 'tenant.deleted', tenant: OPERATOR, at: clock.now(), data: { tenant } });
    if ((await writeIfMet(store, [...forgetAccount(tenant), event])) !== undefined)
      log.info('tenant.deleted', { tenant });
  }

  return async () => {
    for (const deletion of await allDeletions(store)) await goOn(deletion);
  };
}
