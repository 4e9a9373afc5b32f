/** What a report tells, as far as it can be known from its bytes. */
import type { BounceMeaning } from './bounce-class.ts';

export interface ReportedRecipient {
  /** Where it failed in the end; empty where it was not told. */
  readonly address: string;
  /** As the sender had named it; empty where it was not told. */
  readonly original: string;
  /** `failed`, `delayed`, `delivered`, `relayed`, `expanded` (RFC 3464 §2.3.3); empty where it was not told. */
  readonly action: string;
  /** `5.1.1` (RFC 3463), the most exact that was told; empty where none was. */
  readonly status: string;
  /** A server's words; empty where it was not told. */
  readonly diagnostic: string;
  /** Name of the server that said them; empty where it was not told. */
  readonly remote: string;
  /** What all of it means. */
  readonly meaning: BounceMeaning;
}

/** Before it is known what it means. */
export type ToldRecipient = Omit<ReportedRecipient, 'meaning'>;

export type Report =
  | { readonly kind: 'bounce'; readonly recipients: readonly ReportedRecipient[] }
  | {
      readonly kind: 'complaint';
      /** `abuse`, `fraud`, `not-spam`, … in lower case (RFC 5965 §3.1). */
      readonly feedback: string;
      /** Whose complaint it is, as far as it was told. */
      readonly recipients: readonly string[];
    }
  /** An automatic answer: somebody is out, or has read it. */
  | { readonly kind: 'automatic' }
  | { readonly kind: 'unknown' };
