/**
 * What DNS says to a question, in the four ways that matter: records, "no such name", "the name is there, this type is
 * not", and "nobody could say". The last one never proves anything.
 */
export type Answer<T> =
  | { readonly kind: 'found'; readonly records: readonly T[] }
  | { readonly kind: 'nxdomain' }
  | { readonly kind: 'nodata' }
  | { readonly kind: 'failed'; readonly reason: string };

export interface MxRecord {
  readonly preference: number;
  /** Lower case, no trailing dot; empty for the null MX (RFC 7505). */
  readonly exchange: string;
}

export type LookupType = 'A' | 'AAAA' | 'CNAME' | 'PTR';

export interface Resolver {
  /** Each record as one string, its parts joined. */
  txt(name: string): Promise<Answer<string>>;
  mx(name: string): Promise<Answer<MxRecord>>;
  /** IPv4 and IPv6 addresses. Found if one family is; failed if neither is and one of them could not be asked. */
  addresses(name: string): Promise<Answer<string>>;
  /** Addresses of one family, or the names that a CNAME or PTR record points to. */
  lookup(name: string, type: LookupType): Promise<Answer<string>>;
  /** The same resolver, asking past its cache. */
  fresh(): Resolver;
}
