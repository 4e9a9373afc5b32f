/** Parts of mailauth that it does not export or describe itself, as far as they are used here. */

declare module 'mailauth/lib/dkim/dkim-verifier.js' {
  import type { ARCData, DKIMResult, DNSResolver } from 'mailauth';

  export class DkimVerifier {
    readonly headerFrom: string[];
    readonly fromFields: number;
    readonly results: DKIMResult[];
    readonly arc: ARCData;
    /** One for each way in which the body is hashed; none: the body makes no difference. */
    readonly bodyHashes: ReadonlyMap<string, unknown>;
    constructor(options: { resolver: DNSResolver; rejectRsaSha1: boolean });
    /** Takes the whole header block. */
    emitHeaders(header: Buffer): Promise<void>;
    /** Takes the body, piece by piece; its line ends are CRLF. */
    nextChunk(piece: Buffer): Promise<void>;
    finalChunk(): Promise<void>;
  }
}

declare module 'mailauth/lib/dmarc/verify.js' {
  import type { ARCResult, DKIMResult, DMARCResult, DNSResolver } from 'mailauth';

  export function evaluateDmarc(options: {
    headerFrom: string[];
    fromFields: number;
    spfDomains: string[];
    dkimDomains: (Pick<DKIMResult['status'], 'aligned' | 'underSized'> & { domain: string | undefined })[];
    arcResult: ARCResult;
    resolver: DNSResolver;
  }): Promise<{ response: DMARCResult | false; dkimAligned?: ReadonlySet<string> }>;
}

declare module 'mailauth/lib/mta-sts.js' {
  interface Policy {
    readonly mode: 'enforce' | 'testing' | 'none';
    readonly mx?: readonly string[];
    readonly maxAge?: number;
  }
  /** Throws where the text is no policy. */
  export function parsePolicy(file: string, options: { strict: boolean }): Policy;
}
