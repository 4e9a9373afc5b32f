/**
 * Addresses of domain forms: `/{domain}/{form}` and `/v1/{domain}/{form}`, and `/v1/{domain}/send`, which finds its form
 * by the body. A first segment that holds a dot is a domain, so that these never collide with the rest of the routes.
 */
export interface FormPath {
  /** As written, percent-decoded. */
  readonly domain: string;
  /** As written, percent-decoded; undefined for `send`. */
  readonly form: string | undefined;
}

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
  const domain = decode(path.slice(start, slash));
  const form = decode(path.slice(slash + 1, end));
  if (domain === undefined || form === undefined || form === '' || form.includes('/')) return undefined;
  if (!domain.includes('.') || domain === RESERVED || domain.includes('/')) return undefined;
  return { domain, form: versioned && form === 'send' ? undefined : form };
}

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
