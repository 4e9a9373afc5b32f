/** OpenDKIM, which shares no code with us: as a milter that signs what Postfix hands it, and as a verifier. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { answers, freePort, startChild, untilReady } from './child.ts';
import { idsOf } from './debian-users.ts';
import { needPackage } from './debian.ts';

export interface Opendkim {
  /** For Postfix's `smtpd_milters`. */
  readonly milter: string;
  close(): Promise<void>;
}

export interface OpendkimOptions {
  readonly domain: string;
  readonly selector: string;
  /** RSA, PEM. */
  readonly privateKey: string;
}

/** Signs all mail from `domain` that comes from this machine. */
export async function startOpendkim(options: OpendkimOptions): Promise<Opendkim> {
  needPackage('/usr/sbin/opendkim', 'opendkim');
  const folder = await mkdtemp(join(tmpdir(), 'postern-opendkim-'));
  const port = await freePort();
  await writeFile(join(folder, 'key.pem'), options.privateKey);
  await writeFile(
    join(folder, 'opendkim.conf'),
    [
      'Mode s',
      `Domain ${options.domain}`,
      `Selector ${options.selector}`,
      `KeyFile ${join(folder, 'key.pem')}`,
      'Canonicalization relaxed/relaxed',
      'SignatureAlgorithm rsa-sha256',
      'OversignHeaders From',
      'InternalHosts 127.0.0.1',
      `Socket inet:${port}@127.0.0.1`,
      'RequireSafeKeys no',
      'Background no',
      'Syslog no',
      '',
    ].join('\n'),
  );
  await chmod(folder, 0o755);
  const child = await startChild('/usr/sbin/opendkim', ['-f', '-x', join(folder, 'opendkim.conf')], idsOf('opendkim'));
  const opendkim = { milter: `inet:127.0.0.1:${port}`, close };
  try {
    await untilReady(child, () => answers(port));
  } catch (error) {
    await close();
    throw error;
  }
  return opendkim;

  async function close(): Promise<void> {
    await child.stop('SIGKILL'); // it keeps nothing, and a milter takes five seconds to notice SIGTERM
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Whether OpenDKIM finds each message's signature whole. It ends with the first one that is not: the rest are `false` too.
 * Records are TXT, by name.
 */
export async function verifyWithOpendkim(
  messages: readonly Uint8Array[],
  records: readonly { readonly name: string; readonly value: string }[],
): Promise<boolean[]> {
  needPackage('/usr/sbin/opendkim', 'opendkim');
  const folder = await mkdtemp(join(tmpdir(), 'postern-opendkim-'));
  try {
    await writeFile(join(folder, 'records'), records.map(({ name, value }) => `${name} ${value}\n`).join(''));
    await writeFile(join(folder, 'opendkim.conf'), `Mode v\nTestDNSData file:${join(folder, 'records')}\n`);
    const files = messages.map((_, i) => `${i}.eml`);
    for (const [i, message] of messages.entries()) await writeFile(join(folder, `${i}.eml`), message);
    const said = await new Promise<string>((resolve) => {
      const args = ['-x', 'opendkim.conf', '-b', 'v', '-t', files.join(',')];
      execFile('/usr/sbin/opendkim', args, { cwd: folder }, (_, stdout, stderr) => resolve(stderr + stdout));
    });
    return files.map((file) => new RegExp(`^opendkim: ${file}: verification .*succeeded$`, 'm').test(said));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
