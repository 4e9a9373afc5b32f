/** The files of config/proxies with the real proxies: the visitor's address, large uploads, links, and mail with the PROXY protocol. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { parseServer } from '../../src/config/parse.ts';
import { NO_SECRETS } from '../../src/config/secrets.ts';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { ask } from '../harness/binary.ts';
import { answers, freePort, startChild, untilReady } from '../harness/child.ts';
import { startTestWorld, SITE, type TestWorld } from '../harness/daemon.ts';
import { needPackage } from '../harness/debian.ts';
import { temporaryFolder } from '../harness/store.ts';

const PROXIES = join(import.meta.dirname, '../../config/proxies');
const VISITOR = '127.0.0.77';
const UPLOAD_BYTES = 20_000_000;

function file(name: string): string {
  return readFileSync(join(PROXIES, name), 'utf8');
}

/** The settings of config/proxies/server.yml, on ports that are free. */
async function startBehind(name: string, smtpPort = 0): Promise<{ world: TestWorld; port: number }> {
  const { server, inbound = {} } = parse(file(name)) as {
    server: Record<string, object>;
    inbound?: Record<string, unknown>;
  };
  const port = await freePort();
  const world = await startTestWorld({
    projects: { 'site.yml': SITE.replace('enabled: true', 'enabled: true, max_size: 21MiB') },
    server: {
      server: {
        http: { ...server['http'], listen: [`127.0.0.1:${port}`] },
        ...(smtpPort === 0 ? {} : { smtp: { listen: [`127.0.0.1:${smtpPort}`] } }),
      },
      inbound,
      tls: { mode: 'off' },
      limits: { body: '24MiB', file: '21MiB', files_total: '21MiB', message: '40MiB' },
    },
  });
  return { world, port };
}

interface Front {
  /** The command and its arguments. */
  readonly command: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

interface Place {
  readonly folder: string;
  readonly plain: number;
  readonly secure: number;
  readonly backend: number;
  readonly cert: string;
  readonly key: string;
}

async function placeFor(backend: number): Promise<Place> {
  const folder = await temporaryFolder();
  const { cert, key } = selfSignedCertificate(['mail.example.net'], Date.now());
  await writeFile(join(folder, 'cert.pem'), cert);
  await writeFile(join(folder, 'key.pem'), key);
  await writeFile(join(folder, 'both.pem'), `${cert}\n${key}`);
  const [plain, secure] = [await freePort(), await freePort()];
  return { folder, plain, secure, backend, cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
}

/** Replaces what stands in the file by what the test has; each must be there. */
function adapted(text: string, changes: readonly (readonly [from: string, to: string])[]): string {
  return changes.reduce((all, [from, to]) => {
    if (!all.includes(from)) throw new Error(`the file has no ${from}`);
    return all.replaceAll(from, to);
  }, text);
}

async function nginx({ folder, plain, secure, backend, cert, key }: Place): Promise<Front> {
  needPackage('/usr/sbin/nginx', 'nginx');
  const site = adapted(file('nginx.conf'), [
    ['listen [::]:80;', ''],
    ['listen [::]:443 ssl http2;', ''],
    ['listen 80;', `listen 127.0.0.1:${plain};`],
    ['listen 443 ssl', `listen 127.0.0.1:${secure} ssl`],
    ['127.0.0.1:8080', `127.0.0.1:${backend}`],
    ['/etc/letsencrypt/live/mail.example.net/fullchain.pem', cert],
    ['/etc/letsencrypt/live/mail.example.net/privkey.pem', key],
  ]);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const config = join(folder, 'nginx.conf');
  await writeFile(
    config,
    `daemon off; user root; pid ${folder}/pid; error_log stderr; events {}
http { access_log off; ${temporary.join(' ')}
${site} }`,
  );
  return { command: ['/usr/sbin/nginx', '-c', config] };
}

async function caddy({ folder, plain, secure, backend, cert, key }: Place): Promise<Front> {
  needPackage('/usr/bin/caddy', 'caddy');
  const site = adapted(file('Caddyfile'), [
    ['127.0.0.1:8080', `127.0.0.1:${backend}`],
    // Caddy would ask Let's Encrypt.
    ['https://mail.example.net {', `https://mail.example.net {\n\ttls ${cert} ${key}`],
  ]);
  const config = join(folder, 'Caddyfile');
  await writeFile(config, `{\n\thttp_port ${plain}\n\thttps_port ${secure}\n\tadmin off\n}\n${site}`);
  await mkdir(join(folder, 'home'));
  const home = join(folder, 'home');
  return {
    command: ['/usr/bin/caddy', 'run', '--config', config, '--adapter', 'caddyfile'],
    env: { ...process.env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home },
  };
}

interface Mail {
  readonly front: number;
  readonly back: number;
}

async function haproxy({ folder, plain, secure, backend }: Place, mail?: Mail): Promise<Front> {
  needPackage('/usr/sbin/haproxy', 'haproxy');
  const text = adapted(file('haproxy.cfg'), [
    ['bind :80\n', `bind 127.0.0.1:${plain}\n`],
    ['bind :443', `bind 127.0.0.1:${secure}`],
    ['bind :25\n', `bind 127.0.0.1:${mail?.front ?? (await freePort())}\n`],
    ['127.0.0.1:8080', `127.0.0.1:${backend}`],
    ['127.0.0.1:2525', `127.0.0.1:${mail?.back ?? 1}`],
    ['/etc/haproxy/mail.example.net.pem', join(folder, 'both.pem')],
  ]);
  const config = join(folder, 'haproxy.cfg');
  await writeFile(config, text);
  return { command: ['/usr/sbin/haproxy', '-db', '-f', config] };
}

/** HAProxy that passes TLS on. */
async function haproxyTcp({ folder, plain, secure, backend }: Place, tls: number): Promise<Front> {
  needPackage('/usr/sbin/haproxy', 'haproxy');
  const text = adapted(file('haproxy-tcp.cfg'), [
    ['bind :80\n', `bind 127.0.0.1:${plain}\n`],
    ['bind :443\n', `bind 127.0.0.1:${secure}\n`],
    ['bind :25\n', `bind 127.0.0.1:${await freePort()}\n`],
    ['127.0.0.1:8080', `127.0.0.1:${backend}`],
    ['127.0.0.1:8443', `127.0.0.1:${tls}`],
  ]);
  const config = join(folder, 'haproxy-tcp.cfg');
  await writeFile(config, text);
  return { command: ['/usr/sbin/haproxy', '-db', '-f', config] };
}

async function run({ command: [command = '', ...args], env }: Front, port: number): Promise<void> {
  const child = await startChild(command, args, env === undefined ? {} : { env });
  onTestFinished(() => child.stop());
  await untilReady(child, () => answers(port));
}

interface Answered {
  readonly status: number;
  readonly text: string;
}

function send(
  port: number,
  path: string,
  body: FormData | undefined,
  headers: Record<string, string>,
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const encoded = new Response(body);
    const type = encoded.headers.get('content-type');
    const sent = request(
      {
        host: '127.0.0.1',
        port,
        path,
        localAddress: VISITOR,
        servername: 'mail.example.net',
        rejectUnauthorized: false,
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          Host: 'mail.example.net',
          ...headers,
          ...(type === null ? {} : { 'Content-Type': type }),
        },
      },
      (response) => void textOf(response).then((text) => resolve({ status: response.statusCode ?? 0, text }), reject),
    );
    sent.on('error', reject);
    void encoded.arrayBuffer().then((bytes) => sent.end(Buffer.from(bytes)));
  });
}

function sendPlain(port: number, path: string): Promise<{ status: number; location: string | undefined }> {
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, path, headers: { Host: 'mail.example.net' } }, (response) => {
      response.resume();
      resolve({ status: response.statusCode ?? 0, location: response.headers.location });
    }).on('error', reject);
  });
}

describe.each([
  ['nginx', nginx],
  ['Caddy', caddy],
  ['HAProxy', haproxy],
])('%s', (_name, front) => {
  test('passes the visitor’s address and 20 MB on, and links are https', async () => {
    const { world, port } = await startBehind('server.yml');
    const place = await placeFor(port);
    await run(await front(place), place.secure);
    const body = new FormData();
    body.set('email', 'ana@inbox.test');
    body.set('message', 'With a file');
    body.set('plan', new Blob([Buffer.alloc(UPLOAD_BYTES, 'a')], { type: 'text/plain' }), 'plan.txt');
    // What a visitor claims counts for nothing.
    const claimed = { Accept: 'application/json', 'X-Forwarded-For': '198.51.100.1' };
    const posted = await send(place.secure, '/example.test/contact', body, claimed);
    expect(posted).toMatchObject({ status: 200 });
    expect(posted.text).toContain('"next":"https://mail.example.net/example.test/contact?thanks"');
    const { body: listed } = await ask({
      socketPath: world.daemon.addresses?.socket,
      path: '/forms/example.test/contact/submissions',
    });
    const { submissions } = z.object({ submissions: z.array(z.object({ ip: z.string() })) }).parse(listed);
    expect(submissions.map(({ ip }) => ip)).toEqual([VISITOR]);
    // A page that would be redirected to https if the proxy did not say that it is there already.
    const page = await send(place.secure, '/example.test/contact', undefined, { Accept: 'text/html' });
    expect(page.status).toBe(200);
    // Browsers go to https; proofs for the certificate reach Postern.
    const home = await sendPlain(place.plain, '/');
    expect(home).toMatchObject({ status: 308, location: 'https://mail.example.net/' });
    const proof = await sendPlain(place.plain, '/.well-known/acme-challenge/unknown');
    expect(proof).toMatchObject({ status: 404, location: undefined });
  });
});

test('HAProxy that passes connections on: TLS is Postern’s, and the visitor’s address is right', async () => {
  const [back, tls] = [await freePort(), await freePort()];
  const place = await placeFor(back);
  const { server } = parse(file('server-tcp.yml')) as { server: { http: object } };
  const listen = [`127.0.0.1:${back}`, `https://127.0.0.1:${tls}`];
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: {
      server: { http: { ...server.http, listen } },
      tls: { mode: 'files', files: { cert: place.cert, key: place.key } },
    },
  });
  await run(await haproxyTcp(place, tls), place.secure);
  const body = new FormData();
  body.set('email', 'ana@inbox.test');
  body.set('message', 'Through HAProxy');
  const claimed = { Accept: 'application/json', 'X-Forwarded-For': '198.51.100.1' };
  expect(await send(place.secure, '/example.test/contact', body, claimed)).toMatchObject({ status: 200 });
  const { body: listed } = await ask({
    socketPath: world.daemon.addresses?.socket,
    path: '/forms/example.test/contact/submissions',
  });
  const { submissions } = z.object({ submissions: z.array(z.object({ ip: z.string() })) }).parse(listed);
  expect(submissions.map(({ ip }) => ip)).toEqual([VISITOR]);
  const proof = await sendPlain(place.plain, '/.well-known/acme-challenge/unknown');
  expect(proof).toMatchObject({ status: 404, location: undefined });
});

test('HAProxy: mail comes with the address of its client', async () => {
  const [frontPort, back] = [await freePort(), await freePort()];
  const { port, world } = await startBehind('server-mail.yml', back);
  const place = await placeFor(port);
  await run(await haproxy(place, { front: frontPort, back }), frontPort);
  const lines = ['EHLO client.test', 'MAIL FROM:<>', 'RCPT TO:<postmaster@mail.postern.test>', 'DATA'];
  const replies = await dialogue(frontPort, [...lines, 'From: ana@client.test\r\n\r\nHello\r\n.', 'QUIT']);
  expect(replies).toMatch(/^250 2\.0\.0 accepted/m);
  const mails = await world.caught(1);
  const [mail] = mails.list();
  const source = mail === undefined ? '' : (await mails.source(mail)).toString();
  expect(source).toMatch(/^Received: from client\.test \(.*127\.0\.0\.77/m);
});

/** What a server answers to these lines, one after the other. */
function dialogue(port: number, lines: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const left = [...lines];
    let said = '';
    const socket = connect({ host: '127.0.0.1', port, localAddress: VISITOR });
    socket.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const next = /^\d{3} .*\r\n$/m.test(text) ? left.shift() : undefined;
      if (next !== undefined) socket.write(`${next}\r\n`);
    });
    socket.on('close', () => resolve(said)).on('error', reject);
  });
}

test('the files are valid', async () => {
  for (const name of ['server.yml', 'server-mail.yml', 'server-tcp.yml', 'cloudflare.yml']) {
    const parsed = parseServer(file(name), name, NO_SECRETS);
    expect(parsed, name).toHaveProperty('ok');
    expect(parsed.warnings, name).toEqual([]);
  }
  const traefik = parse(file('traefik.yml')) as object;
  expect(traefik).toMatchObject({ http: { routers: {}, services: {} }, tcp: { routers: {}, services: {} } });
  const place = await placeFor(1);
  const { command } = await haproxy(place);
  execFileSync('/usr/sbin/haproxy', ['-c', '-f', command.at(-1) ?? ''], { stdio: 'ignore' });
  execFileSync('/usr/sbin/haproxy', ['-c', '-f', join(PROXIES, 'haproxy-tcp.cfg')], { stdio: 'ignore' });
});
