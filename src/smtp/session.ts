/**
 * One client at the door, on smtp-server's connection: the dialogue up to a whole message (RFC 5321 §3), with what that
 * leaves to us: our own reading of the wire and of addresses, deadlines that dripping does not stretch, no word before the
 * greeting or out of turn (RFC 2920 §3.1), and no end to patience with errors.
 */
import { hash, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js';
import type { SMTPServer, SMTPServerAddress } from 'smtp-server';
import type { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { MAX_DELIVERIES } from '../config/forwarding.ts';
import { errorFields } from '../lib/errors.ts';
import { Reception } from './receive.ts';
import { deliveriesFor, type Accepted } from './recipients.ts';
import { Visitor, type SessionParts, type SmtpDoor } from './session-parts.ts';
import { Wire } from './wire.ts';
import { needsSmtpUtf8, parseAddress } from '../lib/addresses.ts';
import type { Refusal } from './header-check.ts';

type Done = () => void;

interface Transaction {
  readonly sender: string;
  readonly accepted: Map<string, Accepted>;
  readonly began: number;
}

/** Commands that bring no message nearer; so many of them between two messages. */
const MOST_IDLE_COMMANDS = 100;
/** After these the client must wait for the reply before it says more. */
const LAST_OF_GROUP = new Set(['EHLO', 'HELO', 'STARTTLS', 'DATA']);

export class Session extends SMTPConnection {
  readonly #parts: SessionParts;
  readonly #leave: () => void;
  #transaction: Transaction | undefined;
  #reception: Reception | undefined;
  #idleCommands = 0;
  #errors = 0;
  /** Whose turn it is; `ours` has no deadline of the client's. */
  #turn: 'client' | 'ours' = 'client';
  #began: number;
  #turnBegan: number;
  #isWindingUp = false;
  #isOwn = false;

  constructor(
    server: SMTPServer,
    { socket, options }: { readonly socket: Socket; readonly options: SMTPConnectionOptions | null | undefined },
    { parts, leave }: { readonly parts: SessionParts; readonly leave: () => void },
  ) {
    super(server, socket, options);
    this.#parts = parts;
    this.#leave = leave;
    this.#began = this.#turnBegan = parts.clock.monotonic();
  }

  /** Greets at once, unless the client has spoken first. */
  override init(): void {
    this._setListeners(() => {
      setImmediate(() => {
        if (this._closing || this._closed) return;
        if (this.#wire?.hasMore === true) this.send(421, '4.7.0 You talk too soon');
        else this.connectionReady();
      });
    });
  }

  get #wire(): Wire | undefined {
    return this._parser instanceof Wire ? this._parser : undefined;
  }

  get #smtp(): SmtpDoor {
    const user: unknown = this.session.user;
    return user instanceof Visitor ? user.door : this.#parts.smtp;
  }

  /** AUTH is not to be heard of in clear text: a client that offers its key there has lost it, whatever we say. */
  override _isSupported(command: string): boolean {
    return super._isSupported(command) && (command !== 'AUTH' || this.secure);
  }

  override _createParser(): SMTPStream {
    const wire = new Wire();
    wire.oncommand = (command, callback) => this._onCommand(command, callback);
    wire.on('error', (error) => this.send(421, `4.7.0 ${error.message}`));
    // The client has ended its side, and has been answered to all that it said.
    wire.once('finish', () => this.close());
    return wire;
  }

  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    const text = typeof data === 'string' ? data : '';
    const socket = this._socket;
    // Replies to commands that came together leave together (RFC 2920 §3.2), at the end of the turn at the latest.
    const isLast = this.#wire?.hasMore !== true;
    if (!isLast && socket.writableCorked === 0) {
      socket.cork();
      setImmediate(() => socket.uncork());
    }
    // A reply of ours brings its own enhanced code (RFC 2034).
    if (socket.readyState === 'writeOnly') this.#sendLate(code, data);
    else super.send(code, data, /^[245]\.\d{1,3}\.\d{1,3} /.test(text) ? false : context);
    if (isLast) socket.uncork();
    // 4.3.X is the state of this server (RFC 3463 §3.4): a full disk is no error of the client's.
    if (code < 400 || code === 421 || text.startsWith('4.3.') || this._closing) return;
    if (!this.#isOwn && !this.#parts.limits.err(this.remoteAddress, ++this.#errors))
      this.send(421, '4.7.0 Too many errors');
  }

  /**
   * To a client that has ended its side already, which smtp-server takes for gone. Exim does so behind a QUIT that it sends
   * with the end of its message; without the reply it would send the message again.
   */
  #sendLate(code: number, data?: string | string[] | null): void {
    const lines = [data ?? ''].flat();
    const text = lines.map((line, i) => `${code}${i < lines.length - 1 ? '-' : ' '}${line}\r\n`).join('');
    this._socket.write(text);
    if (code === 421) this.close();
  }

  override _onCommand(command: Buffer, callback?: Done): void {
    this.#turn = 'ours';
    const verb = command.subarray(0, 10).toString('latin1').split(' ', 1)[0]?.toUpperCase() ?? '';
    if (LAST_OF_GROUP.has(verb) && this.#wire?.hasMore === true) {
      this.send(421, '4.7.0 You talk too soon');
      return;
    }
    if (verb !== 'MAIL' && verb !== 'RCPT' && verb !== 'DATA' && ++this.#idleCommands > MOST_IDLE_COMMANDS) {
      this.send(421, '4.7.0 Too many commands without a message');
      return;
    }
    super._onCommand(command, callback);
  }

  override _whenWritable(next: Done): void {
    this.#clientsTurn();
    super._whenWritable(next);
  }

  #clientsTurn(): void {
    this.#turn = 'client';
    this.#turnBegan = this.#parts.clock.monotonic();
    if (this.#isWindingUp && this.#transaction === undefined && this._ready) this.send(421, '4.3.2 Shutting down');
  }

  /** No new transaction: the last one may end. */
  windUp(): void {
    this.#isWindingUp = true;
    if (this.#turn === 'client' && this.#transaction === undefined) this.send(421, '4.3.2 Shutting down');
  }

  /** Ends it where the client has had its time. */
  hurry(): void {
    const now = this.#parts.clock.monotonic();
    const { command, transaction, connection } = this.#parts.deadlines();
    const receiving = this.#wire?.isReceiving === true;
    const isLate =
      now - this.#began > connection + transaction ||
      (this.#turn === 'client' && !receiving && now - this.#turnBegan > command) ||
      (this.#turn === 'client' && this.#transaction !== undefined && now - this.#transaction.began > transaction) ||
      (this.#turn === 'client' && this.#transaction === undefined && now - this.#began > connection);
    if (!isLate) return;
    if (this._upgrading) this._socket.destroy();
    else this.send(421, '4.4.2 You took too long');
  }

  override _resetSession(): void {
    super._resetSession();
    this.#transaction = undefined;
  }

  /** Our own SMTP client: it has limits of its own, and its errors are those of whoever wrote to a wrong address. */
  handler_XOWN(command: Buffer, callback: Done): void {
    const { mark } = this.#parts;
    if (mark === undefined || !isSame(command.toString(), `XOWN ${mark}`)) {
      return this.#say('500 5.5.1 Command not recognized', callback);
    }
    this.#isOwn = true;
    this.#leave();
    return this.#say('250 2.0.0 Welcome home', callback);
  }

  override handler_MAIL(command: Buffer, callback: Done): void {
    const parsed = parsePath('MAIL FROM', command.toString());
    const smtp = this.#smtp;
    if (parsed === undefined) return this.#say('501 5.5.4 Syntax: MAIL FROM:<address>', callback);
    if (this._rejectInvalidParams(parsed, ['BODY', 'SIZE'], callback)) return undefined;
    const offered = ['SIZE', 'BODY', 'SMTPUTF8', ...(this._isSupported('AUTH') ? ['AUTH'] : [])];
    if (this.#refuseParameters(parsed, offered, callback)) return undefined;
    if (this.#transaction !== undefined) return this.#say('503 5.5.1 Nested MAIL command', callback);
    const fault = this._validateMailParams(parsed);
    if (fault !== null) {
      this.send(fault.code, fault.message, fault.enhancedCode ?? undefined);
      return callback();
    }
    const sender = readSender(parsed.address, parsed.args !== false && parsed.args['SMTPUTF8'] !== undefined);
    if ('refusal' in sender) return this.#refuse(sender.refusal, { sender: parsed.address, callback });
    const outage = smtp.outage();
    if (outage !== undefined) return this.#refuse(outage, { sender: parsed.address, callback });
    this._applyMailParams(parsed);
    this.session.envelope.mailFrom = parsed;
    this.#transaction = { sender: sender.address, accepted: new Map(), began: this.#parts.clock.monotonic() };
    return this.#say('250 2.1.0 Accepted', callback);
  }

  /** Whether one was refused that is of no extension which EHLO offers (RFC 5321 §4.1.1.11): nothing would come of it. */
  #refuseParameters({ args }: PathCommand, offered: readonly string[], callback: Done): boolean {
    const unknown = Object.keys(args || {}).find((name) => !offered.includes(name));
    if (unknown !== undefined) this.#say(`555 5.5.4 The parameter ${unknown.slice(0, 50)} is not supported`, callback);
    return unknown !== undefined;
  }

  /** A refusal of the whole transaction, written down. */
  #refuse(
    { reply, reason }: { readonly reply: string; readonly reason: string },
    { sender, callback }: { readonly sender: string; readonly callback: Done },
  ): void {
    const { ip, helo } = this.#client();
    this.#smtp.record([{ ip, helo, sender, recipient: '', tenant: null, domain: null, reply, reason }]);
    this.#say(reply, callback);
  }

  override handler_RCPT(command: Buffer, callback: Done): void {
    const parsed = parsePath('RCPT TO', command.toString());
    const transaction = this.#transaction;
    if (parsed === undefined || parsed.address === '') {
      return this.#say('501 5.1.3 Syntax: RCPT TO:<address>', callback);
    }
    if (this._rejectInvalidParams(parsed, [], callback)) return undefined;
    if (this.#refuseParameters(parsed, [], callback)) return undefined;
    if (transaction === undefined) return this.#say('503 5.5.1 MAIL first', callback);
    void this.#recipient(parsed.address, transaction).then((reply) => this.#say(reply, callback));
    return undefined;
  }

  /** The reply to RCPT. Never rejects. */
  async #recipient(address: string, { sender, accepted }: Transaction): Promise<string> {
    const smtp = this.#smtp;
    const { log } = this.#parts;
    try {
      const decision = await smtp.decide(address, sender);
      if (decision.kind === 'refuse') {
        smtp.record([{ ...this.#client(), sender, recipient: address, ...decision }]);
        return decision.reply;
      }
      const key = decision.original.toLowerCase();
      if (!accepted.has(key) && isFull(accepted, decision, smtp.mostRecipients()))
        return '452 4.5.3 Too many recipients';
      accepted.set(key, decision);
      return '250 2.1.5 Accepted';
    } catch (error) {
      log.error('inbound.recipient_not_decided', errorFields(error));
      return '451 4.3.0 Try again later';
    }
  }

  override handler_DATA(command: Buffer, callback: Done): void {
    const transaction = this.#transaction;
    const wire = this.#wire;
    if (command.length !== 4) return this.#say('501 5.5.4 Syntax: DATA', callback);
    if (transaction === undefined || transaction.accepted.size === 0 || wire === undefined) {
      return this.#say('503 5.5.1 RCPT first', callback);
    }
    const envelope = {
      ...this.#client(),
      sender: transaction.sender,
      smtpUtf8: this.session.envelope.smtpUtf8 === true,
      recipients: [...transaction.accepted.values()],
    };
    const reception = new Reception(this.#smtp.receive, envelope, {
      reply: (reply) => {
        this.#reception = undefined;
        this.#idleCommands = 0;
        if (reply.startsWith('250') && !this.#isOwn) this.#parts.limits.taken(this.remoteAddress);
        this._resetSession();
        this.#say(reply, () => wire.proceed());
      },
      stop: (reply) => {
        this.#say(reply, () => this.close());
      },
    });
    this.#reception = reception;
    wire.receive({
      write: (bytes) => reception.write(bytes),
      spoil: () => reception.spoil(),
      end: () => {
        this.#turn = 'ours';
        reception.end();
      },
    });
    this.#say('354 End data with <CR><LF>.<CR><LF>', callback);
    return undefined;
  }

  /**
   * Hangs up behind the reply (RFC 5321 §4.1.1.10), where all of it is on its way and nothing more has come: to wait until
   * the client does is a timer, a read, and an error where it is gone already. Within TLS it is owed a goodbye.
   */
  override handler_QUIT(command: Buffer, callback: Done): void {
    if (this.secure || this.#wire?.hasMore === true) return super.handler_QUIT(command, callback);
    this.send(221, 'Bye');
    if (this._socket.writableLength > 0) this.close();
    else this._socket.destroy();
    return callback();
  }

  #client() {
    const { tlsOptions, transmissionType: protocol, hostNameAppearsAs: helo } = this.session;
    const tls = tlsOptions === false ? null : tlsOptions.version;
    return { ip: this.remoteAddress, helo: helo || '', tls, protocol, isOwn: this.#isOwn };
  }

  #say(reply: string, then: Done): void {
    this.send(Number(reply.slice(0, 3)), reply.slice(4), false);
    this._whenWritable(then);
  }

  override _onClose(): void {
    super._onClose();
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

// * The one reading of `MAIL FROM:<…>` and `RCPT TO:<…>` (RFC 5321 §4.1.2), quoted locals included, so that what is refused
// as an address is refused by who decides and is written down. A source route is read over, as appendix C has it. Linear.

export interface PathCommand extends SMTPServerAddress {
  /** A parameter that stands there twice. */
  duplicate?: string;
}

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL = /[\x00-\x1f\x7f]/;
const ROUTE = /^@[^\s,:@"]+(?:,@[^\s,:@"]+)*:/;

/** What the line says, or undefined; `verb` is `MAIL FROM` or `RCPT TO`. */
function parsePath(verb: string, line: string): PathCommand | undefined {
  const colon = line.indexOf(':');
  if (colon < 0 || line.slice(0, colon).trimEnd().toUpperCase() !== verb || CONTROL.test(line)) return undefined;
  const rest = line.slice(colon + 1).trimStart();
  const end = pathEnd(rest);
  if (end === undefined) return undefined;
  const parameters = rest.slice(end + 1);
  if (parameters !== '' && !parameters.startsWith(' ')) return undefined;
  const address = rest.slice(1, end).replace(ROUTE, '');
  const read = readParameters(parameters);
  if (read === undefined) return undefined;
  const { args, duplicate } = read;
  if (Object.values(args).some((value) => typeof value === 'string' && CONTROL.test(value))) return undefined;
  return {
    address,
    args: Object.keys(args).length === 0 ? false : args,
    ...(duplicate === undefined ? {} : { duplicate }),
  };
}

/** Where the path's `>` stands; within quotes it is a letter like others. */
function pathEnd(rest: string): number | undefined {
  if (!rest.startsWith('<')) return undefined;
  let quoted = false;
  for (let i = 1; i < rest.length; i++) {
    const letter = rest.charAt(i);
    if (quoted && letter === '\\') i++;
    else if (letter === '"') quoted = !quoted;
    else if (!quoted && letter === '>') return i;
    else if (!quoted && letter === '<') return undefined;
  }
  return undefined;
}

interface Parameters {
  readonly args: Record<string, string | true>;
  readonly duplicate: string | undefined;
}

/** Undefined where something stands there that is none, such as a second path. */
function readParameters(text: string): Parameters | undefined {
  const args: Record<string, string | true> = {};
  let duplicate: string | undefined;
  for (const parameter of text.split(' ').filter((each) => each !== '')) {
    const [name = '', ...value] = parameter.split('=');
    const key = name.toUpperCase();
    if (!/^[A-Z0-9][A-Z0-9-]*$/.test(key)) return undefined;
    if (Object.hasOwn(args, key)) duplicate = key;
    args[key] = value.length === 0 ? true : decodeXtext(value.join('='));
  }
  return { args, duplicate };
}

/** RFC 3461 §4 */
function decodeXtext(value: string): string {
  return value.replaceAll(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

// The envelope sender, in its normal form.

/** The sender as MAIL FROM has it, empty for the null sender; or why it is not taken: bounces could not find back to it. */
function readSender(text: string, smtpUtf8: boolean): { readonly address: string } | { readonly refusal: Refusal } {
  if (text === '') return { address: '' };
  const parsed = parseAddress(text);
  if (parsed === undefined) {
    return { refusal: { reply: '553 5.1.7 the sender is no address that mail could go to', reason: 'invalid_sender' } };
  }
  if (needsSmtpUtf8(parsed.address) && !smtpUtf8) {
    return { refusal: { reply: '553 5.6.7 this sender needs SMTPUTF8', reason: 'invalid_sender' } };
  }
  return { address: parsed.address };
}
