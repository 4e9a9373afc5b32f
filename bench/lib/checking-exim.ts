/**
 * Exim as Debian builds it with everything (exim4-daemon-heavy): it checks SPF and DKIM itself, and rewrites senders by SRS. Debian's
 * build knows no DMARC; the configuration looks up the policy, and refuses what it wants refused.
 */
import { chown, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { freePort, startChild, until, untilReady } from '../../test/harness/child.ts';
import { idsOf, isRoot } from '../../test/harness/debian-users.ts';
import { needUser, unpacked } from '../../test/harness/debian.ts';
import { running, settingsOf, type EximPlace } from '../../test/harness/exim.ts';
import { startOwnResolver } from './own-resolver.ts';
import type { CheckingServer, Relaying } from './checking-postfix.ts';

const USER = 'Debian-exim';
const HOSTNAME = 'mx.exim.test';

/** Takes mail that `records` are enough to check, and keeps it in its queue, or relays it at once. */
export async function startCheckingExim(records: readonly ZoneRecord[], relaying?: Relaying): Promise<CheckingServer> {
  const program = join(unpacked('exim4-daemon-heavy'), 'usr/sbin/exim4');
  needUser(USER);
  if (!isRoot()) throw new Error('Exim starts only as root');
  await using open = new AsyncDisposableStack();
  const { enter, folder, write } = open.adopt(await startOwnResolver(records), (it) => it.close());
  const { uid, gid } = idsOf(USER);
  for (const name of ['spool', 'log']) {
    await mkdir(join(folder, name));
    await chown(join(folder, name), uid, gid);
  }
  const port = await freePort();
  const file = await write('exim.conf', configuration({ program, folder, port, relaying }));
  const [command, ...args] = [...enter, program, '-C', file, '-bdf'];
  const exim = open.adopt(await startChild(command, args), async (it) => {
    await it.stop();
    await until('the deliveries of Exim are over', async () => (await running(file)) === 0, 120_000);
  });
  await untilReady(exim, async () =>
    (await readFile(join(folder, 'log/main'), 'utf8').catch(() => '')).includes('daemon started'),
  );
  const all = open.move();
  return { port, close: () => all.disposeAsync() };
}

interface Parts extends EximPlace {
  readonly relaying: Relaying | undefined;
}

function configuration({ program, folder, port, relaying }: Parts): string[] {
  const from = '${domain:${address:$h_from:}}';
  return [
    ...settingsOf({ program, folder, port }),
    'tls_advertise_hosts =',
    `queue_only = ${relaying === undefined}`,
    'acl_smtp_rcpt = recipient',
    'acl_smtp_dkim = signature',
    'acl_smtp_data = message',
    'begin acl',
    'recipient:',
    '  deny spf = fail',
    '  accept',
    'signature:',
    '  warn dkim_status = pass',
    '    set acl_m_signer = $dkim_cur_signer',
    '  accept',
    'message:',
    `  warn set acl_m_policy = \${lookup dnsdb{txt=_dmarc.${from}}{$value}{}}`,
    `    set acl_m_dmarc = \${if or{{eqi{$acl_m_signer}{${from}}}{and{{eq{$spf_result}{pass}}{eqi{$sender_address_domain}{${from}}}}}}{pass}{fail}}`,
    '  deny condition = ${if and{{eq{$acl_m_dmarc}{fail}}{match{$acl_m_policy}{p=reject}}}}',
    `  accept add_header = :at_start:Authentication-Results: ${HOSTNAME}; spf=$spf_result; dkim=\${if def:acl_m_signer{pass}{none}}; dmarc=$acl_m_dmarc`,
    'begin routers',
    'relay:',
    '  driver = manualroute',
    `  route_list = * 127.0.0.1::${relaying?.port ?? 25} byname`,
    '  self = send',
    '  transport = smtp',
    'begin transports',
    'smtp:',
    '  driver = smtp',
    '  allow_localhost',
    '  tls_verify_certificates =',
    ...(relaying === undefined ? [] : [`  return_path = \${srs_encode {secret}{$return_path}{${relaying.srsDomain}}}`]),
    'begin retry',
    '* * F,1h,1m',
  ];
}
