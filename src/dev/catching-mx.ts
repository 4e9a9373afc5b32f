/**
 * A mail server on loopback that takes every mail for every recipient, judges it as a receiver would (verdicts.ts) and
 * keeps it (caught-mail.ts). It answers 250 only when the mail is judged and kept, so that what a sender was told is
 * there to be looked at. It can be told to refuse recipients and mails, which is what tests of delivery need.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { domainToASCII } from 'node:url';
import type { SMTPServerAddress, SMTPServerDataStream, SMTPServerOptions, SMTPServerSession } from 'smtp-server';
import type { Resolver } from '../dns/resolver.ts';
import { systemClock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { PromptConnection, Server } from '../smtp/smtp-server.ts';
import { type CaughtMail, type CaughtMails, openCaughtMails } from './caught-mail.ts';
import { selfSignedCertificate } from '../lib/x509.ts';
import { readMail } from './read-mail.ts';
import { judge } from './verdicts.ts';

/** Where in a session a client is. */
export interface Step {
  /** `data`: the whole mail has come and waits for its reply. */
  readonly stage: 'rcpt' | 'data';
  /** Envelope sender; empty for the null sender. */
  readonly from: string;
  /** The recipients so far; at `rcpt` the one in question is the last. */
  readonly to: readonly string[];
}

/** A reply that refuses. */
export interface Behaviour {
  readonly code: number;
  readonly text: string;
}

export interface CatchingMx {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
  readonly port: number;
  readonly mails: CaughtMails;
  /** PEM of what STARTTLS shows, for a client that wants to trust it. */
  readonly certificate: string;
  /** What to answer from now on; undefined takes the recipient or the mail. */
  behave(how: (step: Step) => Behaviour | undefined): void;
  close(): Promise<void>;
}

export interface CatchingMxOptions {
  /** Where the mails are kept. */
  readonly folder: string;
  /** Our name in the greeting and in the certificate. */
  readonly hostname: string;
  /** Asked for what DKIM, SPF and DMARC need. */
  readonly resolver: Resolver;
  readonly log: Log;
  /** Whether STARTTLS is offered; default: true. */
  readonly tls?: boolean;
}

const MOST_BYTES = 32 * 1024 * 1024;
const MOST_CONNECTIONS = 200;
const MOST_CHARACTERS = 500;

/** Starts on 127.0.0.1. */
export async function startCatchingMx(options: CatchingMxOptions): Promise<CatchingMx> {
  const { hostname, log, tls = true } = options;
  const mails = await openCaughtMails(options.folder, log);
  const inTurn = oneAtATime();
  let behave: Parameters<CatchingMx['behave']>[0] | undefined;

  function step(stage: Step['stage'], session: SMTPServerSession, address?: SMTPServerAddress): Step {
    const { mailFrom, rcptTo } = session.envelope;
    const to = address === undefined ? rcptTo : [...rcptTo, address];
    return {
      stage,
      from: mailFrom ? onTheWire(mailFrom.address) : '',
      to: to.map((one) => onTheWire(one.address)),
    };
  }

  function answer(how: Behaviour | undefined, reply: Reply): void {
    reply(how && Object.assign(new Error(how.text), { responseCode: how.code }));
  }

  async function take(stream: SMTPServerDataStream, session: SMTPServerSession, reply: Reply): Promise<void> {
    const { id, path } = mails.begin(systemClock.now());
    try {
      await pipeline(stream, upToTheLimit, createWriteStream(path));
      const here = step('data', session);
      const how = stream.sizeExceeded ? TOO_BIG : behave?.(here);
      if (how === undefined) {
        await mails.keep({ id, at: systemClock.now(), ...(await inTurn(() => examined(path, here, session))) });
        log.debug('outbox.caught', { id, from: here.from, to: here.to });
      } else {
        await mails.drop(id);
      }
      answer(how, reply);
    } catch (error) {
      await mails.drop(id);
      log.debug('outbox.not_caught', errorFields(error));
      answer({ code: 451, text: '4.3.0 could not be stored' }, reply);
    }
  }

  async function examined(path: string, { from, to }: Step, session: SMTPServerSession): Promise<Examined> {
    const { remoteAddress: client, hostNameAppearsAs: helo, tlsOptions } = session;
    const source = await readFile(path);
    const mail = await readMail(source);
    return {
      envelope: { from, to, client, helo, tls: tlsOptions === false ? null : tlsOptions.version },
      size: source.length,
      from: mail.from.slice(0, MOST_CHARACTERS),
      to: mail.to.slice(0, MOST_CHARACTERS),
      subject: mail.subject.slice(0, MOST_CHARACTERS),
      attachments: mail.attachments.length,
      verdicts: await judge(createReadStream(path), { client, helo, from, hostname }, options.resolver),
    };
  }

  const { key, cert } = selfSignedCertificate([hostname], systemClock.now());
  const server = new PromptServer({
    key,
    cert,
    name: hostname,
    minVersion: 'TLSv1.2',
    logger: false,
    disabledCommands: ['AUTH', 'WIZ', 'SHELL', 'KILL', ...(tls ? [] : ['STARTTLS'])],
    disableReverseLookup: true,
    size: MOST_BYTES,
    maxClients: MOST_CONNECTIONS,
    maxRecipients: 1000,
    closeTimeout: 1000,
    onRcptTo: (address, session, reply) => answer(behave?.(step('rcpt', session, address)), reply),
    onData: (stream, session, reply) => void take(stream, session, reply),
  });
  server.on('error', (error) => log.debug('outbox.connection', errorFields(error)));
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const bound = server.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the mail server has no port');

  let closed: Promise<void> | undefined;
  function close(): Promise<void> {
    const done = new Promise<void>((resolve) => server.close(resolve));
    server.cut();
    return done;
  }

  return {
    address: `127.0.0.1:${bound.port}`,
    port: bound.port,
    mails,
    certificate: cert,
    behave(how) {
      behave = how;
    },
    close: () => (closed ??= close()),
  };
}

type Reply = (error?: Error | null) => void;
type Examined = Omit<CaughtMail, 'id' | 'at'>;

const TOO_BIG = { code: 552, text: '5.3.4 too large for the outbox' } as const;

/** The rest is read, so that the sender gets its reply, but not kept. */
async function* upToTheLimit(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let size = 0;
  for await (const chunk of source) {
    size += chunk.length;
    if (size <= MOST_BYTES) yield chunk;
  }
}

/** smtp-server decodes A-labels; the envelope is shown as it was sent. */
function onTheWire(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = domainToASCII(address.slice(at + 1));
  return at === -1 || domain === '' ? address : `${address.slice(0, at)}@${domain}`;
}

/** A mail is read into memory to be examined: one after the other keeps that to one mail's size. */
function oneAtATime(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work);
    last = mine.catch(() => undefined);
    return mine;
  };
}

/**
 * smtp-server without its pause of 100 ms before each greeting, which on loopback only makes every delivery of `npm start`
 * and of a test that much slower.
 */
export class PromptServer extends Server<PromptConnection> {
  constructor(options: SMTPServerOptions) {
    super(options, (socket, details) => new PromptConnection(this, socket, details));
  }

  /** Ends all connections without a word. */
  cut(): void {
    for (const connection of this.connections) if (connection instanceof PromptConnection) connection.destroy();
  }
}
