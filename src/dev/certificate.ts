/**
 * A self-signed certificate with a key of its own, made anew at every start, so that the dev world's and the tests' mail
 * server offers real STARTTLS and never a key that is published somewhere. node:crypto signs but writes no X.509, so the
 * few DER structures of RFC 5280 §4.1 are put together here.
 */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

const OID = {
  ecdsaWithSha256: '06082a8648ce3d040302',
  commonName: '0603550403',
  subjectAltName: '0603551d11',
} as const;

/** PEM of a P-256 key and of a certificate for these host names, valid for a year around `now` (milliseconds). */
export function selfSignedCertificate(names: readonly string[], now: number): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(oid('ecdsaWithSha256'));
  const subject = sequence(der(0x31, sequence(oid('commonName'), der(0x0c, Buffer.from(names[0] ?? 'localhost')))));
  const altNames = sequence(...names.map((name) => der(0x82, Buffer.from(name, 'latin1'))));
  const day = 86400e3;
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))), // version 3
    der(0x02, Buffer.concat([Buffer.of(1), randomBytes(15)])), // serial number, positive
    algorithm,
    subject,
    sequence(time(now - day), time(now + 364 * day)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid('subjectAltName'), der(0x04, altNames)))),
  );
  const signature = sign('sha256', body, privateKey);
  const certificate = sequence(body, algorithm, der(0x03, Buffer.concat([Buffer.of(0), signature])));
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert: pem(certificate) };
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
