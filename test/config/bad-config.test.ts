import { readdirSync } from 'node:fs';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkFolder, loadServer } from '../../src/config/folder.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { certificateProblem } from '../../src/lib/certificate.ts';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { checkTemplates } from '../../src/templates/engine.ts';
import { temporaryFolder } from '../harness/store.ts';

const CASES = join(import.meta.dirname, '../bad-config');
const reading = { secrets: machineSecrets({}), checkTemplates };

/** What an operator reads about the configuration in this folder, with paths relative to it. */
async function reportOf(folder: string): Promise<string> {
  const file = join(folder, 'server.yml');
  const lines: string[] = [];
  if (folder.includes('/server-')) {
    const server = await loadServer(file, reading.secrets, { checkMachine: true }).catch((error: Error) => ({
      unreadable: error.message,
    }));
    if ('unreadable' in server) lines.push(server.unreadable);
    if ('errors' in server) lines.push(...server.errors.map(formatProblem));
    if ('warnings' in server) lines.push(...server.warnings.map((problem) => `warning: ${formatProblem(problem)}`));
  } else {
    const { refused, warnings } = await checkFolder(file, reading);
    lines.push(...refused.flatMap(({ errors }) => errors), ...warnings.map((line) => `warning: ${line}`));
  }
  return lines.map((line) => `${line.replaceAll(`${folder}/`, '')}\n`).join('');
}

describe('every kind of broken configuration says what is wrong, where, and what to do', () => {
  test.each(readdirSync(CASES))('%s', async (name) => {
    const folder = join(CASES, name);
    expect(await reportOf(folder)).toBe(await readFile(join(folder, 'expected.txt'), 'utf8'));
  });
});

const NAME = 'mail.example.net';
const YEAR_MS = 366 * 86_400_000;

describe('a certificate that cannot be used, or that nobody would trust', () => {
  const now = Date.now();
  const one = selfSignedCertificate([NAME], now);
  const two = selfSignedCertificate([NAME], now);
  const key = createPrivateKey(one.key);
  const encrypted = key.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString();
  test.each([
    ['swapped', { cert: one.key, key: one.cert }, 'tls.files: cert and key are swapped'],
    [
      'of another key',
      { cert: one.cert, key: two.key },
      'tls.files: the key does not match the first certificate in cert',
    ],
    [
      'with a passphrase',
      { cert: one.cert, key: encrypted },
      'tls.files: the key is encrypted; remove its passphrase: openssl pkey -in KEY -out NEW',
    ],
    ['empty', { cert: '', key: one.key }, 'tls.files: cert contains no certificate (-----BEGIN CERTIFICATE-----)'],
    [
      'without a key',
      { cert: one.cert, key: one.cert },
      'tls.files: key contains no private key (-----BEGIN PRIVATE KEY-----)',
    ],
    [
      'of other bytes',
      { cert: new X509Certificate(one.cert).raw, key: one.key },
      /^tls\.files\.cert: \S+cert\.pem is not PEM; convert it: openssl x509 -inform DER/,
    ],
    [
      'of another name',
      selfSignedCertificate(['other.example.net'], now),
      'warning: tls.files.cert: the certificate is not for mail.example.net, but for other.example.net',
    ],
  ] as const)('%s', async (_, files, expected) => {
    const folder = await temporaryFolder();
    const paths = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
    await writeFile(paths.cert, files.cert);
    await writeFile(paths.key, files.key);
    const server = { hostname: NAME, operator: 'ops@example.net' };
    const file = join(folder, 'server.yml');
    await writeFile(file, JSON.stringify({ server, tls: { mode: 'files', files: paths } }));
    const checked = await loadServer(file, reading.secrets, { checkMachine: true });
    const errors = 'errors' in checked ? checked.errors : [];
    const lines = [
      ...errors.map(({ path, message }) => `${path}: ${message}`),
      ...checked.warnings.map(({ path, message }) => `warning: ${path}: ${message}`),
    ];
    expect(lines).toEqual([typeof expected === 'string' ? expected : expect.stringMatching(expected)]);
  });

  test('expired', () => {
    expect(certificateProblem(one, NAME, now + 1000 * YEAR_MS)).toMatch(/^the certificate expired on /);
    expect(certificateProblem(one, NAME, now)).toBeUndefined();
  });
});
