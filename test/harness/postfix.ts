/**
 * A private Postfix: its own configuration, queue and data folders, smtpd on a port of 127.0.0.1, nothing shared with the
 * one of the system. What it takes lands in one maildir whoever it is for, or goes on to another server.
 */
import { chmod, chown, mkdir, mkdtemp, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, startChild, until, untilReady, type Child } from './child.ts';
import { idsOf, isRoot } from './debian-users.ts';
import { needPackage } from './debian.ts';
import { openMaildir, type Maildir } from './maildir.ts';
import { startPolicy, type Judge, type Policy } from './postfix-policy.ts';

const DAEMONS = '/usr/lib/postfix/sbin';
/** What `postfix check` would make in two seconds; `private` and `public` hold the services' sockets. */
const QUEUES = 'active bounce corrupt defer deferred flush hold incoming maildrop private public saved trace'.split(
  ' ',
);

export interface PostfixOptions {
  /** Default: A free one. */
  readonly port?: number;
  /** `127.0.0.1:PORT` of the server that gets all mail; without it mail lands in the maildir. */
  readonly relayTo?: string;
  /** Connections to that server at once; Postfix's own default is 20. */
  readonly relayConnections?: number;
  /** `inet:HOST:PORT` of a milter, such as `startOpendkim()` answers. */
  readonly milter?: string;
  /** Answers each RCPT; see `judge` below, which may replace it at any time. Asking costs a round trip per recipient. */
  readonly judge?: Judge;
  /** PEM files; STARTTLS is offered with them. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Where it runs instead of 127.0.0.1: the words before a command that runs in that network, and its address there. */
  readonly network?: { readonly enter: readonly string[]; readonly host: string };
  /** More lines of main.cf. */
  readonly settings?: Readonly<Record<string, string>>;
  /** More lines of master.cf. */
  readonly services?: readonly string[];
}

export interface Postfix extends Maildir {
  readonly port: number;
  /** How many wait in its queue. */
  queued(): Promise<number>;
  /** Replaces the rule by which recipients are answered; needs `judge` among the options. */
  judge(rule: Judge): void;
  /** Its log so far. */
  log(): Promise<string>;
  close(): Promise<void>;
}

/** Starts in about a second. Must run as root, as Postfix itself does. */
export async function startPostfix(options: PostfixOptions = {}): Promise<Postfix> {
  needPackage(`${DAEMONS}/master`, 'postfix');
  if (!isRoot()) throw new Error('Postfix starts only as root');
  const folder = await mkdtemp(join(tmpdir(), 'postern-postfix-'));
  const port = options.port ?? (await freePort());
  const { enter, host } = options.network ?? { enter: [], host: '127.0.0.1' };
  const policy = options.judge === undefined ? undefined : await startPolicy(options.judge);
  const box = join(folder, 'mail/box');
  const logFile = join(folder, 'mail.log');
  await layOut(folder, mainConfig({ folder, options, policy }), masterConfig(`${host}:${port}`, options.services));
  const [command, ...args] = [...enter, `${DAEMONS}/master`, '-c', join(folder, 'etc'), '-s'];
  const master = await startChild(command, args);
  try {
    await untilReady(master, async () => (await log()).includes('daemon started'));
  } catch (error) {
    const said = await log();
    await close();
    throw new Error(`Postfix did not start: ${said}`, { cause: error });
  }
  return {
    port,
    ...openMaildir(box),
    log,
    close,
    async queued() {
      const queues = ['maildrop', 'incoming', 'active', 'deferred'];
      const files = await Promise.all(
        queues.map((queue) => readdir(join(folder, 'queue', queue), { recursive: true })),
      );
      return files.flat().filter((name) => /[0-9A-Za-z]{6,}$/.test(name)).length;
    },
    judge(rule) {
      if (policy === undefined) throw new Error('this Postfix was started without a judge');
      policy.judge(rule);
    },
  };

  async function log(): Promise<string> {
    return readFile(logFile, 'utf8').catch(() => '');
  }

  async function close(): Promise<void> {
    await stopMaster(master);
    await policy?.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** SIGTERM to master goes on to all its daemons, its process group; then the port is free. */
async function stopMaster(master: Child): Promise<void> {
  await master.stop('SIGTERM');
  await until('the daemons of Postfix are gone', async () => (await alive(master.pid)) === 0);
}

/** How many processes of a group run; a dead one that nobody has collected yet does not count. */
async function alive(group: number): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  return stats.filter((stat) => {
    const [state, , pgrp] = stat.slice(stat.lastIndexOf(')') + 2).split(' '); // proc(5): state, ppid, pgrp
    return state !== 'Z' && pgrp === `${group}`;
  }).length;
}

async function layOut(folder: string, main: string, master: string): Promise<void> {
  const postfix = idsOf('postfix');
  await chmod(folder, 0o755);
  for (const name of ['etc', 'queue', 'queue/pid', 'data', 'mail']) await mkdir(join(folder, name));
  for (const name of QUEUES) await mkdir(join(folder, 'queue', name), { mode: 0o700 });
  for (const name of ['data', ...QUEUES.map((queue) => `queue/${queue}`)]) {
    await chown(join(folder, name), postfix.uid, postfix.gid);
  }
  const nobody = idsOf('nobody');
  await chown(join(folder, 'mail'), nobody.uid, nobody.gid);
  await writeFile(join(folder, 'etc/main.cf'), main);
  // A fresh main.cf might still be in somebody's editor: each daemon would read it again until it is two seconds old.
  const minuteAgo = new Date(Date.now() - 60_000);
  await utimes(join(folder, 'etc/main.cf'), minuteAgo, minuteAgo);
  await writeFile(join(folder, 'etc/master.cf'), master);
}

interface Parts {
  readonly folder: string;
  readonly options: PostfixOptions;
  readonly policy: Policy | undefined;
}

function mainConfig({ folder, options, policy }: Parts): string {
  const nobody = idsOf('nobody');
  const settings: Record<string, string> = {
    compatibility_level: '3.6',
    queue_directory: join(folder, 'queue'),
    data_directory: join(folder, 'data'),
    maillog_file: join(folder, 'mail.log'),
    maillog_file_prefixes: folder,
    mail_owner: 'postfix',
    setgid_group: 'postdrop',
    myhostname: 'mx.postfix.test',
    mydestination: '',
    mynetworks: '127.0.0.0/8',
    inet_interfaces: options.network?.host ?? '127.0.0.1',
    inet_protocols: 'ipv4',
    alias_maps: '',
    alias_database: '',
    biff: 'no',
    disable_dns_lookups: 'yes',
    smtpd_peername_lookup: 'no',
    smtpd_client_connection_count_limit: '0',
    default_process_limit: '200',
    smtpd_recipient_restrictions: `${policy === undefined ? '' : `check_policy_service inet:${policy.address}, `}permit_mynetworks, reject`,
  };
  if (options.relayTo === undefined) {
    Object.assign(settings, {
      virtual_mailbox_domains: 'static:all',
      virtual_mailbox_base: join(folder, 'mail'),
      virtual_mailbox_maps: 'static:box/',
      virtual_uid_maps: `static:${nobody.uid}`,
      virtual_gid_maps: `static:${nobody.gid}`,
    });
  } else {
    settings['relayhost'] = `[${options.relayTo.replace(/:\d+$/, '')}]:${options.relayTo.replace(/^.*:/, '')}`;
    settings['smtp_tls_security_level'] = 'none';
    if (options.relayConnections !== undefined) {
      settings['smtp_destination_concurrency_limit'] = `${options.relayConnections}`;
      settings['initial_destination_concurrency'] = `${options.relayConnections}`;
    }
  }
  if (options.milter !== undefined) {
    Object.assign(settings, { smtpd_milters: options.milter, milter_default_action: 'tempfail' });
  }
  if (options.tls !== undefined) {
    Object.assign(settings, {
      smtpd_tls_security_level: 'may',
      smtpd_tls_cert_file: options.tls.cert,
      smtpd_tls_key_file: options.tls.key,
    });
  }
  Object.assign(settings, options.settings);
  return Object.entries(settings)
    .map(([name, value]) => `${name} = ${value}\n`)
    .join('');
}

/** The services of Debian's master.cf that this instance needs, none in a chroot, without pickup: mail comes by SMTP alone. */
function masterConfig(address: string, services: readonly string[] = []): string {
  return [
    ...services,
    `${address} inet n - n - - smtpd`,
    'cleanup   unix  n - n - 0 cleanup',
    'qmgr      unix  n - n 300 1 qmgr',
    'tlsmgr    unix  - - n 1000? 1 tlsmgr',
    'rewrite   unix  - - n - - trivial-rewrite',
    'bounce    unix  - - n - 0 bounce',
    'defer     unix  - - n - 0 bounce',
    'trace     unix  - - n - 0 bounce',
    'proxymap  unix  - - n - - proxymap',
    'smtp      unix  - - n - - smtp',
    'relay     unix  - - n - - smtp',
    'error     unix  - - n - - error',
    'retry     unix  - - n - - error',
    'discard   unix  - - n - - discard',
    'virtual   unix  - n n - - virtual',
    'anvil     unix  - - n - 1 anvil',
    'scache    unix  - - n - 1 scache',
    'showq     unix  n - n - - showq',
    'postlog   unix-dgram n - n - 1 postlogd',
    '',
  ].join('\n');
}
