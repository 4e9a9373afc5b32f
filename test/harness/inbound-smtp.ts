/** The SMTP listener on loopback with a store of its own, and clients that speak to it byte by byte. */
import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { onTestFinished } from 'vitest';
import { projectSchema } from '../../src/config/schema.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { buildSnapshot, type Snapshot } from '../../src/config/snapshot.ts';
import type { CertificateKeeper } from '../../src/lib/certificate.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { openReturnPath, returnPath } from '../../src/mail/own-addresses.ts';
import { createSmtpPolicy, type SmtpPolicyParts } from '../../src/smtp/accept.ts';
import { SmtpListener } from '../../src/smtp/listener.ts';
import type { Directory } from '../../src/smtp/recipients.ts';
import type { Deadlines } from '../../src/smtp/session.ts';
import { rawChunks } from '../../src/store/inbound.ts';
import type { Store } from '../../src/store/store.ts';
import type { DomainStatus } from '../../src/store/tables.ts';
import { openTestStore } from './store.ts';

export const HOSTNAME = 'mail.postern.test';
export const RETURN_SECRET = createSecretKey(Buffer.alloc(32, 7));

export interface InboundSettings {
  /** Of `example.test`. */
  readonly forwarding?: Readonly<Record<string, string | readonly string[]>>;
  /** More domains, as a project file has them. */
  readonly domains?: Readonly<Record<string, object>>;
  readonly status?: Readonly<Record<string, DomainStatus>>;
  readonly limits?: object;
  readonly inbound?: object;
  readonly deadlines?: { readonly usual: Deadlines; readonly crowded: Deadlines };
  readonly certificate?: CertificateKeeper;
  readonly clock?: Clock;
  readonly store?: Store;
  readonly host?: string;
  /** By which it knows its own daemon. */
  readonly mark?: string;
  readonly directory?: Partial<Directory>;
  readonly parts?: Partial<SmtpPolicyParts>;
}

export interface TestInboundSmtp {
  readonly port: number;
  readonly store: Store;
  readonly listener: SmtpListener;
  client(): Promise<SmtpClient>;
  /** Everything taken, oldest first, with its bytes as they are in the store. */
  taken(): Promise<
    { id: string; sender: string; recipients: string[]; raw: string; trace: string; encoding: string }[]
  >;
  /** What was written down, oldest first. */
  log(): Promise<{ recipient: string; outcome: string; reply: string; reason: string; tenant: string | null }[]>;
}

/** A frozen configuration with the domain `example.test`. */
export function inboundSnapshot({ forwarding, domains, limits, inbound }: InboundSettings = {}): Snapshot {
  const config = projectSchema.parse({
    project: { name: 'Site', slug: 'site', owner: 'owner@inbox.test' },
    domains: {
      'example.test': { forwarding: forwarding ?? { 'info@example.test': 'ana@inbox.test' } },
      ...domains,
    },
  });
  const project = { revision: 'rev_1', slug: 'site', tenant: 'ten_operator', source: 'file', config } as const;
  const server = serverSchema.parse({
    server: { hostname: HOSTNAME, operator: 'ops@inbox.test' },
    limits: { free_disk: '1B', ...limits },
    ...(inbound === undefined ? {} : { inbound }),
  });
  return buildSnapshot({ server, projects: [project] });
}

/** Starts it; everything ends with the test. */
export async function startInboundSmtp(settings: InboundSettings = {}): Promise<TestInboundSmtp> {
  const { clock = systemClock, status = {}, parts = {}, host = '127.0.0.1' } = settings;
  const store = settings.store ?? (await openTestStore());
  const snapshot = inboundSnapshot(settings);
  const policy = createSmtpPolicy({
    store,
    clock,
    log: silentLog,
    directory: () => ({
      snapshot,
      status: (domain) => status[domain] ?? 'verified',
      openReturnPath: (address) => openReturnPath(address, RETURN_SECRET),
      openSrs: () => undefined,
      openReply: () => undefined,
      ...settings.directory,
    }),
    freeSpace: { below: () => false },
    authenticate: () => Promise.resolve({ headers: '', verdicts: '{}' }),
    takeBounce: () => Promise.resolve({ rows: [] }),
    takeReturned: () => Promise.resolve({ rows: [] }),
    takeReply: () => Promise.resolve({ rows: [] }),
    takeReport: () => Promise.resolve({ rows: [] }),
    ask: () => Promise.resolve(),
    wake() {},
    ...parts,
  });
  const listener = new SmtpListener({
    clock,
    log: silentLog,
    config: () => snapshot.server,
    certificate: settings.certificate,
    policy,
    ...(settings.deadlines === undefined ? {} : { deadlines: settings.deadlines }),
    ...(settings.mark === undefined ? {} : { loopbackSecret: settings.mark }),
  });
  const [bound] = await listener.listen([{ host, port: 0 }]);
  onTestFinished(() => listener.close(0));
  const port = bound?.port ?? 0;
  return {
    port,
    store,
    listener,
    client: () => SmtpClient.open(port),
    async taken() {
      const rows = await store.read.selectFrom('inbound').selectAll().orderBy('id').execute();
      return Promise.all(
        rows.map(async ({ id, sender, recipients, trace, encoding }) => {
          const pieces: Uint8Array[] = [];
          for await (const piece of rawChunks(store, id)) pieces.push(piece);
          const raw = Buffer.concat(pieces).toString('latin1');
          return { id, sender, recipients: JSON.parse(recipients) as string[], raw, trace, encoding };
        }),
      );
    },
    async log() {
      // What was written before a reply left is on the disk before this.
      await store.write([]);
      return store.read
        .selectFrom('inbound_log')
        .select(['recipient', 'outcome', 'reply', 'reason', 'tenant'])
        .orderBy('id')
        .execute();
    },
  };
}

/** The return path of a message, as the listener of a test knows it. */
export function returnPathOf(message: string): string {
  return returnPath(message, { secret: RETURN_SECRET, hostname: HOSTNAME });
}

/** A client that sends what it is told, and reads reply by reply. */
export class SmtpClient {
  socket: Socket;
  #text = '';
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    this.#hear(socket);
  }

  /** Connects without waiting for the greeting. */
  static async raw(port: number, host = '127.0.0.1', localAddress?: string): Promise<SmtpClient> {
    const socket = connect({ port, host, noDelay: true, ...(localAddress === undefined ? {} : { localAddress }) });
    const client = new SmtpClient(socket);
    await once(socket, 'connect');
    return client;
  }

  static async open(port: number, host = '127.0.0.1'): Promise<SmtpClient> {
    const client = await SmtpClient.raw(port, host);
    await client.reply();
    return client;
  }

  #hear(socket: Socket): void {
    socket.on('data', (bytes: Buffer) => {
      this.#text += bytes.toString('latin1');
      this.#wake?.();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#ended = true;
      this.#wake?.();
    });
    onTestFinished(() => void socket.destroy());
  }

  write(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /** The next whole reply, its lines joined by line feeds; `closed` where there is none. */
  async reply(): Promise<string> {
    for (;;) {
      const found = /^(?:\d{3}-[^\n]*\n)*\d{3}[ \r][^\n]*\n/.exec(this.#text);
      if (found !== null) {
        this.#text = this.#text.slice(found[0].length);
        return found[0].replaceAll('\r\n', '\n').trimEnd();
      }
      if (this.#ended) return 'closed';
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Sends a command and reads its reply. */
  say(command: string): Promise<string> {
    this.write(`${command}\r\n`);
    return this.reply();
  }

  /** A whole transaction from EHLO on; of the message each line that begins with a dot is stuffed. Answers the reply to it. */
  async send(message: string | Buffer, { from = 'x@sender.test', to = ['info@example.test'] } = {}): Promise<string> {
    await this.say('EHLO client.test');
    await this.say(`MAIL FROM:<${from}>`);
    for (const each of to) await this.say(`RCPT TO:<${each}>`);
    const go = await this.say('DATA');
    if (!go.startsWith('354')) return go;
    this.write(message);
    this.write('\r\n.\r\n');
    return this.reply();
  }

  /** Goes on in TLS, after STARTTLS was answered. */
  async secure(): Promise<void> {
    this.socket.removeAllListeners('data');
    const socket = connectTls({ socket: this.socket, rejectUnauthorized: false });
    this.#hear(socket);
    this.socket = socket;
    await once(socket, 'secureConnect');
  }

  close(): void {
    this.socket.destroy();
  }
}
