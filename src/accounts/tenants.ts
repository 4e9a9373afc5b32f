/** The life of tenants: made by a sign-up or the operator, each with a first key, confirmed, changed, suspended. */
import { message } from '../languages/languages.ts';
import { canonicalMailbox } from '../lib/addresses.ts';
import { accountOf, newId } from '../lib/ids.ts';
import { findDeletion } from '../store/account-deletions.ts';
import { confirmRecipient, findMailbox, takeMailbox } from '../store/consents.ts';
import { recordEvent } from '../store/events.ts';
import { dropSessionsOf } from '../store/sessions.ts';
import {
  OPERATOR,
  changeTenant,
  confirmTenant,
  findTenant,
  insertTenant,
  type TenantChange,
} from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { TenantRow } from '../store/tables.ts';
import { refusal, type RefusalParts, type ConfirmKind } from './consent.ts';
import { FULL, makeKey } from './api-keys.ts';
import type { Principal } from './principal.ts';

export interface WantedAccount {
  readonly name: string;
  /** In its normal form. */
  readonly email: string;
  readonly plan: string;
  /** Whether its keys work at once: the operator makes it, and answers for it. */
  readonly confirmed: boolean;
  /** The key that asks for it; null: the operator or a sign-up. */
  readonly by: string | null;
}

export interface NewAccount {
  readonly tenant: TenantRow;
  /** Of a full key; known to nobody from here on but to whom it is shown. */
  readonly key: string;
  readonly unit: readonly Statement[];
}

/** A tenant with its first key; they are there once the unit is committed. */
export function makeAccount({ name, email, plan, confirmed, by }: WantedAccount, now: number): NewAccount {
  const tenant: TenantRow = {
    id: newId('ten', now),
    name,
    email,
    plan,
    requests_per_hour: null,
    messages_per_hour: null,
    messages_per_day: null,
    suspended: 0,
    trusted: confirmed ? 1 : 0,
    confirmed_at: confirmed ? now : null,
    created_at: now,
  };
  const { value, unit } = makeKey(
    {
      tenant: tenant.id,
      name: 'First key',
      environment: 'live',
      permissions: FULL,
      restrictions: {},
      created_by: by,
    },
    now,
  );
  const data = { name, email, plan, by };
  const told = recordEvent({ type: 'tenant.created', tenant: tenant.id, at: now, data });
  return { tenant, key: value, unit: [insertTenant(tenant), told, ...unit, ...(confirmed ? agreed(tenant, now) : [])] };
}

/** Changes a tenant and answers it as it is then; undefined where there is none. Whoever is suspended is signed out. */
export async function alterTenant(
  store: Store,
  change: TenantChange & { readonly id: string; readonly by: Principal },
  now: number,
): Promise<TenantRow | undefined> {
  const { id, by, ...wanted } = change;
  const statements = changeTenant(id, wanted);
  if (statements.length > 0) {
    const data = { ...wanted, by: by.key?.id ?? null };
    const ended = wanted.suspended === true ? [dropSessionsOf({ tenant: id })] : [];
    const unit = [...statements, ...ended, recordEvent({ type: 'tenant.changed', tenant: id, at: now, data })];
    if ((await writeIfMet(store, unit)) === undefined) return undefined;
  }
  return findTenant(store, id);
}

/** Whether the tenant is served: forms take nothing for one that is suspended, is being deleted, or was never confirmed. */
export async function isServed(store: Store, id: string): Promise<boolean> {
  const account = accountOf(id);
  if (account === OPERATOR) return true;
  const tenant = await findTenant(store, account);
  const isActive = tenant !== undefined && tenant.suspended === 0 && tenant.confirmed_at !== null;
  return isActive && (await findDeletion(store, account)) === undefined;
}

/** The statements that note that the account's own address is known to be its own; the first finds out whether it has none yet. */
function agreed({ id, email }: Pick<TenantRow, 'id' | 'email'>, at: number, expect?: 1): Statement[] {
  return [
    takeMailbox({ mailbox: canonicalMailbox(email), account: id }, expect),
    confirmRecipient({ tenant: id, address: email, at }),
  ];
}

/** The links of open sign-ups. A mailbox has one account. */
export function signupConfirmation(parts: RefusalParts): ConfirmKind {
  const { store, clock } = parts;
  return async ({ tenant: id }) => {
    const tenant = await findTenant(store, id);
    if (tenant === undefined) return undefined;
    const mailbox = await findMailbox(store, tenant.email);
    const other = mailbox !== undefined && mailbox.account !== null && mailbox.account !== id;
    const isRefused = mailbox !== undefined && mailbox.refused_at !== null;
    return {
      question: {
        heading: message('signup.question'),
        text: [message('signup.text', { address: tenant.email }), message('signup.before')],
        button: message('signup.button'),
      },
      done: other
        ? { heading: message('signup.other'), text: [message('signup.otherText', { address: tenant.email })] }
        : { heading: message('signup.done'), text: [message('signup.doneText')] },
      isDone: other || tenant.confirmed_at !== null,
      ...refusal({ address: tenant.email, isRefused }, parts),
      async confirm() {
        const at = clock.now();
        const told = recordEvent({ type: 'tenant.confirmed', tenant: id, at, data: { email: tenant.email } });
        // Unless it is confirmed already, by a click before this one, or the mailbox has another account.
        await writeIfMet(store, [...agreed(tenant, at, 1), confirmTenant({ id, at }, 1), told]);
      },
    };
  };
}
