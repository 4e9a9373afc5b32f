/** Forms: those of the configuration, to be read, and those that are made here, which belong to no domain. */
import { z } from 'zod';
import type { Consent } from '../../accounts/consent.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import { mayTouch, type Principal, readableTenants } from '../../accounts/principal.ts';
import type { BundleReader } from '../../config/bundle.ts';
import type { Collection, Form } from '../../config/forms.ts';
import * as is from '../../config/scalars.ts';
import { formSchema } from '../../config/schema-project.ts';
import { claimKey, type Snapshot } from '../../config/snapshot.ts';
import * as contract from '../../contract/forms.ts';
import { collectionOfRow, findFormById, formOfRow, parseFormId } from '../../forms/find.ts';
import type { Clock } from '../../lib/clock.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import {
  collectionsOfTenant,
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
import { json } from '../answer.ts';
import { type Exchange, overLimit } from '../context.ts';
import { type Refusal, refuse } from '../errors.ts';
import { formSettings, refuseForms, refuseRecipients, shownForm } from './form-answers.ts';
import { type Call, implement, type Route } from './route.ts';
import { mayTouchForm } from './submission-answers.ts';

export interface FormsParts {
  readonly consent: Consent;
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
  readonly reader: BundleReader;
}

const to = is.addresses.describe('Who gets the notifications: an address or a list of them.');
const { name, domain } = contract.newForm.shape;
const storedForm = formSettings.extend({ to });
const nullable = Object.fromEntries(Object.entries(formSettings.shape).map(([key, value]) => [key, value.nullable()]));
const changedForm = z.strictObject({ name: name.optional(), to: to.optional(), ...nullable });

/** The contract's routes, with the schemas of project files for the settings. */
const routes = {
  ...contract.forms,
  create: { ...contract.forms.create, body: formSettings.extend({ name, to, domain }) },
  change: { ...contract.forms.change, body: changedForm },
};

/** `/forms…` */
export function formsRoutes({ store, clock, consent, reader, objects }: FormsParts): Route[] {
  function asking({ principal, exchange }: Pick<Call, 'principal' | 'exchange'>): Asking {
    return { principal, snapshot: exchange.snapshot, store };
  }

  async function answer(form: Form, exchange: Exchange) {
    const counters = await formCounters(store, [counterOf(form)]);
    const statuses = await consent.statuses({ tenant: form.tenant, addresses: form.to });
    const shown = shownForm({ form, exchange, counter: counters.get(counterOf(form)), statuses });
    return json({ ...shown, settings: settingsOf(form) });
  }

  /** A form that was made here, or why it cannot be changed. */
  async function own(call: Pick<Call, 'principal' | 'exchange'>, id: string) {
    const form = await knownForm(id, asking(call));
    if (form === undefined || form.kind === 'instant') return unknown(id);
    const row = form.kind === 'api' ? await findForm(store, form.id) : undefined;
    return row ?? refuse('CONFLICT', { message: `${form.id} stands in ${placeOf(form)}: change it there.` });
  }

  return implement(routes, {
    async list(call) {
      const { limit, cursor, domain } = call.query;
      const { principal, exchange } = call;
      const placed = (await placedForms(asking(call))).filter(
        (form) => domain === undefined || (form.kind === 'domain' && form.domain === domain),
      );
      const { domain_restrictions: restricted } = principal.restrictions;
      const hidden = domain !== undefined && !mayTouch(principal, domain);
      const domains = hidden ? [] : domain === undefined ? restricted : [domain];
      const filter = { tenants: readableTenants(principal), kind: 'api', domains } as const;
      const behind = cursor !== undefined && cursor.startsWith('frm_') ? cursor : undefined;
      const forms =
        behind === undefined ? placed.filter((form) => cursor === undefined || counterOf(form) > cursor) : [];
      if (forms.length <= limit) {
        const rows = await listForms(store, { ...filter, before: behind, limit: limit + 1 - forms.length });
        forms.push(...rows.map((row) => formOfRow(row, exchange.snapshot.server)));
      }
      const page = forms.slice(0, limit);
      const [last] = page.slice(-1);
      const counters = await formCounters(store, page.map(counterOf));
      const addresses = [...new Set(page.flatMap(({ to: all }) => all))];
      const statuses = await consent.statuses({ tenant: principal.tenant.id, addresses });
      return json({
        forms: page.map((form) => shownForm({ form, exchange, counter: counters.get(counterOf(form)), statuses })),
        count: placed.length + (await countForms(store, filter)),
        next_cursor:
          forms.length > limit && last !== undefined ? (last.kind === 'api' ? last.id : counterOf(last)) : null,
      });
    },
    async create({ principal, exchange, body }) {
      const { name: called, domain = null, ...rest } = body;
      const place = refusePlace(principal, exchange.snapshot, domain);
      if (place !== undefined) return place;
      const config = z.encode(storedForm, rest);
      const settings = formSchema.parse(config);
      const refusal =
        refuseRecipients(body.to, exchange, 'to') ??
        (await refuseForms([{ path: [], form: settings }], principal.tenant.id, reader));
      if (refusal !== undefined) return refusal;
      const now = clock.now();
      const row = {
        id: newId('frm', now),
        tenant: principal.tenant.id,
        kind: 'api',
        name: called,
        domain,
        config: JSON.stringify(config),
        created_at: now,
      } as const;
      const made = await objects.within(row.tenant, { more: { forms: 1 } }, () =>
        store.write([insertForm(row), noteForm({ form: counterOf(row), at: now })]),
      );
      if ('kind' in made) return overLimit(made, exchange.snapshot.server);
      const form = formOfRow(row, exchange.snapshot.server);
      if (principal.environment === 'live') await consent.ask({ tenant: form.tenant, addresses: form.to });
      return answer(form, exchange);
    },
    async show(call) {
      const id = parseFormId(call.params.id)?.id;
      const form = await knownForm(call.params.id, asking(call));
      if (form !== undefined && form.kind !== 'instant') return answer(form, call.exchange);
      if (id !== undefined && !mayTouchForm(call.principal, id)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      return unknown(call.params.id);
    },
    async change(call) {
      const row = await own(call, call.params.id);
      if ('code' in row) return row;
      const { name: called = row.name, ...changes } = z.encode(changedForm, call.body);
      const before: Readonly<Record<string, unknown>> = z.record(z.string(), z.unknown()).parse(JSON.parse(row.config));
      const config = Object.fromEntries(
        Object.entries({ ...before, ...changes }).filter(([, value]) => value !== null),
      );
      const settings = formSchema.parse(config);
      const refusal =
        refuseRecipients(call.body.to, call.exchange, 'to') ??
        (await refuseForms([{ path: [], form: settings }], row.tenant, reader));
      if (refusal !== undefined) return refusal;
      const after = { ...row, name: called, config: JSON.stringify(config) };
      await store.write([updateForm(after)]);
      const form = formOfRow(after, call.exchange.snapshot.server);
      if (call.principal.environment === 'live') await consent.ask({ tenant: form.tenant, addresses: form.to });
      return answer(form, call.exchange);
    },
    async remove(call) {
      const row = await own(call, call.params.id);
      if ('code' in row) return row;
      const shown = await answer(formOfRow(row, call.exchange.snapshot.server), call.exchange);
      await store.write([deleteForm({ id: row.id }), forgetForms([counterOf(row)])]);
      return shown;
    },
  });
}

/** Why a form may not be put there: on a domain that is another's, or that the key is not for. */
function refusePlace(principal: Principal, { claims }: Snapshot, domain: string | null): Refusal | undefined {
  if (!mayTouch(principal, domain ?? undefined)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
  if (domain === null || readableTenants(principal).some((tenant) => claims.has(claimKey(tenant, domain)))) {
    return undefined;
  }
  const message = `There is no domain ${domain} in this account. Add it with POST /domains, or push a project that has it.`;
  return refuse('DOMAIN_NOT_FOUND', { message });
}

/** What the form says, as a project file would; what is left out there and what is shown beside it are not. */
function settingsOf({ config }: Form): Record<string, unknown> {
  const written: Record<string, unknown> = z.encode(formSchema, { ...config });
  const defaults: Record<string, unknown> = z.encode(formSchema, formSchema.parse({}));
  return Object.fromEntries(
    Object.entries(written).filter(
      ([key, value]) =>
        !['name', 'to', 'subject'].includes(key) && JSON.stringify(value) !== JSON.stringify(defaults[key]),
    ),
  );
}

function placeOf({ kind, project }: Form): string {
  if (project !== undefined) return `the configuration of the project ${project.slug}`;
  return kind === 'collection' ? 'a collection' : 'no configuration';
}

function unknown(id: string): Refusal {
  return refuse('FORM_NOT_FOUND', { message: `There is no form ${id.slice(0, 60)}.` });
}

// The forms that somebody who asks may know of: those of the tenant, and within a key's domains.

export interface Asking {
  readonly principal: Principal;
  readonly snapshot: Snapshot;
  readonly store: Store;
}

/** The form with this id, as an address of the API has it. */
export async function knownForm(text: string, { principal, snapshot, store }: Asking): Promise<Form | undefined> {
  const id = parseFormId(text);
  const { id: tenant } = principal.tenant;
  const inTest = id?.kind === 'domain' && environmentOf(tenant) === 'test';
  const form = inTest
    ? snapshot.claims.get(claimKey(tenant, id.domain))?.forms.get(id.key)
    : id && (await findFormById(id, snapshot, store));
  return form !== undefined && form.tenant === principal.tenant.id && maySee(principal, form) ? form : undefined;
}

/** A form that belongs to no domain is none of a key's business that is restricted to some. */
function maySee(principal: Principal, { audience }: Pick<Form, 'audience'>): boolean {
  return mayTouch(principal, audience.domain);
}

/** The collections that the principal may read, of configurations and by API, by name. */
export async function knownCollections({ principal, snapshot, store }: Asking): Promise<Collection[]> {
  const tenants = readableTenants(principal);
  const configured = [...snapshot.collections.values()].filter(({ tenant }) => tenants.includes(tenant));
  const rows = await Promise.all(tenants.map((tenant) => collectionsOfTenant(store, tenant)));
  const made = rows.flat().filter(({ name }) => !snapshot.collections.has(name));
  const all = [...configured, ...made.map((row) => collectionOfRow(row, snapshot.server))];
  return all.sort((a, b) => compare(a.name, b.name));
}

/** The forms of domains and collections that the principal may see, by id; a live one before a test one. */
async function placedForms(asking: Asking): Promise<Form[]> {
  const { principal, snapshot } = asking;
  const tenants = readableTenants(principal);
  const domains = [...snapshot.claims.values()].filter(
    (claim) =>
      tenants.includes(claim.project.tenant) &&
      (environmentOf(claim.project.tenant) === 'test' || snapshot.domains.get(claim.name) === claim),
  );
  const places = [...domains, ...(await knownCollections(asking))];
  const forms = places.flatMap((place) => [...place.forms.values()]).filter((form) => maySee(principal, form));
  return forms.sort((a, b) => compare(counterOf(a), counterOf(b)));
}

/** The order of characters, the same in every language. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
