/** The certificate of HTTPS and STARTTLS: from files, credentials, and after a renewal. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { silentLog } from '../../src/lib/log.ts';
import { keepCertificate, readCertificate, type Certificate } from '../../src/lib/certificate.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { temporaryFolder } from '../harness/store.ts';

const one = selfSignedCertificate(['one.test'], Date.now());
const two = selfSignedCertificate(['two.test'], Date.now());

async function filesOf({ cert, key }: Certificate) {
  const folder = await temporaryFolder();
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key);
  return files;
}

describe('reading', () => {
  test('files, or the PEM itself', async () => {
    expect(await readCertificate(await filesOf(one))).toEqual({ cert: one.cert, key: one.key });
    expect(await readCertificate(one)).toEqual({ cert: one.cert, key: one.key });
  });

  test('what cannot be used says which file, and why', async () => {
    const files = await filesOf(one);
    await expect(readCertificate({ ...files, key: '/nowhere.pem' })).rejects.toThrow('tls.files.key: cannot read');
    await expect(readCertificate({ cert: one.cert, key: two.key })).rejects.toThrow(
      'the key does not match the first certificate in cert',
    );
    await writeFile(files.cert, 'no certificate');
    await expect(readCertificate(files)).rejects.toThrow('cert contains no certificate');
  });
});

test('a renewed one is taken over once, a broken one is not', async () => {
  const files = await filesOf(one);
  const renewed: string[] = [];
  const keeper = keepCertificate(await readCertificate(files), { log: silentLog, files: () => files });
  const { look } = keeper;
  keeper.onRenewal(({ cert }) => renewed.push(cert));
  await look();
  expect(renewed).toEqual([]);
  await writeFile(files.cert, two.cert);
  // A renewal between its two files.
  await look();
  expect(renewed).toEqual([]);
  await writeFile(files.key, two.key);
  await look();
  await look();
  expect(renewed).toEqual([two.cert]);
  expect(keeper.current()).toEqual({ cert: two.cert, key: two.key });
});

test('the daemon offers STARTTLS with it, and without it does not start', async () => {
  const files = await filesOf(one);
  const world = await startTestWorld({ server: { tls: { mode: 'files', files } } });
  const client = await SmtpClient.open(world.daemon.smtp[0]?.port ?? 0);
  expect(await client.say('EHLO client.test')).toContain('STARTTLS');
  const broken = startTestWorld({ server: { tls: { mode: 'files', files: { ...files, key: '/nowhere.pem' } } } });
  await expect(broken).rejects.toThrow('tls.files.key');
});
