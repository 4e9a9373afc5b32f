/**
 * A small Internet for a booted Debian: a network namespace at the other end of its only cable, with a name server, Let's
 * Encrypt (Pebble behind nginx), downloads, and a mail server. Nothing of it can be reached from elsewhere. Needs root.
 */
import { execFile, execFileSync } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { startChild, untilReady, type Child } from './child.ts';
import type { DebianMachine } from './debian-machine.ts';
import { needPackage } from './debian.ts';
import { startPostfix, type Postfix } from './postfix.ts';
import { temporaryFolder } from './store.ts';

/** Of the machine, and of what it finds out there; public in form, because other addresses are treated as private ones. */
const NETWORK = '193.0.113';
const HOSTS = { router: 1, machine: 5, certificates: 14, mail: 25, dns: 53 } as const;
const OUTSIDE = ['router', 'certificates', 'mail', 'dns'] as const;

/** Names for examples get no certificate, and their addresses are private: out there, others stand in for them. */
const STAND_INS = [
  ['example.', 'exampel.'],
  ['example-', 'exampel-'],
  ['203.0.113.', '193.0.113.'],
  ['113.0.203.', '113.0.193.'],
] as const;

/** A text of the documentation with the names that are used. */
export function real(text: string): string {
  return STAND_INS.reduce((all, [shown, used]) => all.replaceAll(shown, used), text);
}

/** The other way round. */
export function shown(text: string): string {
  return STAND_INS.reduce((all, [wanted, used]) => all.replaceAll(used, wanted), text);
}

interface Files {
  readonly cert: string;
  readonly key: string;
}

export interface InternetOptions {
  /** Records of the root zone, in the syntax of zone files. */
  readonly zone: string;
  /** Files that `https://<downloads>/` serves. */
  readonly downloads: { readonly host: string; readonly files: readonly string[] };
}

export interface Internet {
  /** Where everything arrives whose MX host is at `addressOf('mail')`. */
  readonly mail: Postfix;
  /** Adds records, as zone files have them. */
  publish(records: string): Promise<void>;
  /** Runs a script on the computer of somebody else, who trusts the certificate authority. */
  run(script: string): Promise<string>;
}

/** `193.0.113.25` */
export function addressOf(host: keyof typeof HOSTS): string {
  return `${NETWORK}.${HOSTS[host]}`;
}

/** Connects the machine; everything ends with the test. */
export async function startInternet(machine: DebianMachine, { zone, downloads }: InternetOptions): Promise<Internet> {
  needPackage('/usr/bin/pebble', 'pebble');
  needPackage('/usr/sbin/nginx', 'nginx');
  needPackage('/usr/sbin/nsd', 'nsd');
  const folder = await temporaryFolder();
  const enter = await connectCable(folder, machine);
  const authority = selfSignedCertificate(['acme-v02.api.letsencrypt.org', downloads.host], Date.now());
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, authority.cert);
  await writeFile(files.key, authority.key);
  await machine.succeed(`echo nameserver ${addressOf('dns')} > /etc/resolv.conf
cat > /usr/local/share/ca-certificates/internet.crt <<'EOF'
${authority.cert}
EOF
update-ca-certificates`);

  const own = addressOf('certificates');
  const hosts = `acme-v02.api.letsencrypt.org. A ${own}\n${downloads.host}. A ${own}\n`;
  const nameServer = await startNameServer(folder, enter, `${hosts}${zone}`);
  await startAuthority(folder, enter, files);
  await mkdir(join(folder, 'downloads'));
  for (const file of downloads.files) await cp(file, join(folder, 'downloads', basename(file)));
  await startFront(folder, enter, files);
  const mail = await startPostfix({
    port: 25,
    network: { enter, host: addressOf('mail') },
    tls: files,
    settings: { mynetworks: `${NETWORK}.0/24` },
  });
  onTestFinished(() => mail.close());
  const roots = join(folder, 'roots.pem');
  await writeFile(roots, await run('curl --silent --insecure https://127.0.0.1:15000/roots/0'));
  return { mail, publish: nameServer.publish, run };

  async function run(script: string): Promise<string> {
    const [command, ...args] = [...enter, '/bin/sh', '-c', script];
    const env = { PATH: process.env['PATH'], CURL_CA_BUNDLE: roots };
    return (await promisify(execFile)(command, args, { env })).stdout;
  }
}

/** The words before a command that runs out there. */
async function connectCable(folder: string, machine: DebianMachine): Promise<string[]> {
  const names = join(folder, 'resolv.conf');
  await writeFile(names, `nameserver ${addressOf('dns')}\n`);
  const script = 'mount --bind "$0" /etc/resolv.conf && echo ready && exec sleep infinity';
  const outside = await startChild('unshare', ['--net', '--mount', 'sh', '-c', script, names]);
  onTestFinished(() => outside.stop());
  await untilReady(outside, () => outside.output().includes('ready'));
  const enter = ['nsenter', '--net', '--mount', '--target', `${outside.pid}`, '--'];
  const inside = ['nsenter', '--net', '--target', `${machine.pid}`, '--'];
  ip(enter, `link add cable type veth peer name eth0 netns ${machine.pid}`);
  ip(enter, 'link set lo up');
  for (const host of OUTSIDE) ip(enter, `address add ${addressOf(host)}/24 dev cable`);
  ip(enter, 'link set cable up');
  ip(inside, `address add ${addressOf('machine')}/24 dev eth0`);
  ip(inside, 'link set eth0 up');
  ip(inside, `route add default via ${addressOf('router')}`);
  return enter;
}

function ip(enter: readonly string[], words: string): void {
  const [command = '', ...args] = [...enter, 'ip', ...words.split(' ')];
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** NSD with a root zone. It reads the zone anew for each publication. */
async function startNameServer(folder: string, enter: readonly string[], zone: string) {
  const place = join(folder, 'nsd');
  await mkdir(place);
  const config = `server:
  ip-address: ${addressOf('dns')}
  server-count: 1
  username: ""
  database: ""
  zonesdir: "${place}"
  pidfile: "${place}/nsd.pid"
  xfrdfile: "${place}/xfrd.state"
  zonelistfile: "${place}/zone.list"
  xfrdir: "${place}"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: "."
  zonefile: "root.zone"
`;
  await writeFile(join(place, 'nsd.conf'), config);
  const head = `$TTL 60\n. SOA ns.root. ops.root. 1 3600 600 86400 1\n. NS ns.root.\nns.root. A ${addressOf('dns')}\n`;
  let records = `${head}${zone}\n`;
  let nsd = await serve();
  onTestFinished(() => nsd.stop());
  return {
    async publish(more: string) {
      records += `${more}\n`;
      await nsd.stop();
      nsd = await serve();
    },
  };

  async function serve(): Promise<Child> {
    await writeFile(join(place, 'root.zone'), records);
    const [command, ...args] = [...enter, '/usr/sbin/nsd', '-d', '-c', join(place, 'nsd.conf')];
    const child = await startChild(command, args);
    await untilReady(child, () => child.output().includes('nsd started'));
    return child;
  }
}

/** Pebble, on loopback out there; it asks the name server, and comes to ports 80 and 443 for proofs. */
async function startAuthority(folder: string, enter: readonly string[], files: Files): Promise<void> {
  const pebble = {
    listenAddress: '127.0.0.1:14000',
    managementListenAddress: '127.0.0.1:15000',
    certificate: files.cert,
    privateKey: files.key,
    httpPort: 80,
    tlsPort: 443,
    externalAccountBindingRequired: false,
  };
  const config = join(folder, 'pebble.json');
  await writeFile(config, JSON.stringify({ pebble }));
  const words = [...enter, '/usr/bin/pebble', '-config', config, '-dnsserver', `${addressOf('dns')}:53`];
  const [command = '', ...args] = words;
  const env = { ...process.env, PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '0' };
  const child = await startChild(command, args, { env });
  onTestFinished(() => child.stop());
  await untilReady(child, () => answersAt(enter, '127.0.0.1/14000') && answersAt(enter, '127.0.0.1/15000'));
}

/** nginx, which gives Pebble the addresses of Let's Encrypt, and serves the downloads. */
async function startFront(folder: string, enter: readonly string[], files: Files): Promise<void> {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const config = `daemon off;
pid ${folder}/front.pid;
error_log stderr;
user root;
events {}
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  server {
    listen ${addressOf('certificates')}:443 ssl;
    ssl_certificate ${files.cert};
    ssl_certificate_key ${files.key};
    proxy_set_header Host $host;
    location = /directory { proxy_pass https://127.0.0.1:14000/dir; }
    location ~ ^/postern { root ${folder}/downloads; }
    location / { proxy_pass https://127.0.0.1:14000; }
  }
}
`;
  const file = join(folder, 'front.conf');
  await writeFile(file, config);
  const [command, ...args] = [...enter, '/usr/sbin/nginx', '-c', file];
  const child = await startChild(command, args);
  onTestFinished(() => child.stop());
  await untilReady(child, () => answersAt(enter, `${addressOf('certificates')}/443`));
}

/** Whether anybody listens at `address/port` out there. */
function answersAt(enter: readonly string[], place: string): boolean {
  const [command, ...args] = [...enter, 'bash', '-c', `exec 3<>/dev/tcp/${place}`];
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
