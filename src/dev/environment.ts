/**
 * `npm start`: the real daemon with a whole mail world round it on loopback, so that a laptop sends and receives without
 * the internet. The demo domain is verified by asking a real DNS server for records that the daemon itself demanded, and
 * its mail goes over SMTP to a catching mail server that checks every signature.
 */
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import type Koa from 'koa';
import { hostRecords } from '../domains/rotation.ts';
import { startDaemon, type Daemon } from '../daemon/daemon.ts';
import { createResolver } from '../dns/resolver.ts';
import { PassingError, codeOf } from '../lib/errors.ts';
import { createLog } from '../lib/log.ts';
import { startCatchingMx } from './catching-mx.ts';
import { startDnsServer, type ZoneRecord } from './dns-server.ts';
import { outboxPages } from './outbox.ts';
import { html } from '../lib/html.ts';
import { sendPage } from './page.ts';

export interface WorldOptions {
  /** Folder of everything that is kept: configuration, database, caught mail. */
  readonly data: string;
  /** Port of the web pages; a free one where it is taken. */
  readonly port: number;
  /** Port where the daemon takes mail; a free one where it is taken. */
  readonly smtpPort: number;
  readonly write: (text: string) => void;
}

export interface World {
  /** Address of the demo form: `http://localhost:8025/`. */
  readonly url: string;
  close(): Promise<void>;
}

const HOSTNAME = 'mail.postern.test';
const DEMO = 'demo.test';
const INBOX = 'inbox.test';

const PUBLIC_ZONE: readonly ZoneRecord[] = [
  { name: HOSTNAME, type: 'A', value: '127.0.0.1' },
  { name: '1.0.0.127.in-addr.arpa', type: 'PTR', value: HOSTNAME },
  { name: HOSTNAME, type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
  { name: DEMO, type: 'TXT', value: `v=spf1 a:${HOSTNAME} -all` },
  { name: `_dmarc.${DEMO}`, type: 'TXT', value: 'v=DMARC1; p=reject' },
  // Every address in the world is at the catching mail server.
  { name: '*', type: 'MX', value: '10 mx.inbox.test' },
  { name: 'mx.inbox.test', type: 'A', value: '127.0.0.1' },
];

/** Starts all of it; resolves when the demo domain is verified and the first form can be sent. */
export async function startWorld({ data, port, smtpPort, write }: WorldOptions): Promise<World> {
  const folder = resolve(data);
  const closing: (() => Promise<void>)[] = [];
  async function close(): Promise<void> {
    for (const end of closing.splice(0).reverse()) await end();
  }
  try {
    await refuseSecond(folder);
    const dns = await startDnsServer(PUBLIC_ZONE);
    closing.push(() => dns.close());
    const mx = await startCatchingMx({
      folder: join(folder, 'outbox'),
      hostname: 'mx.inbox.test',
      resolver: createResolver({ servers: [dns.address] }),
      log: await createLog({ level: 'warn', format: 'auto', redact_addresses: false }),
    });
    closing.push(() => mx.close());
    const web = await freePort(port);
    const inbound = await freePort(smtpPort);
    const config = await writeConfiguration(folder, { web, dns: dns.address, smtp: mx.port, inbound });
    const demo = demoPages(`/${DEMO}/contact`);
    const outbox = outboxPages(mx.mails);
    const daemon = await startDaemon(config, {
      // Loopback is all that it listens on, and the data is made up.
      isDev: true,
      async extra(ctx, next) {
        await demo(ctx, async () => {
          await outbox(ctx, next);
        });
      },
    });
    closing.push(() => daemon.close());
    await verify(daemon, (records) => dns.set([...PUBLIC_ZONE, ...records]));
    const url = `http://localhost:${web}/`;
    write(`
  Postern is running in a local mail environment.

    Demo form     ${url}
    Console       ${url}console   (you are signed in as the operator)
    Outbox        ${url}outbox
    Form address  ${url}${DEMO}/contact   (curl -d name=You -d email=you@${INBOX} -d message=Hello …)
    API           ${url}docs   (no key: curl --unix-socket ${join(folder, 'admin.sock')} http://localhost/auth/status)
    Mail in       127.0.0.1:${inbound}   (hello@${DEMO} is forwarded)
    Mail server   ${mx.address}   (captures all mail)
    DNS server    ${dns.address}
    Data          ${folder}   (you can edit config/projects/demo.yml)

  Press Ctrl-C to stop.
`);
    return { url, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A second world in the folder would write over the configuration of the first, which takes that over while it runs. */
async function refuseSecond(folder: string): Promise<void> {
  const socket = connect(join(folder, 'admin.sock'));
  const isThere = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  if (isThere)
    throw new PassingError(`postern dev is already running in ${folder}. To use another folder, add --data <folder>`);
}

/** Publishes what the daemon asks for, and has it look. */
async function verify(daemon: Daemon, publish: (records: ZoneRecord[]) => void): Promise<void> {
  const wanted = await daemon.domains.report(DEMO);
  const own = await hostRecords(daemon.store, HOSTNAME);
  const records = [...(wanted?.records.filter((record) => record.required) ?? []), ...own];
  publish(records.map(({ name, type, value }) => ({ name, type, value })));
  const found = await daemon.domains.check(DEMO);
  if (found?.status !== 'verified') {
    const problems = found?.records.flatMap(({ name, status }) => (status === 'ok' ? [] : [`${name}: ${status}`]));
    throw new Error(`${DEMO} was not verified: ${problems?.join(', ') ?? 'it is not in the configuration'}`);
  }
}

async function writeConfiguration(
  folder: string,
  ports: { readonly web: number; readonly dns: string; readonly smtp: number; readonly inbound: number },
): Promise<string> {
  const config = join(folder, 'config');
  await mkdir(join(config, 'projects'), { recursive: true });
  const server = `# Written by \`postern dev\` at each start.
server:
  hostname: ${HOSTNAME}
  operator: ops@${INBOX}
  http: { listen: ["127.0.0.1:${ports.web}", "[::1]:${ports.web}"], base_url: "http://localhost:${ports.web}" }
  smtp: { listen: ["127.0.0.1:${ports.inbound}"] }
  admin_socket: ${JSON.stringify(join(folder, 'admin.sock'))}
database: { url: ${JSON.stringify(`sqlite:${join(folder, 'postern.db')}`)} }
dns: { servers: ["${ports.dns}"] }
webhooks: { allow_private_networks: true }
delivery: { port: ${ports.smtp}, allow_private_networks: true }
`;
  await writeFile(join(config, 'server.yml'), server);
  await writeFile(join(config, 'projects', 'demo.yml'), DEMO_PROJECT, { flag: 'wx' }).catch((error: unknown) => {
    // An edited one is kept: the demo is there to be played with.
    if (codeOf(error) !== 'EEXIST') throw error;
  });
  return join(config, 'server.yml');
}

const DEMO_PROJECT = `# The form of the demo page. You can change it while the daemon runs: it is reloaded within two seconds.
project: { name: Demo, slug: demo, owner: owner@${INBOX} }
domains:
  ${DEMO}:
    forwarding:
      "hello@${DEMO}": owner@${INBOX}
    forms:
      contact:
        name: Contact form
        to: owner@${INBOX}
        required: [name, email, message]
        fields:
          name: { label: Your name }
          message: { label: Your message }
        uploads: { enabled: true }
        allow_localhost: true
        acknowledgment: { enabled: true, subject: We have received your message }
        rateLimit: 1000
`;

/** The port that is wanted, or a free one where another program has it. */
async function freePort(wanted: number): Promise<number> {
  const probe = createServer();
  try {
    probe.listen(wanted, '127.0.0.1');
    await once(probe, 'listening');
    const address = probe.address();
    return typeof address === 'object' && address !== null ? address.port : wanted;
  } catch (error) {
    if (codeOf(error) !== 'EADDRINUSE') throw error;
    return await freePort(0);
  } finally {
    probe.close();
  }
}

// * The demo form: what somebody's web site would hold, as plain HTML that needs no script, with a second button that sends
// the same fields with fetch().

const SCRIPT = `
const form = document.querySelector('form');
const output = document.querySelector('output');
const button = document.querySelector('#fetch');
button.hidden = false;
button.addEventListener('click', async () => {
  if (!form.reportValidity()) return;
  button.disabled = true;
  say('', 'Sending …');
  try {
    const response = await fetch(form.action, { method: 'POST', body: new FormData(form), headers: { Accept: 'application/json' } });
    const answer = await response.json();
    const problems = (answer.errors || []).map((error) => (error.field ? error.field + ': ' : '') + error.message);
    say(response.ok ? 'good' : 'bad', [response.status + ' ' + (answer.message || response.statusText), ...problems].join('\\n'));
    if (response.ok) form.reset();
  } catch (error) {
    say('bad', 'Not sent: ' + error.message);
  } finally {
    button.disabled = false;
  }
});
function say(kind, text) {
  output.dataset.kind = kind;
  output.textContent = text;
}
`;

/** Answers `GET /` with a form that is sent to the path `endpoint`; leaves everything else alone. */
export function demoPages(endpoint: string): Koa.Middleware {
  return async (ctx, next) => {
    if (ctx.path !== '/' || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) {
      await next();
      return;
    }
    const url = `${ctx.protocol}://${ctx.host}${endpoint}`;
    sendPage(ctx, {
      title: 'Demo form',
      place: 'demo',
      narrow: true,
      script: SCRIPT,
      policy: ["form-action 'self'", "connect-src 'self'"],
      content: html` <h1>Write to us</h1>
        <p class="soft">
          This form is plain HTML. What you send is queued, rendered, signed with DKIM and delivered by SMTP to a mail
          server on this machine. Read it in the <a href="/outbox">outbox</a>.
        </p>
        <form action="${endpoint}" method="post" enctype="multipart/form-data">
          <div class="two">
            <div class="field">
              <label for="name">Name</label><input id="name" name="name" autocomplete="name" required />
            </div>
            <div class="field">
              <label for="email">Email</label
              ><input id="email" name="email" type="email" autocomplete="email" required />
            </div>
          </div>
          <div class="field">
            <label for="message">Message</label><textarea id="message" name="message" rows="6" required></textarea>
          </div>
          <div class="field">
            <label for="files">Files</label
            ><input id="files" name="files" type="file" multiple aria-describedby="files-hint" />
            <p class="hint" id="files-hint">One or more. They arrive as attachments.</p>
          </div>
          <div class="trap" aria-hidden="true">
            <label for="trap">Leave this empty</label
            ><input id="trap" name="_service_honeypot" tabindex="-1" autocomplete="off" />
          </div>
          <div class="buttons">
            <button>Send</button><button type="button" class="quiet" id="fetch" hidden>Send with fetch()</button>
          </div>
          <output aria-live="polite"></output>
        </form>
        <details>
          <summary>The same from a terminal</summary>
          <pre><code>curl ${url} \\
  -F name='Ada Lovelace' -F email=ada@example.org \\
  -F message='Hello from curl' -F files=@README.md

curl ${url} -H 'content-type: application/json' \\
  -d '{"name":"Ada Lovelace","email":"ada@example.org","message":"Hello from JSON"}'</code></pre>
        </details>`,
    });
  };
}
