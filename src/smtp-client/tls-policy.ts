/**
 * What the recipients' domain demands of a session with one of its mail hosts, and whether the session keeps it: MTA-STS
 * (RFC 8461 §4) with a certificate that is the host's, from an authority that Node trusts.
 */
import type { X509Certificate } from 'node:crypto';
import { namesHost } from '../dns/mta-sts.ts';
import type { PolicyName, TlsResult } from '../queue/transport.ts';
import type { NextHop } from './route.ts';

export interface HostPolicy {
  readonly name: PolicyName;
  /** Whether mail waits rather than go to where it is not kept. */
  readonly isEnforced: boolean;
  /** What comes of it with these proofs; without TLS there are none. */
  readonly judge: (proof: Proof | undefined) => TlsResult;
}

/** What a server proves itself with. */
export interface Proof {
  readonly certificate: X509Certificate;
  /** Why Node does not trust it, as a code. */
  readonly distrust: string | null;
}

/** The policy that applies at a mail host; undefined where there is none. */
export function policyAt({ mtaSts }: Pick<NextHop, 'mtaSts'>, host: string): HostPolicy | undefined {
  if (mtaSts === undefined || mtaSts.mode === 'none') return undefined;
  return {
    name: `mta-sts ${mtaSts.mode}`,
    isEnforced: mtaSts.mode === 'enforce',
    judge(proof) {
      if (proof === undefined) return 'starttls-not-supported';
      return namesHost(mtaSts, host) ? certificateResult(host, proof) : 'validation-failure';
    },
  };
}

/** RFC 8461 §4.1: names in the subject do not count. */
function certificateResult(host: string, { certificate, distrust }: Proof): TlsResult {
  if (distrust === 'CERT_HAS_EXPIRED') return 'certificate-expired';
  if (distrust !== null && distrust !== 'ERR_TLS_CERT_ALTNAME_INVALID') return 'certificate-not-trusted';
  const found = certificate.checkHost(host, { subject: 'never', partialWildcards: false });
  return found === undefined ? 'certificate-host-mismatch' : 'success';
}

/** Why mail does not go there, for attempts and logs; `cause` is what was said where TLS broke. */
export function brokenPolicyText(
  { name }: HostPolicy,
  result: TlsResult,
  { host, cause }: { readonly host: string; readonly cause: string },
): string {
  // "Policy" would be read as the receiver's word on the message (mail/bounce-class.ts).
  const by = name === 'dane' ? 'DANE' : 'MTA-STS';
  return `the domain requires verified TLS (${by}), but ${problemText(result, host, cause)}`;
}

function problemText(result: TlsResult, host: string, cause: string): string {
  switch (result) {
    case 'starttls-not-supported':
      return `${host} does not offer STARTTLS`;
    case 'certificate-host-mismatch':
      return `the certificate of ${host} is for another name`;
    case 'certificate-expired':
      return `the certificate of ${host} has expired`;
    case 'certificate-not-trusted':
      return `the certificate of ${host} is not from a trusted authority (${cause})`;
    case 'validation-failure':
    case 'success':
      return `TLS with ${host} failed: ${cause}`;
  }
}
