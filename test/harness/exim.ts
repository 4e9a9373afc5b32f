/**
 * A private Exim: the program of Debian's package, unpacked and not installed (its packages exclude Postfix's), with its own
 * configuration, spool and log. What it takes lands in one maildir whoever it is for, or goes on to another server.
 */
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Certificate } from '../../src/lib/certificate.ts';
import { freePort, startChild, until, untilReady } from './child.ts';
import { idsOf, isRoot } from './debian-users.ts';
import { needUser, unpacked } from './debian.ts';
import { openMaildir, type Maildir } from './maildir.ts';

const USER = 'Debian-exim';

export interface EximOptions {
  /** Default: A free one. */
  readonly port?: number;
  /** Ports on 127.0.0.1 of the servers that get the mail of these domains; all else lands in the maildir. */
  readonly routes?: Readonly<Record<string, number>>;
  /** STARTTLS is offered with it. */
  readonly tls?: Certificate;
}

export interface Exim extends Maildir {
  readonly port: number;
  /** How RCPT is answered for this address from now on: `550 5.1.1 …` or `451 4.7.1 …`; accepted where it is undefined. */
  answer(recipient: string, reply: string | undefined): Promise<void>;
  /** How many wait in its queue. */
  queued(): Promise<number>;
  /** Its log so far. */
  log(): Promise<string>;
  close(): Promise<void>;
}

/** Starts in about a second. Must run as root, as Exim itself does. */
export async function startExim(options: EximOptions = {}): Promise<Exim> {
  const program = join(unpacked('exim4-daemon-light'), 'usr/sbin/exim4');
  needUser(USER);
  if (!isRoot()) throw new Error('Exim starts only as root');
  const folder = await mkdtemp(join(tmpdir(), 'postern-exim-'));
  const port = options.port ?? (await freePort());
  const file = join(folder, 'exim.conf');
  const replies = new Map<string, string>();
  const { uid, gid } = idsOf(USER);
  await chmod(folder, 0o755);
  for (const name of ['spool', 'log', 'mail']) {
    await mkdir(join(folder, name));
    await chown(join(folder, name), uid, gid);
  }
  for (const [name, pem] of Object.entries(options.tls ?? {})) {
    await writeFile(join(folder, `${name}.pem`), String(pem));
    await chown(join(folder, `${name}.pem`), uid, gid);
  }
  await writeReplies();
  await writeFile(file, configuration({ program, folder, port, options }));
  // What waits for one host goes in one connection: first all is routed, then it is sent (-qq).
  const exim = await startChild(program, ['-C', file, '-bdf', '-qq1s']);
  try {
    await untilReady(exim, async () => (await log()).includes('daemon started'));
  } catch (error) {
    const said = `${exim.output()}${await log()}`;
    await close();
    throw new Error(`Exim did not start: ${said}`, { cause: error });
  }
  return {
    port,
    ...openMaildir(join(folder, 'mail')),
    log,
    close,
    async answer(recipient, reply) {
      if (reply === undefined) replies.delete(recipient);
      else replies.set(recipient, reply);
      await writeReplies();
    },
    async queued() {
      const files = await readdir(join(folder, 'spool/input'), { recursive: true }).catch(() => []);
      return files.filter((name) => name.endsWith('-H')).length;
    },
  };

  async function writeReplies(): Promise<void> {
    for (const [name, digit] of [
      ['deny', '5'],
      ['defer', '4'],
    ] as const) {
      const lines = [...replies]
        .filter(([, reply]) => reply.startsWith(digit))
        .map(([who, reply]) => `${who}: ${reply}\n`);
      await writeFile(join(folder, name), lines.join(''));
    }
  }

  async function log(): Promise<string> {
    return readFile(join(folder, 'log/main'), 'utf8').catch(() => '');
  }

  async function close(): Promise<void> {
    await exim.stop();
    // A delivery in a process of its own may still write.
    await until('the queue runners of Exim are gone', async () => (await running(file)) === 0);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** How many processes were started with this configuration and still run. */
export async function running(file: string): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line.split('\0').includes(file)).length;
}

export interface EximPlace {
  readonly program: string;
  readonly folder: string;
  readonly port: number;
}

/** Of an Exim that listens on loopback and has its files in the folder. */
export function settingsOf({ program, folder, port }: EximPlace): string[] {
  return [
    `exim_path = ${program}`,
    'keep_environment =',
    'add_environment = PATH=/usr/bin',
    `spool_directory = ${folder}/spool`,
    `log_file_path = ${folder}/log/%s`,
    'primary_hostname = mx.exim.test',
    `daemon_smtp_ports = ${port}`,
    'local_interfaces = 127.0.0.1',
    'smtp_accept_max = 0',
    'smtp_accept_queue_per_connection = 0',
    'host_lookup =',
    'rfc1413_hosts =',
  ];
}

interface Parts extends EximPlace {
  readonly options: EximOptions;
}

function configuration({ program, folder, port, options: { tls, routes = {} } }: Parts): string {
  const ports = Object.entries(routes);
  function answered(verb: 'deny' | 'defer'): string[] {
    const found = `\${lookup{$local_part@$domain}lsearch,cache=no_rd{${folder}/${verb}}{$value}{}}`;
    return [`  ${verb}`, `    condition = \${if !eq{${found}}{}}`, `    message = ${found}`];
  }
  return [
    ...settingsOf({ program, folder, port }),
    'message_size_limit = 60M',
    'smtputf8_advertise_hosts = *',
    'log_selector = +smtp_connection +tls_cipher',
    // Mail that goes on waits for the queue runner, so that a connection carries several.
    `queue_only = ${ports.length > 0}`,
    ...(tls === undefined
      ? ['tls_advertise_hosts =']
      : ['tls_advertise_hosts = *', `tls_certificate = ${folder}/cert.pem`, `tls_privatekey = ${folder}/key.pem`]),
    'acl_smtp_rcpt = recipient',
    'acl_smtp_data = accept',
    'begin acl',
    'recipient:',
    ...answered('deny'),
    ...answered('defer'),
    '  accept',
    'begin routers',
    ...ports.flatMap(([domain, to], i) => [
      `route${i}:`,
      '  driver = manualroute',
      `  domains = ${domain}`,
      `  route_list = * 127.0.0.1::${to} byname`,
      '  self = send',
      '  transport = smtp',
    ]),
    'local:',
    '  driver = accept',
    '  transport = box',
    'begin transports',
    'smtp:',
    '  driver = smtp',
    '  allow_localhost',
    '  connection_max_messages = 100',
    '  tls_verify_certificates =',
    'box:',
    '  driver = appendfile',
    '  maildir_format',
    `  directory = ${folder}/mail`,
    `  user = ${USER}`,
    `  group = ${USER}`,
    '  create_directory',
    '  envelope_to_add',
    '  return_path_add',
    'begin retry',
    '* * F,1h,1s',
    '',
  ].join('\n');
}
