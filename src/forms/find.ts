/** Which form an address names: those of the configuration are known at once, those that the API made are in the database. */
import { collectionOf, ownForm, type Collection, type Form, type Domain, type Snapshot } from '../config/snapshot.ts';
import { collectionSchema, formSchema, type ServerConfig } from '../config/schema.ts';
import { parseDomain } from '../lib/addresses.ts';
import { findCollectionRow, findForm, noteForms } from '../store/forms.ts';
import { accountOf, counterOf, claimId } from '../lib/ids.ts';
import type { Store } from '../store/store.ts';
import type { CollectionRow, FormRow } from '../store/tables.ts';
import type { Clock } from '../lib/clock.ts';

/**
 * The form of `POST /v1/{domain}/send`: the one that the field `form` names, else the domain's `default_form`, else its
 * form `send`, `default` or `contact`, else its only form. A field `form` that names none is a field like any other.
 */
export function findSendForm(domain: Domain, named: string | undefined): Form | undefined {
  for (const key of [named, domain.config.default_form, 'send', 'default', 'contact']) {
    const form = key === undefined ? undefined : domain.forms.get(key);
    if (form !== undefined) return form;
  }
  const [only, ...rest] = domain.forms.values();
  return rest.length === 0 ? only : undefined;
}

/** The form of the domain with this key, else the one that is called so. */
export function findNamedForm({ forms }: Domain, name: string): Form | undefined {
  return forms.get(name) ?? [...forms.values()].find((form) => form.name === name);
}

/** The form with this id, of whatever tenant. */
export async function findFormById(id: FormId, snapshot: Snapshot, store: Store): Promise<Form | undefined> {
  switch (id.kind) {
    case 'domain':
      return snapshot.domains.get(id.domain)?.forms.get(id.key);
    case 'collection':
      return (await findCollection(snapshot, store, id.collection))?.forms.get(id.key);
    case 'own':
      return findOwnForm(store, id.id, snapshot.server);
  }
}

/** The collection of this name: the configuration's goes before one that the API made. */
export async function findCollection(snapshot: Snapshot, store: Store, name: string): Promise<Collection | undefined> {
  return snapshot.collections.get(name) ?? (await findMadeCollection(store, name, snapshot.server));
}

/** The collection of this name that the API made. */
export async function findMadeCollection(
  store: Store,
  name: string,
  server: ServerConfig,
): Promise<Collection | undefined> {
  const row = await findCollectionRow(store, name);
  return row && collectionOfRow(row, server);
}

/** The tenant's form with this id as it is now, also of a domain that another tenant holds; undefined where there is none. */
export async function findFormOf(
  { tenant, id }: Pick<Form, 'tenant' | 'id'>,
  snapshot: Snapshot,
  store: Store,
): Promise<Form | undefined> {
  const [first = '', second, third] = id.split('/');
  const account = accountOf(tenant);
  if (second !== undefined && third === undefined) {
    const claim = snapshot.claims.get(claimId(tenant, first)) ?? snapshot.claims.get(claimId(account, first));
    const form = claim?.forms.get(second);
    return form && withTenant(form, tenant);
  }
  const form =
    second === undefined || third === undefined
      ? await findOwnForm(store, id, snapshot.server)
      : (await findCollection(snapshot, store, second))?.forms.get(third);
  // A test key may have posted to a live form.
  return form?.tenant === tenant || form?.tenant === account ? withTenant(form, tenant) : undefined;
}

/** The form as a submission of this tenant has it: what a test key posts to a live form belongs to the test partition. */
export function withTenant(form: Form, tenant: string): Form {
  return form.tenant === tenant ? form : { ...form, tenant };
}

/** A form by its id `frm_…`, or undefined. */
export async function findOwnForm(store: Store, id: string, server: ServerConfig): Promise<Form | undefined> {
  const row = await findForm(store, id);
  return row && formOfRow(row, server);
}

/** The collection that the row says. */
export function collectionOfRow({ name, tenant, config }: CollectionRow, server: ServerConfig): Collection {
  return collectionOf({ name, tenant, project: undefined, config: collectionSchema.parse(JSON.parse(config)), server });
}

/** The form that the row says. */
export function formOfRow({ id, tenant, kind, name, domain: on, config }: FormRow, server: ServerConfig): Form {
  const form = formSchema.parse(JSON.parse(config));
  return ownForm({ id, tenant, kind, name, on, config: form }, server);
}

/**
 * The id of a form in the API. Those of domains and collections hold slashes, written as they are or as `%2F`; only the
 * second spelling tells a form that is called `submissions` from `/forms/*form/submissions`.
 */
export type FormId =
  /** `<domain>/<key>` */
  | { readonly kind: 'domain'; readonly id: string; readonly domain: string; readonly key: string }
  /** `c/<collection>/<key>` */
  | { readonly kind: 'collection'; readonly id: string; readonly collection: string; readonly key: string }
  /** `frm_…`: instant forms and those that the API made. */
  | { readonly kind: 'own'; readonly id: string };

const OWN = /^frm_[0-9a-z]{26}$/;

/** The form's id in its one spelling (`id`), taken apart; undefined for what can be none. */
export function parseFormId(text: string): FormId | undefined {
  if (OWN.test(text)) return { kind: 'own', id: text };
  const [first = '', second = '', third, ...more] = text.split('/');
  if (second === '' || more.length > 0) return undefined;
  if (third !== undefined) {
    if (first !== 'c' || third === '') return undefined;
    return { kind: 'collection', id: text, collection: second, key: third };
  }
  const domain = parseDomain(first);
  return domain === undefined ? undefined : { kind: 'domain', id: `${domain}/${second}`, domain, key: second };
}

/** Begins to count the forms that are new in the configuration. */
export async function adoptForms(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  { domains, collections }: Snapshot,
): Promise<void> {
  const places = [...domains.values(), ...collections.values()];
  const counted = places.flatMap(({ forms }) => [...forms.values()].map(counterOf));
  await noteForms(store, counted, clock.now());
}
