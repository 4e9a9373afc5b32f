/**
 * What X.509 the product writes itself: self-signed certificates, each with a key of its own, and the requests and proofs of
 * ACME. node:crypto signs but writes no X.509, so the few DER structures of RFC 5280 §4.1 and RFC 2986 §4 are put together here.
 */
import { createPublicKey, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';

const OID = {
  ecdsaWithSha256: '06082a8648ce3d040302',
  commonName: '0603550403',
  subjectAltName: '0603551d11',
  extensionRequest: '06092a864886f70d01090e',
  acmeIdentifier: '06082b0601050507011f',
} as const;

/** PEM of a P-256 key and of a certificate for these host names, valid for a year around `now` (milliseconds). */
export function selfSignedCertificate(names: readonly string[], now: number): { key: string; cert: string } {
  return selfSigned(names, now, []);
}

/** The certificate that proves control of a name to an ACME server which connects by TLS (RFC 8737 §3). */
export function challengeCertificate(name: string, proof: Buffer, now: number): { key: string; cert: string } {
  const critical = Buffer.of(0x01, 0x01, 0xff);
  return selfSigned([name], now, [sequence(oid('acmeIdentifier'), critical, der(0x04, der(0x04, proof)))]);
}

/** The DER of a request for a certificate for this host name (RFC 2986 §4). */
export function certificateRequest(name: string, key: KeyObject): Buffer {
  const attribute = sequence(oid('extensionRequest'), der(0x31, sequence(altNames([name]))));
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return signed(sequence(der(0x02, Buffer.of(0)), sequence(), publicKey, der(0xa0, attribute)), key);
}

const DAY = 86_400_000;

function selfSigned(
  names: readonly string[],
  now: number,
  extensions: readonly Buffer[],
): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const issuer = { name: names[0] ?? 'localhost', key: privateKey };
  const cert = issueCertificate(names, { publicKey, issuer, from: now - DAY, until: now + 364 * DAY, extensions });
  return { key, cert };
}

export interface Issue {
  /** Of the subject. */
  readonly publicKey: KeyObject;
  readonly issuer: { readonly name: string; readonly key: KeyObject };
  /** Milliseconds. */
  readonly from: number;
  readonly until: number;
  readonly extensions?: readonly Buffer[];
}

/** PEM of a certificate for these host names, signed with the issuer's P-256 key. */
export function issueCertificate(
  names: readonly string[],
  { publicKey, issuer, from, until, extensions = [] }: Issue,
): string {
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))), // version 3
    der(0x02, Buffer.concat([Buffer.of(1), randomBytes(15)])), // serial number, positive
    sequence(oid('ecdsaWithSha256')),
    distinguishedName(issuer.name),
    sequence(time(from), time(until)),
    distinguishedName(names[0] ?? 'localhost'),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(altNames(names), ...extensions)),
  );
  return pem(signed(body, issuer.key));
}

function distinguishedName(commonName: string): Buffer {
  return sequence(der(0x31, sequence(oid('commonName'), der(0x0c, Buffer.from(commonName)))));
}

function altNames(names: readonly string[]): Buffer {
  const list = sequence(...names.map((name) => der(0x82, Buffer.from(name, 'latin1'))));
  return sequence(oid('subjectAltName'), der(0x04, list));
}

function signed(body: Buffer, key: KeyObject): Buffer {
  const signature = der(0x03, Buffer.concat([Buffer.of(0), sign('sha256', body, key)]));
  return sequence(body, sequence(oid('ecdsaWithSha256')), signature);
}

function der(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  // DER wants the shortest form of the length.
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  const octets = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...octets), content]);
}

function sequence(...contents: Buffer[]): Buffer {
  return der(0x30, ...contents);
}

function oid(name: keyof typeof OID): Buffer {
  return Buffer.from(OID[name], 'hex');
}

/** RFC 5280 §4.1.2.5 wants UTCTime until 2049. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/\.\d+|\D/g, '');
  const utc = ms < Date.UTC(2050, 0);
  return der(utc ? 0x17 : 0x18, Buffer.from(`${utc ? digits.slice(2) : digits}Z`));
}

function pem(certificate: Buffer): string {
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}
