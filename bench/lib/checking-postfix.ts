/**
 * What an administrator who checks mail would run instead, all from Debian: Postfix with policyd-spf, OpenDKIM that verifies, and
 * OpenDMARC; for forwarding with postsrsd, too. They look up at 127.53.0.1, in a mount namespace where /etc/resolv.conf names it.
 */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDnsServer, type ZoneRecord } from '../../src/dev/dns-server.ts';
import { answers, freePort, startChild, untilReady } from '../../test/harness/child.ts';
import { needPackage } from '../../test/harness/debian.ts';
import { startPostfix, type PostfixOptions } from '../../test/harness/postfix.ts';

const NAME_SERVER = '127.53.0.1';
const HOSTNAME = 'mx.postfix.test';
/** OpenDKIM and OpenDMARC let mail from this machine through; no mail comes from here. */
const NOBODY = '192.0.2.1';
const PROGRAMS = [
  ['/usr/bin/policyd-spf', 'postfix-policyd-spf-python'],
  ['/usr/sbin/opendkim', 'opendkim'],
  ['/usr/sbin/opendmarc', 'opendmarc'],
  ['/usr/sbin/postsrsd', 'postsrsd'],
] as const;

export interface CheckingPostfix {
  readonly port: number;
  close(): Promise<void>;
}

/** Takes mail that `records` are enough to check; `srsDomain` rewrites its senders. */
export async function startCheckingPostfix(
  records: readonly ZoneRecord[],
  { srsDomain, ...options }: Pick<PostfixOptions, 'relayTo' | 'relayConnections' | 'settings'> & { srsDomain?: string },
): Promise<CheckingPostfix> {
  for (const [program, name] of PROGRAMS) needPackage(program, name);
  await using open = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'postern-checking-'));
  open.defer(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  open.adopt(await startDnsServer(records, { host: NAME_SERVER, port: 53 }), (it) => it.close());

  /** A file of the folder that everybody can read; answers its path. */
  async function write(name: string, lines: readonly string[]): Promise<string> {
    await writeFile(join(folder, name), `${lines.join('\n')}\n`);
    return join(folder, name);
  }
  const resolv = await write('resolv.conf', [`nameserver ${NAME_SERVER}`]);
  const enter = ['unshare', '--mount', 'sh', '-c', `mount --bind ${resolv} /etc/resolv.conf && exec "$@"`, 'sh'];
  async function start(command: string, args: readonly string[], port: number): Promise<void> {
    const [first = '', ...others] = [...enter, command, ...args];
    const child = open.adopt(await startChild(first, others), (it) => it.stop('SIGKILL'));
    await untilReady(child, () => answers(port));
  }

  const [dkim, dmarc, srs] = [await freePort(), await freePort(), await freePort()];
  const nobody = await write('nobody', [NOBODY]);
  // OpenDKIM asks the servers of the root; it is told the records instead, which takes it less time.
  const texts = records.flatMap((one) => ('type' in one && one.type === 'TXT' ? `${one.name} ${one.value}` : []));
  const keys = await write('keys', texts);
  const dkimConfig = [
    'Mode v',
    `Socket inet:${dkim}@127.0.0.1`,
    `InternalHosts ${nobody}`,
    `AuthservID ${HOSTNAME}`,
    `TestDNSData file:${keys}`,
  ];
  await start('/usr/sbin/opendkim', ['-f', '-u', 'opendkim', '-x', await write('opendkim.conf', dkimConfig)], dkim);
  const dmarcConfig = [
    `Socket inet:${dmarc}@127.0.0.1`,
    `IgnoreHosts ${nobody}`,
    `AuthservID ${HOSTNAME}`,
    'SPFSelfValidate true',
    'PublicSuffixList /usr/share/publicsuffix/public_suffix_list.dat',
  ];
  await start(
    '/usr/sbin/opendmarc',
    ['-f', '-u', 'opendmarc', '-c', await write('opendmarc.conf', dmarcConfig)],
    dmarc,
  );
  if (srsDomain !== undefined) {
    const secret = await write('srs.secret', ['0123456789abcdef0123456789abcdef']);
    const ports = [`-f${srs}`, `-r${await freePort()}`];
    await start('/usr/sbin/postsrsd', [`-s${secret}`, `-d${srsDomain}`, ...ports, '-4', '-unobody'], srs);
  }
  const spf = await write('policyd-spf.conf', [
    'debugLevel = 0',
    `skip_addresses = ${NOBODY}/32`,
    'HELO_reject = Fail',
    'Mail_From_reject = Fail',
  ]);
  const postfix = open.adopt(
    await startPostfix({
      ...options,
      network: { enter, host: '127.0.0.1' },
      services: [`policyd-spf unix - n n - 0 spawn user=nobody argv=/usr/bin/policyd-spf ${spf}`],
      settings: {
        ...options.settings,
        'policyd-spf_time_limit': '3600',
        smtpd_milters: `inet:127.0.0.1:${dkim}, inet:127.0.0.1:${dmarc}`,
        milter_default_action: 'tempfail',
        smtpd_recipient_restrictions: 'check_policy_service unix:private/policyd-spf, permit_mynetworks, reject',
        ...(srsDomain === undefined
          ? {}
          : { sender_canonical_maps: `tcp:127.0.0.1:${srs}`, sender_canonical_classes: 'envelope_sender' }),
      },
    }),
    (it) => it.close(),
  );
  const all = open.move();
  return { port: postfix.port, close: () => all.disposeAsync() };
}
