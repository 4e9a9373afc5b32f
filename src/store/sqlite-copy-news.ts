/** What the thread that copies a database says to whoever began it. */
export type CopyNews =
  /** Bytes. */
  | { readonly kind: 'copying'; readonly done: number; readonly total: number }
  | { readonly kind: 'verifying' }
  | ({ readonly kind: 'verified' } & VerifiedCopy)
  | { readonly kind: 'failed'; readonly reason: string };

export interface VerifiedCopy {
  /** Bytes. */
  readonly size: number;
  /** Of the whole file, in hex. */
  readonly sha256: string;
  /** In all tables. */
  readonly rows: number;
}
