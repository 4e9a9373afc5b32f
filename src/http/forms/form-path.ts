/** The path of a form. */
import { parseFormId } from '../../forms/find.ts';

// * Addresses of forms: `/{domain}/{form}` and `/v1/{domain}/{form}`, `/v1/{domain}/send`, which finds its form by the body,
// `/c/{collection}/{form}`, `/f/{id}` and `/submit/{form}`. A first segment that holds a dot is a domain, so that these never
// collide with the rest of the routes.

/** What an address says, percent-decoded and otherwise as written. */
export type FormPath =
  /** `form` is undefined for `send`. */
  | { readonly kind: 'domain'; readonly domain: string; readonly form: string | undefined }
  | { readonly kind: 'collection'; readonly collection: string; readonly form: string }
  /** `frm_…`, or what is no id at all. */
  | { readonly kind: 'own'; readonly id: string }
  /** The name of a form of the domain whose page asks. */
  | { readonly kind: 'named'; readonly name: string };

const VERSION = '/v1/';

/** Has a dot and is no domain (RFC 8615). */
const RESERVED = '.well-known';

/** The form's address that a path is, or undefined for every other path. One slash at the end is forgiven. */
export function parseFormPath(path: string): FormPath | undefined {
  const versioned = path.startsWith(VERSION);
  const start = versioned ? VERSION.length : 1;
  const slash = path.indexOf('/', start);
  if (slash === -1) return undefined;
  const end = path.endsWith('/') ? path.length - 1 : path.length;
  const first = decode(path.slice(start, slash));
  const rest = decode(path.slice(slash + 1, end));
  if (first === undefined || rest === undefined || rest === '') return undefined;
  if (!first.includes('.')) return versioned ? undefined : withoutDomain(first, rest);
  if (first === RESERVED || first.includes('/') || rest.includes('/')) return undefined;
  return { kind: 'domain', domain: first, form: versioned && rest === 'send' ? undefined : rest };
}

function withoutDomain(first: string, rest: string): FormPath | undefined {
  switch (first) {
    case 'c': {
      const [collection = '', form = '', ...more] = rest.split('/');
      return collection === '' || form === '' || more.length > 0 ? undefined : { kind: 'collection', collection, form };
    }
    case 'f':
      return byId(rest) ?? { kind: 'own', id: rest };
    case 'submit':
      return byId(rest) ?? { kind: 'named', name: rest };
    default:
      return undefined;
  }
}

/** Whoever knows a form's id may use it, whatever kind of form it is: `/f/example.com/contact`. */
function byId(text: string): FormPath | undefined {
  const parsed = parseFormId(text);
  switch (parsed?.kind) {
    case undefined:
      return undefined;
    case 'own':
      return { kind: 'own', id: parsed.id };
    case 'domain':
      return { kind: 'domain', domain: parsed.domain, form: parsed.key };
    case 'collection':
      return { kind: 'collection', collection: parsed.collection, form: parsed.key };
  }
}

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
