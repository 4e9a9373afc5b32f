/** Instant forms: a name and an address are all that they need. They mail nobody until the recipient has agreed. */
import type { Consent } from '../../accounts/consent.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import { type Principal, readableTenants } from '../../accounts/principal.ts';
import * as contract from '../../contract/forms.ts';
import { formOfRow } from '../../forms/find.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import {
  counterOf,
  forgetForms,
  formCounters,
  noteForm,
  countForms,
  deleteForm,
  findForm,
  insertForm,
  listForms,
  updateForm,
} from '../../store/forms.ts';
import type { Store } from '../../store/store.ts';
import type { FormRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { type Exchange, overCap, overLimit } from '../context.ts';
import { type Refusal, refuse } from '../errors.ts';
import { shownInstantForm } from './form-answers.ts';
import { type Call, implement, pageOf, type Route } from './route.ts';

export interface InstantParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly consent: Consent;
  readonly objects: ObjectLimits;
}

/** `/instant/forms…` */
export function instantRoutes({ store, clock, consent, objects }: InstantParts): Route[] {
  async function answer(row: FormRow, exchange: Exchange) {
    const counters = await formCounters(store, [counterOf(row)]);
    const form = formOfRow(row, exchange.snapshot.server);
    const statuses = await consent.statuses({ tenant: row.tenant, addresses: form.to });
    return json(shownInstantForm({ form, exchange, counter: counters.get(counterOf(row)), statuses }));
  }

  async function find({ tenant }: Principal, id: string): Promise<FormRow | undefined> {
    const row = await findForm(store, id);
    return row?.kind === 'instant' && row.tenant === tenant.id ? row : undefined;
  }

  /** Asks the address, where it has to be; the refusal where it was asked too often. */
  async function ask({ principal, exchange }: Pick<Call, 'principal' | 'exchange'>, address: string) {
    if (principal.environment === 'test') return undefined;
    const asked = await consent.askAgain(principal.tenant.id, address);
    return asked.kind === 'capped' && !exchange.local ? overCap(asked.verdict, exchange) : undefined;
  }

  async function make(call: Call<unknown, { name: string; email: string }>) {
    const { principal, exchange, body } = call;
    const refusal = await ask(call, body.email);
    if (refusal !== undefined) return refusal;
    const now = clock.now();
    const row: FormRow = {
      id: newId('frm', now),
      tenant: principal.tenant.id,
      kind: 'instant',
      name: body.name,
      domain: null,
      config: configOf(body.email),
      created_at: now,
    };
    const made = await objects.within(row.tenant, { more: { forms: 1 } }, () =>
      store.write([insertForm(row), noteForm({ form: counterOf(row), at: now })]),
    );
    if ('kind' in made) return overLimit(made, exchange.snapshot.server);
    return answer(row, exchange);
  }

  /** Another address has to agree itself; naming one that has not agreed asks it once more. */
  async function change(row: FormRow, call: Call<unknown, { name?: string | undefined; email?: string | undefined }>) {
    const { exchange, body } = call;
    const refusal = body.email === undefined ? undefined : await ask(call, body.email);
    if (refusal !== undefined) return refusal;
    const config = body.email === undefined ? row.config : configOf(body.email);
    const after = { ...row, name: body.name ?? row.name, config };
    await store.write([updateForm(after)]);
    return answer(after, exchange);
  }

  return implement(contract.instantForms, {
    async list({ principal, exchange, query: { limit, cursor } }) {
      const filter = { tenants: readableTenants(principal), kind: 'instant' } as const;
      const rows = await listForms(store, { ...filter, before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit);
      const counters = await formCounters(store, page.map(counterOf));
      const found = page.map((row) => formOfRow(row, exchange.snapshot.server));
      const addresses = [...new Set(found.flatMap(({ to }) => to))];
      const statuses = await consent.statuses({ tenant: principal.tenant.id, addresses });
      const forms = found.map((form) =>
        shownInstantForm({ form, exchange, counter: counters.get(counterOf(form)), statuses }),
      );
      return json({ forms, count: await countForms(store, filter), next_cursor });
    },
    create: make,
    async show({ principal, exchange, params: { id } }) {
      const row = await find(principal, id);
      return row === undefined ? unknown(id) : answer(row, exchange);
    },
    async change(call) {
      const row = await find(call.principal, call.params.id);
      return row === undefined ? unknown(call.params.id) : change(row, call);
    },
    async remove({ principal, exchange, params: { id } }) {
      const row = await find(principal, id);
      if (row === undefined) return unknown(id);
      const shown = await answer(row, exchange);
      await store.write([deleteForm({ id }), forgetForms([counterOf(row)])]);
      return shown;
    },
  });
}

function configOf(address: string): string {
  return JSON.stringify({ to: address });
}

function unknown(id: string): Refusal {
  return refuse('FORM_NOT_FOUND', { message: `There is no instant form ${id.slice(0, 60)}.` });
}
