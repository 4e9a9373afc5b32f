/**
 * A private OpenSMTPD: the program of Debian's package, unpacked and not installed (it excludes Postfix). Its folders are
 * compiled in, so it runs in a mount namespace where those are its own. What it takes lands in one maildir whoever it is
 * for, or goes on to another server.
 */
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Certificate } from '../../src/lib/certificate.ts';
import { freePort, startChild, untilReady } from './child.ts';
import { idsOf, isRoot } from './debian-users.ts';
import { needPackage, needUser, unpacked } from './debian.ts';
import { openMaildir, type Maildir } from './maildir.ts';

export interface OpenSmtpdOptions {
  /** Ports on 127.0.0.1 of the servers that get the mail of these domains; all else lands in the maildir. */
  readonly routes?: Readonly<Record<string, number>>;
  /** How RCPT is answered for an address: `550 5.1.1 …` or `451 4.7.1 …`. */
  readonly answers?: Readonly<Record<string, string>>;
  /** STARTTLS is offered with it. */
  readonly tls: Certificate;
}

export interface OpenSmtpd extends Maildir {
  readonly port: number;
  /** The end of its log. */
  log(): string;
  close(): Promise<void>;
}

/** Starts in about a second. Must run as root, as OpenSMTPD itself does. */
export async function startOpenSmtpd({ routes = {}, answers = {}, tls }: OpenSmtpdOptions): Promise<OpenSmtpd> {
  const files = unpacked('opensmtpd');
  for (const user of ['opensmtpd', 'opensmtpq']) needUser(user);
  needPackage('/usr/lib/x86_64-linux-gnu/libevent-2.1.so.7', 'libevent-2.1-7');
  if (!isRoot()) throw new Error('OpenSMTPD starts only as root');
  const folder = await mkdtemp(join(tmpdir(), 'postern-opensmtpd-'));
  await chmod(folder, 0o755);
  await mkdir(join(folder, 'mail'));
  const { uid, gid } = idsOf('nobody');
  await chown(join(folder, 'mail'), uid, gid);
  for (const [name, pem] of Object.entries(tls))
    await writeFile(join(folder, `${name}.pem`), String(pem), { mode: 0o600 });
  const port = await freePort();
  const filters = Object.entries(answers).map(([address, reply], i) => ({ name: `answer${i}`, address, reply }));
  const lines = [
    `pki "own" cert "${folder}/cert.pem"`,
    `pki "own" key "${folder}/key.pem"`,
    'table everybody { "@" = "nobody" }',
    ...filters.flatMap(({ name, address, reply }) => [
      `table ${name} { "${address}" }`,
      `filter ${name} phase rcpt-to match rcpt-to <${name}> reject "${reply}"`,
    ]),
    `listen on 127.0.0.1 port ${port} tls pki "own" hostname mx.opensmtpd.test${
      filters.length === 0 ? '' : ` filter { ${filters.map(({ name }) => name).join(', ')} }`
    }`,
    `action "box" maildir "${folder}/mail/box" virtual <everybody>`,
    ...Object.entries(routes).flatMap(([domain, to], i) => [
      `action "route${i}" relay host smtp://127.0.0.1:${to}`,
      `match from any for domain "${domain}" action "route${i}"`,
    ]),
    'match from any for any action "box"',
    '',
  ];
  await writeFile(join(folder, 'smtpd.conf'), lines.join('\n'));
  const script = [
    'mount -t tmpfs tmpfs /var/spool && mkdir -m 711 /var/spool/smtpd',
    'mount -t tmpfs tmpfs /run',
    'mount -t tmpfs tmpfs /var/lib && mkdir -p -m 755 /var/lib/opensmtpd/empty',
    `mount --bind ${files}/usr/libexec /usr/libexec`,
    `exec ${files}/usr/sbin/smtpd -d -f ${folder}/smtpd.conf`,
  ].join(' && ');
  const smtpd = await startChild('unshare', ['--mount', 'sh', '-c', script]);
  async function close(): Promise<void> {
    await smtpd.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  try {
    await untilReady(smtpd, () =>
      Promise.resolve(smtpd.output().includes('OpenSMTPD') && smtpd.output().includes('starting')),
    );
  } catch (error) {
    const said = smtpd.output();
    await close();
    throw new Error(`OpenSMTPD did not start: ${said}`, { cause: error });
  }
  return { port, ...openMaildir(join(folder, 'mail/box')), log: smtpd.output, close };
}
