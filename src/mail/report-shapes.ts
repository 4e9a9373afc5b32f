/** What a report says, as far as it can be read. */
import type { BounceMeaning } from './bounce-class.ts';

export interface ReportedRecipient {
  /** Where it failed in the end; empty where it is not given. */
  readonly address: string;
  /** As the sender had named it; empty where it is not given. */
  readonly original: string;
  /** `failed`, `delayed`, `delivered`, `relayed`, `expanded` (RFC 3464 §2.3.3); empty where it is not given. */
  readonly action: string;
  /** `5.1.1` (RFC 3463), the most exact that is given; empty where none is. */
  readonly status: string;
  /** A server's words; empty where it is not given. */
  readonly diagnostic: string;
  /** Name of the server that answered so; empty where it is not given. */
  readonly remote: string;
  /** The class of the failure, and whether the address is to be suppressed. */
  readonly meaning: BounceMeaning;
}

/** As it was read, before it is classified. */
export type ParsedRecipient = Omit<ReportedRecipient, 'meaning'>;

export type Report =
  | { readonly kind: 'bounce'; readonly recipients: readonly ReportedRecipient[] }
  | {
      readonly kind: 'complaint';
      /** `abuse`, `fraud`, `not-spam`, … in lower case (RFC 5965 §3.1). */
      readonly feedback: string;
      /** Whose complaint it is, where the report says so. */
      readonly recipients: readonly string[];
    }
  /** An automatic answer: somebody is out, or has read it. */
  | { readonly kind: 'automatic' }
  | { readonly kind: 'unknown' };
