/**
 * What DNS says to a question, in the four ways that matter: records, "no such name", "the name is there, this type is
 * not", and "nobody could say". The last one never proves anything.
 */
export type Answer<T> =
  | {
      readonly kind: 'found';
      readonly records: readonly T[];
      /** There may be more: why not all could be asked. That something is not among these is not proven then. */
      readonly partial?: string;
    }
  | { readonly kind: 'nxdomain' }
  | { readonly kind: 'nodata' }
  | { readonly kind: 'failed'; readonly reason: string };

export type Failed = Extract<Answer<never>, { kind: 'failed' }>;

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
  /** IPv4 and IPv6 addresses. Found if one family is, partial if the other could not be asked; failed if neither is then. */
  addresses(name: string): Promise<Answer<string>>;
  /** Addresses of one family, or the names that a CNAME or PTR record points to. */
  lookup(name: string, type: LookupType): Promise<Answer<string>>;
  /** The same resolver, asking past its cache. */
  fresh(): Resolver;
}

/** Answers to several questions as one: all that was found, and whether there may be more. */
export function together<T>(answers: readonly Answer<T>[]): Answer<T> {
  const records = answers.flatMap(recordsOf);
  const silence = answers.map(silenceOf).find((reason) => reason !== undefined);
  if (records.length > 0) return { kind: 'found', records, ...(silence === undefined ? {} : { partial: silence }) };
  if (silence !== undefined) return { kind: 'failed', reason: silence };
  return { kind: answers.some(({ kind }) => kind === 'nodata') ? 'nodata' : 'nxdomain' };
}

/** What was found; nothing where nothing was. */
export function recordsOf<T>(answer: Answer<T>): readonly T[] {
  return answer.kind === 'found' ? answer.records : [];
}

/** Why this is not all that DNS has to say; undefined where it is. */
export function silenceOf(answer: Answer<unknown>): string | undefined {
  if (answer.kind === 'failed') return answer.reason;
  return answer.kind === 'found' ? answer.partial : undefined;
}
