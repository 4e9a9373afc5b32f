/**
 * What an administrator who checks mail would run instead, all from Debian: Postfix with policyd-spf, OpenDKIM that verifies, and
 * OpenDMARC; for forwarding with postsrsd, too. They ask a name server of their own.
 */
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { answers, freePort, startChild, untilReady } from '../../test/harness/child.ts';
import { needPackage } from '../../test/harness/debian.ts';
import { startPostfix } from '../../test/harness/postfix.ts';
import { startOwnResolver } from './own-resolver.ts';

const HOSTNAME = 'mx.postfix.test';
/** OpenDKIM and OpenDMARC let mail from this machine through; no mail comes from here. */
const NOBODY = '192.0.2.1';
const PROGRAMS = [
  ['/usr/bin/policyd-spf', 'postfix-policyd-spf-python'],
  ['/usr/sbin/opendkim', 'opendkim'],
  ['/usr/sbin/opendmarc', 'opendmarc'],
  ['/usr/sbin/postsrsd', 'postsrsd'],
] as const;

export interface CheckingServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Where a server on this machine gets what was taken, and whose SRS addresses its senders become. */
export interface Relaying {
  readonly port: number;
  readonly srsDomain: string;
}

/** Takes mail that `records` are enough to check, and keeps it in its queue, or relays it over as many connections as Postern has. */
export async function startCheckingPostfix(
  records: readonly ZoneRecord[],
  relaying?: Relaying,
): Promise<CheckingServer> {
  for (const [program, name] of PROGRAMS) needPackage(program, name);
  await using open = new AsyncDisposableStack();
  const resolver = open.adopt(await startOwnResolver(records), (it) => it.close());
  const { enter, write } = resolver;
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
    'RejectFailures true',
    'PublicSuffixList /usr/share/publicsuffix/public_suffix_list.dat',
  ];
  await start(
    '/usr/sbin/opendmarc',
    ['-f', '-u', 'opendmarc', '-c', await write('opendmarc.conf', dmarcConfig)],
    dmarc,
  );
  if (relaying !== undefined) {
    const secret = await write('srs.secret', ['0123456789abcdef0123456789abcdef']);
    const ports = [`-f${srs}`, `-r${await freePort()}`];
    await start('/usr/sbin/postsrsd', [`-s${secret}`, `-d${relaying.srsDomain}`, ...ports, '-4', '-unobody'], srs);
  }
  const spf = await write('policyd-spf.conf', [
    'debugLevel = 0',
    `skip_addresses = ${NOBODY}/32`,
    'HELO_reject = Fail',
    'Mail_From_reject = Fail',
  ]);
  const postfix = open.adopt(
    await startPostfix({
      ...(relaying === undefined ? {} : { relayTo: `127.0.0.1:${relaying.port}`, relayConnections: 20 }),
      network: { enter, host: '127.0.0.1' },
      services: [`policyd-spf unix - n n - 0 spawn user=nobody argv=/usr/bin/policyd-spf ${spf}`],
      settings: {
        in_flow_delay: '0',
        'policyd-spf_time_limit': '3600',
        smtpd_milters: `inet:127.0.0.1:${dkim}, inet:127.0.0.1:${dmarc}`,
        milter_default_action: 'tempfail',
        smtpd_recipient_restrictions: 'check_policy_service unix:private/policyd-spf, permit_mynetworks, reject',
        ...(relaying === undefined
          ? { defer_transports: 'virtual' }
          : { sender_canonical_maps: `tcp:127.0.0.1:${srs}`, sender_canonical_classes: 'envelope_sender' }),
      },
    }),
    (it) => it.close(),
  );
  const all = open.move();
  return { port: postfix.port, close: () => all.disposeAsync() };
}
