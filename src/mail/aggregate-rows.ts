/** What an aggregate report of another mail system says, row by row: as it is read, and as it is kept. */

/** What the domain's policy asked of mail that is counted in a row. */
export const DISPOSITIONS = ['none', 'quarantine', 'reject'] as const;
/** `aligned`: it passed for the author's domain. `unaligned`: for another one. `none`: there was nothing to check. */
export const ALIGNMENTS = ['aligned', 'unaligned', 'failed', 'none'] as const;

export type Disposition = (typeof DISPOSITIONS)[number];
export type Alignment = (typeof ALIGNMENTS)[number];

/** Mail of one kind from one address. */
export interface DmarcRow {
  /** The author's domain: that of the report, or one below it. */
  readonly from: string;
  /** IP address; empty for all of the sources for which there was no room. */
  readonly source: string;
  readonly disposition: Disposition;
  readonly dkim: Alignment;
  readonly spf: Alignment;
  /** The domain of the signature; empty where there is none. */
  readonly dkim_domain: string;
  /** The domain that SPF was checked for; empty where there is none. */
  readonly spf_domain: string;
  readonly count: number;
}

/** Connections to a domain that ended in one way. */
export interface TlsRow {
  readonly domain: string;
  /** `tlsa`, `sts` or `no-policy-found`. */
  readonly policy: string;
  /** `success`, or the type of the failure (RFC 8460 §4.3). */
  readonly result: string;
  /** The mail server that was connected to; empty where the report does not say. */
  readonly mx: string;
  readonly count: number;
}

interface About {
  /** As its sender names it, unique for the sender. */
  readonly id: string;
  /** The time that it is about, ms. */
  readonly begin: number;
  readonly end: number;
}

export type AggregateReport =
  | ({ readonly kind: 'dmarc'; readonly domain: string; readonly rows: readonly DmarcRow[] } & About)
  | ({ readonly kind: 'tls'; readonly rows: readonly TlsRow[] } & About)
  | { readonly kind: 'unreadable'; readonly reason: string };

/** Why a report cannot be read, in words. */
export class ReportError extends Error {
  override readonly name = 'ReportError';
}
