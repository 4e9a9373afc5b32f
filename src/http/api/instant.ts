/** Instant forms: a name and an address are all that they need. They mail nobody until the recipient has agreed. */
import { z } from 'zod';
import type { Limit, Limits, Verdict } from '../../access/limits.ts';
import { readableTenants, type Principal } from '../../access/principal.ts';
import { askToConfirm, MOST_MAILED } from '../../forms/confirm.ts';
import { formOfRow } from '../../forms/find.ts';
import { parseAddress } from '../../lib/addresses.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { findDomain } from '../../store/domains.ts';
import { counterOf, forgetForms, formCounters, noteForm } from '../../store/form-counters.ts';
import { countForms, deleteForm, findForm, insertForm, listForms, updateForm } from '../../store/forms.ts';
import { OPERATOR } from '../../store/revisions.ts';
import type { Store } from '../../store/store.ts';
import type { FormRow } from '../../store/tables-accounts.ts';
import { forgetTokensOf } from '../../store/tokens.ts';
import { json } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import { tighter, type Exchange } from '../exchange.ts';
import { rateLimited } from '../rate.ts';
import { label, mailAddress, mailboxOf } from './account-shapes.ts';
import { instantFormShape, shownInstantForm } from './form-shapes.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Call, type Outcome, type Route } from './route.ts';

export interface InstantParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly limits: Pick<Limits, 'take'>;
  /** Tells the queue that there may be something to do. */
  readonly wake: () => void;
}

const DAY = 86_400_000;
const PER_TENANT: Limit = { count: 50, windowMs: DAY };
const PER_MAILBOX: Limit = { count: 3, windowMs: DAY };

const name = label.describe('Display name; notifications come from it.');
const email = mailAddress.describe('Who gets the notifications.');

const READ = { permission: 'forms.read', domains: 'refuse', tag: 'Instant forms' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;

/** `/instant/forms…` */
export function instantRoutes({ store, clock, limits, wake }: InstantParts): Route[] {
  async function answer(row: FormRow, exchange: Exchange): Promise<Outcome> {
    const counters = await formCounters(store, [counterOf(row)]);
    const form = formOfRow(row, exchange.snapshot.server);
    return json(shownInstantForm({ form, exchange, counter: counters.get(counterOf(row)) }));
  }

  async function find({ tenant }: Principal, id: string): Promise<FormRow | undefined> {
    const row = await findForm(store, id);
    return row?.kind === 'instant' && row.tenant === tenant.id ? row : undefined;
  }

  /** Whether the tenant may have mail sent there without asking. */
  async function isItsOwn({ tenant, environment }: Principal, address: string): Promise<boolean> {
    // Nothing leaves.
    if (environment === 'test') return true;
    if (tenant.id === OPERATOR) return true;
    const domain = await findDomain(store, tenant.id, parseAddress(address)?.domain ?? '');
    return domain?.status === 'verified' || domain?.status === 'degraded';
  }

  /** Counts a link that is to be mailed; the first cap that has no room, if any. */
  async function capped({ principal, exchange }: Pick<Call, 'principal' | 'exchange'>, address: string) {
    const caps = [
      [`form-link:tenant:${principal.tenant.id}`, PER_TENANT],
      [`form-link:mailbox:${mailboxOf(address)}`, PER_MAILBOX],
    ] as const;
    for (const [bucket, limit] of caps) {
      const verdict: Verdict = await limits.take(bucket, limit);
      exchange.limit = tighter(exchange.limit, verdict);
      if (!verdict.allowed && !exchange.local) return rateLimited(verdict, exchange.at);
    }
    return undefined;
  }

  /** When the recipient counts as having agreed, and what asks for it where that is needed. */
  async function agreement(call: Pick<Call, 'principal' | 'exchange'>, address: string) {
    if (await isItsOwn(call.principal, address)) return { confirmed_at: clock.now(), refusal: undefined };
    return { confirmed_at: null, refusal: await capped(call, address) };
  }

  async function make(call: Call<unknown, { name: string; email: string }>): Promise<Outcome> {
    const { principal, exchange, body } = call;
    const { confirmed_at, refusal } = await agreement(call, body.email);
    if (refusal !== undefined) return refusal;
    const now = clock.now();
    const row: FormRow = {
      id: newId('frm', now),
      tenant: principal.tenant.id,
      kind: 'instant',
      name: body.name,
      domain: null,
      config: configOf(body.email),
      confirmed_at,
      created_at: now,
    };
    const { server } = exchange.snapshot;
    const asks = confirmed_at === null ? askToConfirm(row, server, now) : [];
    await store.write([insertForm(row), noteForm({ form: counterOf(row), at: now }), ...asks]);
    wake();
    return answer(row, exchange);
  }

  /** Another address has to agree itself; naming the same one again asks it once more. */
  async function change(row: FormRow, call: Call<unknown, { name?: string | undefined; email?: string | undefined }>) {
    const { exchange, body } = call;
    const called = body.name ?? row.name;
    const isSame = body.email === undefined || (row.confirmed_at !== null && row.config === configOf(body.email));
    if (isSame || body.email === undefined) {
      const after = { ...row, name: called };
      await store.write([updateForm(after)]);
      return answer(after, exchange);
    }
    const { confirmed_at, refusal } = await agreement(call, body.email);
    if (refusal !== undefined) return refusal;
    const now = clock.now();
    const after = { ...row, name: called, config: configOf(body.email), confirmed_at };
    const asks = confirmed_at === null ? askToConfirm(after, exchange.snapshot.server, now) : [];
    await store.write([forgetTokensOf({ kind: 'form', subject: row.id }), updateForm(after), ...asks]);
    wake();
    return answer(after, exchange);
  }

  return [
    defineRoute({
      ...READ,
      readsLive: true,
      method: 'GET',
      path: '/instant/forms',
      summary: 'Lists the instant forms, newest first.',
      query: z.strictObject(listing('frm')),
      answer: listOf('forms', instantFormShape),
      async handle({ principal, exchange, query: { limit, cursor } }) {
        const filter = { tenants: readableTenants(principal), kind: 'instant' } as const;
        const rows = await listForms(store, { ...filter, before: cursor, limit: limit + 1 });
        const { page, next_cursor } = pageOf(rows, limit);
        const counters = await formCounters(store, page.map(counterOf));
        const forms = page.map((row) =>
          shownInstantForm({
            form: formOfRow(row, exchange.snapshot.server),
            exchange,
            counter: counters.get(counterOf(row)),
          }),
        );
        return json({ forms, count: await countForms(store, filter), next_cursor });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/instant/forms',
      summary: 'Makes an instant form that is posted to at `/f/{id}`.',
      description: `A link is mailed to \`email\`; until it is confirmed submissions are kept and mail nobody. Then the first ${MOST_MAILED} of them are mailed, oldest first, and the others stay to be read. No link is needed where the address is at a verified domain of the account.`,
      body: z.strictObject({ name, email }),
      answer: instantFormShape,
      handle: make,
    }),
    defineRoute({
      ...READ,
      readsLive: true,
      method: 'GET',
      path: '/instant/forms/:id',
      summary: 'Shows an instant form.',
      answer: instantFormShape,
      async handle({ principal, exchange, params: { id } }) {
        const row = await find(principal, id);
        return row === undefined ? unknown(id) : answer(row, exchange);
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'PATCH',
      path: '/instant/forms/:id',
      summary: 'Changes the name of an instant form, or its recipient, who then has to agree.',
      description: 'Naming an address that has not agreed yet mails it a new link; older links end.',
      body: z.strictObject({ name: name.optional(), email: email.optional() }),
      answer: instantFormShape,
      async handle(call) {
        const row = await find(call.principal, call.params.id);
        return row === undefined ? unknown(call.params.id) : change(row, call);
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'DELETE',
      path: '/instant/forms/:id',
      summary: 'Ends an instant form, from the next submission on, and shows it.',
      description: 'What it received stays as long as it is kept; mail that waits is still sent.',
      answer: instantFormShape,
      async handle({ principal, exchange, params: { id } }) {
        const row = await find(principal, id);
        if (row === undefined) return unknown(id);
        const shown = await answer(row, exchange);
        const ends = [forgetTokensOf({ kind: 'form', subject: id }), deleteForm({ id })];
        await store.write([...ends, forgetForms({ forms: JSON.stringify([counterOf(row)]) })]);
        return shown;
      },
    }),
  ];
}

function configOf(address: string): string {
  return JSON.stringify({ to: address });
}

function unknown(id: string): Refusal {
  return refuse('FORM_NOT_FOUND', { message: `There is no instant form ${id.slice(0, 60)}.` });
}
