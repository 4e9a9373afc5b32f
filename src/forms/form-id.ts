/**
 * Ids of forms as addresses of the API name them. Those of domains and collections hold slashes, which a client may write as
 * they are or as `%2F`: `/forms/*form` takes both, and `/forms/*form/submissions` must stand before it in the table. Only
 * the second spelling tells a form that is called `submissions` from the submissions of something else.
 */
import { parseDomain } from '../lib/addresses.ts';

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
