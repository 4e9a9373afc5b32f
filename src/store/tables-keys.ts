/** The rows of DKIM keys. As in tables.ts. */

/** A key pair of a domain, or of the server itself. */
export interface DkimKeyRow {
  domain: string;
  /** Whose mail it signs: two tenants that claim one domain have keys under different selectors. */
  tenant: string;
  selector: string;
  algorithm: 'rsa' | 'ed25519';
  /** The selector that was configured when it was made; its own may have a date behind that. */
  base: string;
  /** `next`: published before it signs. `active`: signs. `retiring`: has signed. `retired`: nobody needs its record. */
  state: 'next' | 'active' | 'retiring' | 'retired';
  /** PKCS#8 PEM; empty once retired. */
  private_key: string;
  /** Base64, as `p=` has it. */
  public_key: string;
  /** When it came into its state. */
  since: number;
  /** Of a retiring key: when its record may go, if no mail that it signed waits by then; else null. */
  keep_until: number | null;
  created_at: number;
}
