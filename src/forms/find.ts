/** Which form an address names. */
import type { Domain, Form, Snapshot } from '../config/snapshot.ts';
import { parseDomain } from '../lib/addresses.ts';

/** The domain of this name, in whatever case or script it is written. */
export function findDomain(snapshot: Snapshot, name: string): Domain | undefined {
  return snapshot.domains.get(name) ?? snapshot.domains.get(parseDomain(name) ?? '');
}

/**
 * The form of `POST /v1/{domain}/send`: the one that the field `form` names, else the domain's `default_form`, else its
 * form `send`, `default` or `contact`, else its only form. A field `form` that names none is a field like any other.
 */
export function findSendForm(domain: Domain, named: string | undefined): Form | undefined {
  for (const key of [named, domain.config.default_form, 'send', 'default', 'contact']) {
    const form = key === undefined ? undefined : domain.forms.get(key);
    if (form !== undefined) return form;
  }
  const [only, ...others] = domain.forms.values();
  return others.length === 0 ? only : undefined;
}
