/**
 * One SMTP client: the dialogue up to a whole message (RFC 5321 §3). smtp-server runs it (smtp-server.ts); ours are the
 * reading of addresses, deadlines that a dripping client does not stretch, the limits on errors and idle commands, and the
 * rule that nobody talks before the greeting or out of turn (RFC 2920 §3.1).
 */
import { hash, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import type { SMTPServer, SMTPServerEnvelope } from 'smtp-server';
import { MAX_DELIVERIES } from '../config/forwarding.ts';
import { needsSmtpUtf8, parseAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Refusal } from '../mail/auth-results.ts';
import { Reception, type ReceiveParts } from './receive.ts';
import { deliveriesFor, type Accepted, type Decision } from './recipients.ts';
import { Connection, type ConnectionDetails, type Done } from './smtp-server.ts';

/** What a client may do, and what becomes of its mail. */
export interface SmtpPolicy extends ReceiveParts {
  /** What becomes of mail from this sender for the address as given in RCPT. */
  readonly decide: (address: string, sender: string) => Promise<Decision>;
  /** Why no mail is accepted at the moment; undefined as a rule. */
  readonly outage: () => Refusal | undefined;
  readonly maxRecipients: () => number;
}

/** How long a client may take, ms. */
export interface Deadlines {
  /** For its next command. */
  readonly command: number;
  /** From MAIL to the end of the message. */
  readonly transaction: number;
  /** Then it may begin nothing more. */
  readonly connection: number;
}

export interface SessionParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Counts what the client does wrong, and what it brings. */
  readonly limits: { addError(ip: string, count: number): boolean; addMessage(ip: string): void };
  readonly deadlines: () => Deadlines;
  /** Until the client has authenticated, where it can. */
  readonly policy: SmtpPolicy;
  /** With this the daemon's own SMTP client authenticates; without it nobody can. */
  readonly loopbackSecret?: string | undefined;
}

/** What a client that has authenticated is to smtp-server: the session's user. */
export class SmtpUser {
  readonly policy: SmtpPolicy;

  constructor(policy: SmtpPolicy) {
    this.policy = policy;
  }
}

interface Transaction {
  /** RSET, EHLO and STARTTLS replace it, which ends the transaction. */
  readonly envelope: SMTPServerEnvelope;
  readonly sender: string;
  readonly accepted: Map<string, Accepted>;
  readonly began: number;
}

/** Commands between two messages that belong to none. */
const MAX_IDLE_COMMANDS = 100;
/** After these the client must wait for the reply before it says more. */
const LAST_OF_GROUP = new Set(['EHLO', 'HELO', 'STARTTLS', 'DATA']);

const MAIL_PARAMETERS = new Set(['SIZE', 'BODY', 'SMTPUTF8']);
const MAIL_PARAMETERS_OF_USERS = new Set([...MAIL_PARAMETERS, 'AUTH']);

export class Session extends Connection {
  readonly #parts: SessionParts;
  readonly #leave: () => void;
  #transaction: Transaction | undefined;
  /** The path of the MAIL in hand. */
  #sender = '';
  #reception: Reception | undefined;
  #idleCommands = 0;
  #errors = 0;
  /** Whether the client waits for us; then it has no deadline but the connection's. */
  #isBusy = false;
  readonly #began: number;
  /** Since when it has been the client's turn. */
  #turnBegan: number;
  #isOwn = false;

  constructor(
    server: SMTPServer,
    { socket, details }: { readonly socket: Socket; readonly details: ConnectionDetails },
    { parts, leave }: { readonly parts: SessionParts; readonly leave: () => void },
  ) {
    super(server, socket, details);
    this.#parts = parts;
    this.#leave = leave;
    this.#began = this.#turnBegan = parts.clock.monotonic();
  }

  get #policy(): SmtpPolicy {
    const user: unknown = this.session.user;
    return user instanceof SmtpUser ? user.policy : this.#parts.policy;
  }

  get #open(): Transaction | undefined {
    return this.#transaction?.envelope === this.session.envelope ? this.#transaction : undefined;
  }

  override beforeCommand(verb: string, hasMore: boolean): string | undefined {
    this.#turnBegan = this.#parts.clock.monotonic();
    if (LAST_OF_GROUP.has(verb) && hasMore) return '421 4.7.0 Command sent before the reply';
    const isIdle = verb !== 'MAIL' && verb !== 'RCPT' && verb !== 'DATA';
    return isIdle && ++this.#idleCommands > MAX_IDLE_COMMANDS
      ? '421 4.7.0 Too many commands without a message'
      : undefined;
  }

  override countError(text: string): void {
    // 4.3.X is the state of this server (RFC 3463 §3.4): a full disk is no error of the client's.
    if (this.#isOwn || text.startsWith('4.3.')) return;
    if (!this.#parts.limits.addError(this.remoteAddress, ++this.#errors)) this.reply('421 4.7.0 Too many errors');
  }

  /** Waits for what is ours to do: the client is not late meanwhile. */
  async busy<T>(work: Promise<T>): Promise<T> {
    this.#isBusy = true;
    try {
      return await work;
    } finally {
      this.#isBusy = false;
      this.#turnBegan = this.#parts.clock.monotonic();
    }
  }

  override secured(socket: Socket): void {
    super.secured(socket);
    this.session.disabledCommands = undefined;
  }

  /** Ends it where no transaction is under way. */
  windUp(): void {
    if (!this.#isBusy && this.#open === undefined) this.reply('421 4.3.2 Shutting down');
  }

  /** Ends it where the client has had its time. */
  enforceDeadlines(): void {
    const now = this.#parts.clock.monotonic();
    const { command, transaction, connection } = this.#parts.deadlines();
    const open = this.#open;
    const isLate =
      now - this.#began > connection + transaction ||
      (!this.#isBusy &&
        ((!this.wire.isReceiving && now - this.#turnBegan > command) ||
          (open === undefined ? now - this.#began > connection : now - open.began > transaction)));
    if (isLate) this.reply('421 4.4.2 Timeout');
  }

  /** The daemon's own SMTP client, with mail for a domain that is forwarded here: it has limits of its own. */
  override loopback(line: string): string {
    const { loopbackSecret: secret } = this.#parts;
    if (secret === undefined || !isSame(line, `XOWN ${secret}`)) return '500 5.5.1 Command not recognized';
    this.#isOwn = true;
    this.#leave();
    return '250 2.0.0 Accepted';
  }

  override mail(line: string, done: Done): void {
    const path = parsePath('MAIL FROM', line);
    if (path === undefined) return this.#finish('501 5.5.4 Syntax: MAIL FROM:<address>', done);
    const offered = this.session.user instanceof SmtpUser ? MAIL_PARAMETERS_OF_USERS : MAIL_PARAMETERS;
    // RFC 5321 §4.1.1.11
    const unknown = path.parameters.find((name) => !offered.has(name));
    if (unknown !== undefined) return this.#finish(unsupported(unknown), done);
    this.#sender = path.address;
    return this.openTransaction(path.rest, done);
  }

  /** smtp-server found nothing wrong with MAIL: the reply that refuses it all the same, or nothing. */
  begin(): string | undefined {
    const { envelope } = this.session;
    const sender = readSender(this.#sender, envelope.smtpUtf8 === true);
    const refusal = 'refusal' in sender ? sender.refusal : this.#policy.outage();
    if (refusal !== undefined) {
      const { ip, helo } = this.#client();
      const whole = { ip, helo, sender: this.#sender, recipient: '', tenant: null, domain: null };
      this.#policy.record([{ ...whole, ...refusal }]);
      return refusal.reply;
    }
    if ('address' in sender) {
      const began = this.#parts.clock.monotonic();
      this.#transaction = { envelope, sender: sender.address, accepted: new Map(), began };
    }
    return undefined;
  }

  override recipient(line: string, done: Done): void {
    const path = parsePath('RCPT TO', line);
    const transaction = this.#open;
    if (path === undefined || path.address === '') return this.#finish('501 5.1.3 Syntax: RCPT TO:<address>', done);
    const [parameter] = path.parameters;
    if (parameter !== undefined) return this.#finish(unsupported(parameter), done);
    if (transaction === undefined) return this.#finish('503 5.5.1 Send MAIL first', done);
    void this.busy(this.#decide(path.address, transaction)).then((reply) => this.#finish(reply, done));
  }

  /** The reply to RCPT. Never rejects. */
  async #decide(address: string, { sender, accepted }: Transaction): Promise<string> {
    const policy = this.#policy;
    try {
      const decision = await policy.decide(address, sender);
      if (decision.kind === 'refuse') {
        policy.record([{ ...this.#client(), sender, recipient: address, ...decision }]);
        return decision.reply;
      }
      const key = decision.original.toLowerCase();
      if (!accepted.has(key) && isFull(accepted, decision, policy.maxRecipients()))
        return '452 4.5.3 Too many recipients';
      accepted.set(key, decision);
      return '250 2.1.5 Accepted';
    } catch (error) {
      this.#parts.log.error('inbound.recipient_check_failed', errorFields(error));
      return '451 4.3.0 Try again later';
    }
  }

  override data(line: string, done: Done): void {
    const transaction = this.#open;
    const { wire } = this;
    if (line.length !== 4) return this.#finish('501 5.5.4 Syntax: DATA', done);
    if (transaction === undefined || transaction.accepted.size === 0) {
      return this.#finish('503 5.5.1 Send RCPT first', done);
    }
    const envelope = {
      ...this.#client(),
      sender: transaction.sender,
      smtpUtf8: transaction.envelope.smtpUtf8 === true,
      recipients: [...transaction.accepted.values()],
    };
    const reception = new Reception(this.#policy, envelope, (reply) => {
      this.reply(reply);
      this.close();
    });
    this.#reception = reception;
    wire.receive({
      write: (bytes) => reception.write(bytes),
      spoil: () => reception.spoil(),
      end: () => {
        const replied = reception.end();
        if (replied === undefined) return;
        void this.busy(replied).then((reply) => {
          this.#endTransaction(reply);
          wire.proceed();
        });
      },
    });
    return this.#finish('354 End data with <CR><LF>.<CR><LF>', done);
  }

  #endTransaction(reply: string): void {
    this.#reception = undefined;
    this.#idleCommands = 0;
    if (reply.startsWith('250') && !this.#isOwn) this.#parts.limits.addMessage(this.remoteAddress);
    const { envelope } = this.session;
    this.session.envelope = { ...envelope, mailFrom: false, rcptTo: [], bodyType: '7bit', smtpUtf8: false };
    this.reply(reply);
  }

  #client() {
    const { tlsOptions, transmissionType: protocol, hostNameAppearsAs: helo } = this.session;
    const tls = tlsOptions === false ? null : tlsOptions.version;
    return { ip: this.remoteAddress, helo: helo || '', tls, protocol, isOwn: this.#isOwn };
  }

  #finish(reply: string, done: Done): void {
    this.reply(reply);
    done();
  }

  /** The connection is gone; smtp-server's hook `onClose`. */
  ended(): void {
    this.#leave();
    this.#reception?.giveUp();
  }
}

/** Whether the transaction takes no more: the client sends to the others in another one (RFC 5321 §4.5.3.1.10). */
function isFull(accepted: ReadonlyMap<string, Accepted>, next: Accepted, most: number): boolean {
  const deliveries = [...accepted.values(), next].reduce((sum, each) => sum + deliveriesFor(each), 0);
  return accepted.size >= most || deliveries > MAX_DELIVERIES;
}

/** In a time that says nothing of how much is the same. */
function isSame(text: string, secret: string): boolean {
  const [a, b] = [text, secret].map((each) => hash('sha256', each, 'buffer'));
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

function unsupported(parameter: string): string {
  return `555 5.5.4 The parameter ${parameter.slice(0, 50)} is not supported`;
}

interface Path {
  readonly address: string;
  /** Upper-case names of its parameters. */
  readonly parameters: readonly string[];
  /** The parameters as they stand. */
  readonly rest: string;
}

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL = /[\x00-\x1f\x7f]/;
const ROUTE = /^@[^\s,:@"]+(?:,@[^\s,:@"]+)*:/;

/**
 * Reads `MAIL FROM:<…>` and `RCPT TO:<…>` (RFC 5321 §4.1.2), quoted local parts included, so that an address that we refuse
 * is in the log. A source route is skipped (appendix C). Linear.
 */
function parsePath(verb: string, line: string): Path | undefined {
  const colon = line.indexOf(':');
  if (colon < 0 || line.slice(0, colon).trimEnd().toUpperCase() !== verb || CONTROL.test(line)) return undefined;
  const text = line.slice(colon + 1).trimStart();
  const end = pathEnd(text);
  if (end === undefined) return undefined;
  const rest = text.slice(end + 1);
  if (rest !== '' && !rest.startsWith(' ')) return undefined;
  const parameters = rest
    .split(' ')
    .filter((each) => each !== '')
    .map((each) => each.split('=', 1)[0]?.toUpperCase() ?? '');
  // A second path, for one.
  if (!parameters.every((name) => /^[A-Z0-9][A-Z0-9-]*$/.test(name))) return undefined;
  return { address: text.slice(1, end).replace(ROUTE, ''), parameters, rest };
}

/** Where the `>` of the path stands; within quotes it has no meaning. */
function pathEnd(text: string): number | undefined {
  if (!text.startsWith('<')) return undefined;
  let quoted = false;
  for (let i = 1; i < text.length; i++) {
    const character = text.charAt(i);
    if (quoted && character === '\\') i++;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === '>') return i;
    else if (!quoted && character === '<') return undefined;
  }
  return undefined;
}

/** The sender as MAIL FROM has it, empty for the null sender; or why it is not taken: bounces could not find back to it. */
function readSender(text: string, smtpUtf8: boolean): { readonly address: string } | { readonly refusal: Refusal } {
  if (text === '') return { address: '' };
  const parsed = parseAddress(text);
  if (parsed === undefined) {
    return { refusal: { reply: '553 5.1.7 the sender is not a valid address', reason: 'invalid_sender' } };
  }
  if (needsSmtpUtf8(parsed.address) && !smtpUtf8) {
    return { refusal: { reply: '553 5.6.7 this sender needs SMTPUTF8', reason: 'invalid_sender' } };
  }
  return { address: parsed.address };
}
