import { X509Certificate, createPrivateKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { challengeCertificate, selfSignedCertificate } from '../../src/lib/x509.ts';

const NOW = Date.UTC(2026, 5, 15, 12);

test('the certificate names its hosts, is signed by its own key and valid for a year', () => {
  const { key, cert } = selfSignedCertificate(['mx.example.test', 'xn--bcher-kva.test'], NOW);
  const certificate = new X509Certificate(cert);
  expect(certificate.verify(certificate.publicKey)).toBe(true);
  expect(certificate.checkPrivateKey(createPrivateKey(key))).toBe(true);
  expect(certificate.checkHost('mx.example.test')).toBe('mx.example.test');
  expect(certificate.checkHost('xn--bcher-kva.test')).toBe('xn--bcher-kva.test');
  expect(certificate.checkHost('other.test')).toBeUndefined();
  expect(Date.parse(certificate.validFrom)).toBe(NOW - 86400e3);
  expect(Date.parse(certificate.validTo)).toBe(NOW + 364 * 86400e3);
});

test('its lengths are right for few names and for many, and its dates after 2049', () => {
  for (let count = 1; count <= 60; count++) {
    const names = Array.from({ length: count }, (_, i) => `host-${i}.example.test`);
    const certificate = new X509Certificate(selfSignedCertificate(names, Date.UTC(2050, 5)).cert);
    expect(certificate.checkHost(names.at(-1) ?? '')).toBe(names.at(-1));
    expect(new Date(certificate.validTo).getUTCFullYear()).toBe(2051);
  }
});

test('no two have the same key', () => {
  expect(selfSignedCertificate(['a.test'], NOW).key).not.toBe(selfSignedCertificate(['a.test'], NOW).key);
});

test('the proof of control of a name is critical, and names it alone (RFC 8737 §3)', () => {
  const proof = Buffer.alloc(32, 7);
  const { raw, subjectAltName } = new X509Certificate(challengeCertificate('mx.example.test', proof, NOW).cert);
  expect(subjectAltName).toBe('DNS:mx.example.test');
  const extension = `06082b0601050507011f0101ff04220420${proof.toString('hex')}`;
  expect(raw.toString('hex')).toContain(extension);
});
