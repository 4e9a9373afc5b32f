/** The signature of a release: the commands of docs/releasing.md, with a key of the test. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { needPackage } from '../harness/debian.ts';
import { temporaryFolder } from '../harness/store.ts';

const DOC = readFileSync(join(import.meta.dirname, '../../docs/releasing.md'), 'utf8');
const SIGN = /`(gpg --armor [^`]+)`/.exec(DOC)?.[1] ?? '';
const CHECK = /## Check\n.*?```sh\n(.*?)```/s.exec(DOC)?.[1] ?? '';
const KEY = 'Release <release@example.org>';

/** The environment of somebody with their own keys. Its path is short, because gpg-agent makes a socket below it. */
async function person(): Promise<NodeJS.ProcessEnv> {
  const home = await mkdtemp('/tmp/gpg-');
  const env = { ...process.env, GNUPGHOME: home };
  onTestFinished(async () => {
    spawnSync('gpgconf', ['--kill', 'all'], { env });
    await rm(home, { recursive: true, force: true });
  });
  return env;
}

test('who has the public key can check a release, and a changed one is told apart', async () => {
  needPackage('/usr/bin/gpg', 'gnupg');
  const [maintainer, operator] = [await person(), await person()];
  const folder = await temporaryFolder();
  const dist = join(folder, 'dist');
  mkdirSync(dist);
  const file = join(dist, 'postern_0.2.0_amd64.deb');
  writeFileSync(file, 'the package');
  const sum = createHash('sha256').update('the package').digest('hex');
  // A file that is not downloaded is no mistake.
  const sums = `${sum}  postern_0.2.0_amd64.deb\n${sum}  postern_0.2.0_arm64.deb\n`;
  writeFileSync(join(dist, 'SHA256SUMS'), sums);
  const make = ['--batch', '--quiet', '--passphrase', '', '--quick-generate-key', KEY, 'ed25519', 'sign'];
  execFileSync('gpg', make, { env: maintainer, stdio: 'pipe' });
  execFileSync('sh', ['-ec', SIGN], { cwd: folder, env: maintainer, stdio: 'pipe' });
  const published = execFileSync('gpg', ['--armor', '--export', KEY], { env: maintainer });

  function check() {
    return spawnSync('sh', ['-ec', CHECK], { cwd: dist, env: operator, encoding: 'utf8' });
  }
  expect(check(), 'without the key').toMatchObject({ status: 2 });
  execFileSync('gpg', ['--batch', '--quiet', '--import'], { env: operator, input: published, stdio: 'pipe' });
  expect(check()).toMatchObject({ status: 0, stdout: 'postern_0.2.0_amd64.deb: OK\n' });
  appendFileSync(file, ' of another');
  expect(check(), 'another package').toMatchObject({ status: 1, stdout: 'postern_0.2.0_amd64.deb: FAILED\n' });
  writeFileSync(join(dist, 'SHA256SUMS'), sums.replace(sum, createHash('sha256').update('x').digest('hex')));
  expect(check(), 'other checksums').toMatchObject({ status: 1, stdout: '' });
});
