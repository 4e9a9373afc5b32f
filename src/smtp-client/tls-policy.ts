/**
 * What the recipients' domain demands of a session with one of its mail hosts, and whether the session keeps it: DANE where the
 * host has it (RFC 7672), else MTA-STS (RFC 8461 §4) with a certificate that is the host's, from an authority that Node trusts.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { namesHost } from '../dns/mta-sts.ts';
import type { HostTlsa, TlsaRecord } from '../dns/tlsa.ts';
import type { PolicyName, TlsResult } from '../queue/transport.ts';
import type { NextHop } from './route.ts';
import type { Proof } from './wire.ts';

export interface HostPolicy {
  readonly name: PolicyName;
  /** Whether mail waits rather than go to where there is no TLS that works. */
  readonly isEnforced: boolean;
  /** The name to ask the server for a certificate of; default: the host's own. */
  readonly servername?: string;
  /** PEM of the only authorities to trust; default: the usual ones. */
  readonly trusted?: readonly string[];
  /** What comes of it with these proofs; without TLS there are none. */
  readonly judge: (proof: Proof | undefined) => TlsResult;
  /** Whether mail may go where this came of it. */
  readonly accepts: (result: TlsResult) => boolean;
  /** PEM of authorities to trust that are only known now: the session is to be opened again with them. */
  readonly unknownAnchors?: (proof: Proof) => readonly string[];
}

/** The policy that applies at a mail host; undefined where there is none. `anchors` are those that were unknown before. */
export function policyAt(
  { mtaSts, hosts, provenDomain }: Pick<NextHop, 'mtaSts' | 'hosts' | 'provenDomain'>,
  host: string,
  anchors: readonly string[] = [],
): HostPolicy | undefined {
  const tlsa = hosts.find(({ name }) => name === host)?.tlsa;
  if (tlsa !== undefined) {
    const names = [tlsa.base, host, ...(provenDomain === undefined ? [] : [provenDomain])];
    return danePolicy({ tlsa, names, anchors });
  }
  if (mtaSts === undefined || mtaSts.mode === 'none') return undefined;
  return {
    name: `mta-sts ${mtaSts.mode}`,
    isEnforced: mtaSts.mode === 'enforce',
    judge(proof) {
      if (proof === undefined) return 'starttls-not-supported';
      // RFC 8461 §4.1: names in the subject do not count.
      return namesHost(mtaSts, host) ? certificateResult([host], proof, 'never') : 'validation-failure';
    },
    accepts: (result) => result === 'success' || mtaSts.mode === 'testing',
  };
}

/** What a certificate of an authority proves; `subject`: whether a name in it counts where there is no other. */
function certificateResult(
  names: readonly string[],
  { certificate, distrust }: Proof,
  subject: 'default' | 'never',
): TlsResult {
  if (distrust === 'CERT_HAS_EXPIRED') return 'certificate-expired';
  if (distrust !== null && distrust !== 'ERR_TLS_CERT_ALTNAME_INVALID') return 'certificate-not-trusted';
  const isNamed = names.some((name) => certificate.checkHost(name, { subject, partialWildcards: false }) !== undefined);
  return isNamed ? 'success' : 'certificate-host-mismatch';
}

interface DaneHost {
  readonly tlsa: HostTlsa;
  /** For which names an authority's certificate may be (RFC 7672 §3.2.2). */
  readonly names: readonly string[];
  /** PEM of the authorities that the session trusts: those that records name, as far as they are known. */
  readonly anchors: readonly string[];
}

/**
 * What records demand of the host (RFC 7672 §3). Its own certificate only has to be the one that a record names: neither names
 * nor dates count. One of an authority that a record names is checked by OpenSSL, which gets that authority, out of what the
 * server sent, as the only one to trust: so it takes a second handshake.
 */
function danePolicy({ tlsa, names, anchors }: DaneHost): HostPolicy {
  const { base, records } = tlsa;
  const authorities = records.filter(({ usage }) => usage === 2);
  const published = authorities.flatMap(certificateIn);
  const trusted = [...published, ...anchors];

  function isNamed({ certificate }: Proof): boolean {
    return records.some((record) => record.usage === 3 && isMatch(record, certificate));
  }

  function judge(proof: Proof | undefined): TlsResult {
    if (proof === undefined) return 'starttls-not-supported';
    if (isNamed(proof)) return 'success';
    return trusted.length === 0 ? 'tlsa-invalid' : certificateResult(names, proof, 'default');
  }

  return {
    name: 'dane',
    isEnforced: true,
    servername: base,
    trusted,
    judge,
    // Records that nobody can use demand TLS alone.
    accepts: (result) => result === 'success' || (result === 'tlsa-invalid' && records.length === 0),
    unknownAnchors(proof) {
      if (authorities.length === 0 || isNamed(proof)) return [];
      const found = proof.chain().filter((each) => authorities.some((record) => isMatch(record, each)));
      const all = found.map(String);
      return all.every((pem) => trusted.includes(pem)) ? [] : all;
    },
  };
}

/** The authority itself, where the record holds all of it. */
function certificateIn({ selector, matching, data }: TlsaRecord): string[] {
  return selector === 0 && matching === 0 ? [String(new X509Certificate(data))] : [];
}

/** RFC 6698 §2.1 */
function isMatch({ selector, matching, data }: TlsaRecord, certificate: X509Certificate): boolean {
  const bytes = selector === 0 ? certificate.raw : publicKeyOf(certificate);
  if (bytes === undefined) return false;
  const digest = DIGESTS[matching];
  return data.equals(digest === undefined ? bytes : createHash(digest).update(bytes).digest());
}

const DIGESTS = [undefined, 'sha256', 'sha512'] as const;

/** Undefined where it is of a kind that Node does not know. */
function publicKeyOf(certificate: X509Certificate): Buffer | undefined {
  try {
    return certificate.publicKey.export({ type: 'spki', format: 'der' });
  } catch {
    return undefined;
  }
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
    case 'tlsa-invalid':
      return `the certificate of ${host} is not what its TLSA records say`;
    case 'dnssec-invalid':
    case 'validation-failure':
    case 'success':
      return `TLS with ${host} failed: ${cause}`;
  }
}
