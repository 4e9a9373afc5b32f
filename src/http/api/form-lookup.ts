/** The forms that somebody who asks may know of: those of the tenant, and within a key's domains. */
import { mayTouch, type Principal } from '../../access/principal.ts';
import type { Collection, Form, Snapshot } from '../../config/snapshot.ts';
import { collectionOfRow, findFormById } from '../../forms/find.ts';
import { collectionsOfTenant } from '../../store/collections.ts';
import type { Store } from '../../store/store.ts';
import { parseFormId } from '../../forms/form-id.ts';

export interface Asking {
  readonly principal: Principal;
  readonly snapshot: Snapshot;
  readonly store: Store;
}

/** The form with this id, as an address of the API has it. */
export async function knownForm(text: string, { principal, snapshot, store }: Asking): Promise<Form | undefined> {
  const id = parseFormId(text);
  const form = id && (await findFormById(id, snapshot, store));
  return form !== undefined && form.tenant === principal.tenant.id && maySee(principal, form) ? form : undefined;
}

/** A form that belongs to no domain is none of a key's business that is restricted to some. */
function maySee(principal: Principal, { kind, domain }: Pick<Form, 'kind' | 'domain'>): boolean {
  return mayTouch(principal, kind === 'domain' ? domain : undefined);
}

/** The tenant's collections, of configurations and by API, by name. */
export async function knownCollections({ principal, snapshot, store }: Asking): Promise<Collection[]> {
  const { id } = principal.tenant;
  const configured = [...snapshot.collections.values()].filter(({ tenant }) => tenant === id);
  const made = (await collectionsOfTenant(store, id)).filter(({ name }) => !snapshot.collections.has(name));
  const all = [...configured, ...made.map((row) => collectionOfRow(row, snapshot.server))];
  return all.sort((a, b) => compare(a.name, b.name));
}

/** The tenant's forms of domains and collections that the principal may see, by id. */
export async function placedForms(asking: Asking): Promise<Form[]> {
  const { principal, snapshot } = asking;
  const domains = [...snapshot.domains.values()].filter(({ project }) => project.tenant === principal.tenant.id);
  const places = [...domains, ...(await knownCollections(asking))];
  const forms = places.flatMap((place) => [...place.forms.values()]).filter((form) => maySee(principal, form));
  return forms.sort((a, b) => compare(a.id, b.id));
}

/** The order of characters, the same in every language. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
