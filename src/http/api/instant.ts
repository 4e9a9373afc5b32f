/** Instant forms: a name and an address are all that they need. They mail nobody until the recipient has agreed. */
import { z } from 'zod';
import type { Consent } from '../../accounts/consent.ts';
import { readableTenants, type Principal } from '../../accounts/principal.ts';
import { formOfRow } from '../../forms/find.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { counterOf, forgetForms, formCounters, noteForm } from '../../store/form-counters.ts';
import { countForms, deleteForm, findForm, insertForm, listForms, updateForm } from '../../store/forms.ts';
import type { Store } from '../../store/store.ts';
import type { FormRow } from '../../store/tables-accounts.ts';
import { json } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import { type Exchange, overCap, overLimit } from '../context.ts';
import { label, mailAddress } from './account-shapes.ts';
import { instantFormShape, shownInstantForm } from './form-shapes.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Call, type Outcome, type Route } from './route.ts';

export interface InstantParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly consent: Consent;
  readonly objects: ObjectLimits;
}

const name = label.describe('Display name; notifications come from it.');
const email = mailAddress.describe('Who gets the notifications.');

const READ = { permission: 'forms.read', domains: 'refuse', tag: 'Instant forms' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;

/** `/instant/forms…` */
export function instantRoutes({ store, clock, consent, objects }: InstantParts): Route[] {
  async function answer(row: FormRow, exchange: Exchange): Promise<Outcome> {
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

  async function make(call: Call<unknown, { name: string; email: string }>): Promise<Outcome> {
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
        const found = page.map((row) => formOfRow(row, exchange.snapshot.server));
        const addresses = [...new Set(found.flatMap(({ to }) => to))];
        const statuses = await consent.statuses({ tenant: principal.tenant.id, addresses });
        const forms = found.map((form) =>
          shownInstantForm({ form, exchange, counter: counters.get(counterOf(form)), statuses }),
        );
        return json({ forms, count: await countForms(store, filter), next_cursor });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/instant/forms',
      summary: 'Makes an instant form that is posted to at `/f/{id}`.',
      description:
        'Where the recipient has to agree first, a link is mailed to `email`; until it is confirmed notifications wait (`recipient_status`).',
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
        await store.write([deleteForm({ id }), forgetForms({ forms: JSON.stringify([counterOf(row)]) })]);
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
