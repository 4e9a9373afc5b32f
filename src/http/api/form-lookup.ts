/** The forms that somebody who asks may know of: those of the tenant, and within a key's domains. */
import { mayTouch, readableTenants, type Principal } from '../../accounts/principal.ts';
import { claimKey, type Snapshot } from '../../config/snapshot.ts';
import type { Collection, Form } from '../../config/forms.ts';

import { environmentOf } from '../../lib/ids.ts';
import { collectionOfRow, findFormById, parseFormId } from '../../forms/find.ts';
import { collectionsOfTenant } from '../../store/collections.ts';
import { counterOf } from '../../store/form-counters.ts';
import type { Store } from '../../store/store.ts';

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
export async function placedForms(asking: Asking): Promise<Form[]> {
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
