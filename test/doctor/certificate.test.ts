import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { checkCertificate } from '../../src/doctor/doctor.ts';
import { testClock } from '../harness/clock.ts';
import { temporaryFolder } from '../harness/store.ts';

const DAY = 86_400_000;
const HOST = 'mail.example.net';

function config(cert: string | undefined, key = 'key.pem') {
  const tls = cert === undefined ? {} : { mode: 'files', files: { cert, key } };
  return serverSchema.parse({ server: { hostname: HOST, operator: 'ops@example.net' }, tls });
}

/** The dev world's certificates are valid for 364 days from now on. */
test.each<[string, string[], number, object]>([
  ['new', [HOST], 0, { status: 'ok', found: expect.stringMatching(/^CN=mail\.example\.net, until \d{4}-\d\d-\d\d$/) }],
  ['with one name of several', ['example.net', HOST], 0, { status: 'ok' }],
  ['of a wildcard', ['*.example.net'], 0, { status: 'ok' }],
  ['that ends soon', [HOST], 355 * DAY, { status: 'warning', advice: expect.stringContaining('expires in 9 days') }],
  ['that has ended', [HOST], 365 * DAY, { status: 'failed', found: expect.stringContaining('expired') }],
  ['of another host', ['other.test'], 0, { status: 'warning', advice: expect.stringContaining(HOST) }],
])('a certificate %s', async (_what, names, later, expected) => {
  const clock = testClock();
  const { cert, key } = selfSignedCertificate(names, clock.now());
  const file = join(await temporaryFolder(), 'cert.pem');
  await writeFile(file, cert);
  clock.advance(later);
  expect(await checkCertificate(config(file, key), clock)).toMatchObject(expected);
  expect(await checkCertificate(config(cert, key), clock)).toMatchObject(expected);
});

test('one that is not used, because TLS is off', async () => {
  const { cert } = selfSignedCertificate([HOST], testClock().now());
  const { tls, ...rest } = config(cert);
  expect(await checkCertificate({ ...rest, tls: { ...tls, mode: 'off' } }, testClock())).toMatchObject({
    status: 'warning',
    found: 'it is not used: tls.mode is off',
    advice: expect.stringContaining('tls.mode'),
  });
});

test('none, and one that cannot be read', async () => {
  expect(await checkCertificate(config(undefined), testClock())).toMatchObject({ status: 'warning' });
  expect(await checkCertificate(config('/nowhere/cert.pem'), testClock())).toMatchObject({
    status: 'failed',
    found: expect.stringContaining('/nowhere/cert.pem'),
  });
});

test('one whose key is another one’s, which the daemon does not take', async () => {
  const now = testClock().now();
  const [{ cert }, { key }] = [selfSignedCertificate([HOST], now), selfSignedCertificate([HOST], now)];
  expect(await checkCertificate(config(cert, key), testClock())).toMatchObject({
    status: 'failed',
    found: expect.stringContaining('the key does not match the first certificate in cert'),
    advice: expect.stringContaining('tls.files'),
  });
});
